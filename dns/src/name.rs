//! Domain names in wire form, compared and ordered the way DNS does.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// The longest name in wire form, in octets (RFC 1035 2.3.4).
pub const MAX_NAME: usize = 255;
/// The longest label, in octets (RFC 1035 2.3.4).
pub const MAX_LABEL: usize = 63;

/// A domain name: wire form (RFC 1035 3.1), letters as written, 1..=255 octets.
///
/// Equality, hash and order ignore ASCII case; the order is the canonical one (RFC 4034 6.1).
#[derive(Clone)]
pub struct Name(Box<[u8]>);

/// Why some octets or some text are no domain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No text at all.
    #[error("the name is empty")]
    Empty,
    /// Two dots in a row, or a dot in front.
    #[error("the name has an empty label (two dots in a row, or a leading dot)")]
    EmptyLabel,
    /// A label above 63 octets.
    #[error("a label is longer than 63 octets")]
    LabelTooLong,
    /// The whole name above 255 octets.
    #[error("the name is longer than 255 octets")]
    TooLong,
    /// A backslash that is not followed by a character or by three digits up to 255.
    #[error("a backslash must be followed by one character or by three digits up to 255")]
    BadEscape,
    /// A name without its trailing dot, where no origin is known.
    #[error("the name is relative and no origin is known")]
    Relative,
    /// Wire form that ends early, goes on after the root label, or is compressed.
    #[error("the octets are no uncompressed name")]
    BadWire,
}

impl Name {
    /// The root, `.`.
    pub fn root() -> Self {
        Self(Box::new([0]))
    }

    /// Takes a whole uncompressed name; nothing may follow it.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        if wire_len(wire)? == wire.len() { Ok(Self(wire.into())) } else { Err(NameError::BadWire) }
    }

    /// Reads RFC 1035 5.1 text. A name without a trailing dot is below `origin`; `@` is the origin itself.
    pub fn parse(text: &str, origin: Option<&Self>) -> Result<Self, NameError> {
        Self::parse_bytes(text.as_bytes(), origin)
    }

    /// [`Name::parse`] for text that need not be UTF-8: zone files may hold any octet.
    pub(crate) fn parse_bytes(text: &[u8], origin: Option<&Self>) -> Result<Self, NameError> {
        match text {
            [] => return Err(NameError::Empty),
            b"." => return Ok(Self::root()),
            b"@" => return origin.cloned().ok_or(NameError::Relative),
            _ => {}
        }
        let mut wire = Builder::new();
        let mut rest = text;
        let mut absolute = false;
        while let Some((&octet, tail)) = rest.split_first() {
            rest = tail;
            match octet {
                b'.' => {
                    wire.end_label()?;
                    absolute = rest.is_empty();
                }
                b'\\' => {
                    let (value, used) = unescape(rest).ok_or(NameError::BadEscape)?;
                    wire.push(value)?;
                    rest = rest.get(used..).unwrap_or_default();
                }
                plain => wire.push(plain)?,
            }
        }
        if absolute {
            return wire.finish(&[0]);
        }
        wire.end_label()?;
        wire.finish(&origin.ok_or(NameError::Relative)?.0)
    }

    /// The wire form, letters as written.
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// The labels from the leftmost on, without the root's empty one.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        Labels(&self.0)
    }

    /// The number of labels; the root has none.
    pub fn label_count(&self) -> usize {
        self.labels().count()
    }

    /// Whether this is `.`.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// Whether the leftmost label is `*` (RFC 4592 2.1.1).
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with(b"\x01*")
    }

    /// The name without its leftmost label; the root has no parent.
    pub fn parent(&self) -> Option<Self> {
        let label = self.labels().next()?;
        self.0.get(label.len() + 1..).map(|rest| Self(rest.into()))
    }

    /// The last `labels` labels of the name; `None` when it has fewer.
    pub(crate) fn suffix(&self, labels: usize) -> Option<Self> {
        let skipped = self.label_count().checked_sub(labels)?;
        let start: usize = self.labels().take(skipped).map(|label| label.len() + 1).sum();
        self.0.get(start..).map(|rest| Self(rest.into()))
    }

    /// The same name in lower case, the form DNSSEC signs (RFC 4034 6.2).
    pub fn to_lowercase(&self) -> Self {
        // length octets are at most 63, below 'A'
        Self(self.0.to_ascii_lowercase().into_boxed_slice())
    }

    /// Whether this is `ancestor` or a name below it, ignoring ASCII case.
    pub fn is_under(&self, ancestor: &Self) -> bool {
        let Some(extra) = self.0.len().checked_sub(ancestor.0.len()) else { return false };
        if !self.0.get(extra..).is_some_and(|tail| tail.eq_ignore_ascii_case(&ancestor.0)) {
            return false;
        }
        // the match must begin at a label, not inside one
        let mut at = 0;
        while at < extra {
            at += 1 + self.0.get(at).map_or(0, |&length| usize::from(length));
        }
        at == extra
    }

    /// This name with one more label in front.
    pub fn child(&self, label: &[u8]) -> Result<Self, NameError> {
        let mut wire = Builder::new();
        for &octet in label {
            wire.push(octet)?;
        }
        wire.end_label()?;
        wire.finish(&self.0)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut lower = [0; MAX_NAME];
        if let Some(lower) = lower.get_mut(..self.0.len()) {
            lower.copy_from_slice(&self.0);
            lower.make_ascii_lowercase();
            state.write(lower);
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    /// The canonical order: label by label from the right, as lower-case octets (RFC 4034 6.1).
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, my_count) = label_starts(&self.0);
        let (theirs, their_count) = label_starts(&other.0);
        let mine = mine.iter().take(my_count).rev();
        let theirs = theirs.iter().take(their_count).rev();
        for (&a, &b) in mine.zip(theirs) {
            let a = Labels(self.0.get(usize::from(a)..).unwrap_or_default()).next().unwrap_or_default();
            let b = Labels(other.0.get(usize::from(b)..).unwrap_or_default()).next().unwrap_or_default();
            let lower = |octet: &u8| octet.to_ascii_lowercase();
            let order = a.iter().map(lower).cmp(b.iter().map(lower));
            if order != Ordering::Equal {
                return order;
            }
        }
        my_count.cmp(&their_count)
    }
}

impl FromStr for Name {
    type Err = NameError;

    /// An absolute name, or one relative to the root.
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text, Some(&Self::root()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        if self.is_root() {
            return f.write_char('.');
        }
        for label in self.labels() {
            for &octet in label {
                match octet {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(octet))?;
                    }
                    0x21..=0x7e => f.write_char(char::from(octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_char('.')?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The length of the uncompressed name at the start of `octets`, its root label included.
pub fn wire_len(octets: &[u8]) -> Result<usize, NameError> {
    let mut at = 0;
    loop {
        let length = usize::from(*octets.get(at).ok_or(NameError::BadWire)?);
        at += 1 + length;
        if length > MAX_LABEL || at > octets.len() {
            return Err(NameError::BadWire);
        }
        if at > MAX_NAME {
            return Err(NameError::TooLong);
        }
        if length == 0 {
            return Ok(at);
        }
    }
}

/// Reads what follows a backslash: three digits up to 255, or one other character (RFC 1035 5.1).
/// Returns the octet and how much text it took.
pub(crate) fn unescape(rest: &[u8]) -> Option<(u8, usize)> {
    match *rest {
        [a @ b'0'..=b'2', b @ b'0'..=b'9', c @ b'0'..=b'9', ..] => {
            let value = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
            u8::try_from(value).ok().map(|octet| (octet, 3))
        }
        [b'0'..=b'9', ..] | [] => None,
        [octet, ..] => Some((octet, 1)),
    }
}

struct Labels<'a>(&'a [u8]);

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&length, rest) = self.0.split_first()?;
        if length == 0 {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(label)
    }
}

/// Where each label's length octet is. A name of 255 octets has at most 127 labels.
fn label_starts(wire: &[u8]) -> ([u8; 128], usize) {
    let mut starts = [0; 128];
    let mut count = 0;
    let mut at = 0_u8;
    for label in Labels(wire) {
        if let Some(start) = starts.get_mut(count) {
            *start = at;
            count += 1;
        }
        // below 255 for every label but the last, whose end is not used
        at = at.saturating_add(1).saturating_add(u8::try_from(label.len()).unwrap_or(u8::MAX));
    }
    (starts, count)
}

/// Wire form under construction in a fixed buffer.
struct Builder {
    wire: [u8; MAX_NAME],
    length: usize,
    label: usize,
}

impl Builder {
    const fn new() -> Self {
        Self { wire: [0; MAX_NAME], length: 1, label: 0 }
    }

    fn push(&mut self, octet: u8) -> Result<(), NameError> {
        if self.length - self.label > MAX_LABEL {
            return Err(NameError::LabelTooLong);
        }
        *self.wire.get_mut(self.length).ok_or(NameError::TooLong)? = octet;
        self.length += 1;
        Ok(())
    }

    fn end_label(&mut self) -> Result<(), NameError> {
        let size = self.length - self.label - 1;
        if size == 0 {
            return Err(NameError::EmptyLabel);
        }
        *self.wire.get_mut(self.label).ok_or(NameError::TooLong)? = u8::try_from(size).unwrap_or(u8::MAX);
        self.label = self.length;
        self.length += 1;
        Ok(())
    }

    /// Appends the suffix in place of the label not yet begun.
    fn finish(mut self, suffix: &[u8]) -> Result<Name, NameError> {
        let end = self.label + suffix.len();
        self.wire.get_mut(self.label..end).ok_or(NameError::TooLong)?.copy_from_slice(suffix);
        Ok(Name(self.wire.get(..end).unwrap_or_default().into()))
    }
}

#[cfg(test)]
mod tests;
