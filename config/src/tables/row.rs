//! One line of a text table -> what it says: formats A, B and C of the ISP table formats.
//!
//! A `prefix`, B `prefix operator[,operator]`, C `prefix,operator` or `start,end,asn[,"organisation"]`. A line whose
//! first field ends with a comma is C. `!` before the prefix excludes.

use std::borrow::Cow;

use super::prefix::{Fault, Parsed, address, clip, numeric, parse, range};

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) parsed: Parsed,
    pub(super) exclude: bool,
    pub(super) who: Who<'a>,
}

/// Whom a line speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who<'a> {
    /// The operator that the file belongs to.
    Owner,
    /// Every operator: `!prefix *`.
    Everyone,
    /// Operators by name.
    Named(Vec<Cow<'a, str>>),
    /// Whoever has the AS number, or is called like its organisation.
    Network { asn: u32, organisation: Cow<'a, str> },
}

/// What is wrong with a line, and the byte where that starts.
pub(super) type RowFault = (usize, Fault);

/// The longest name an operator may have.
const MAX_NAME_BYTES: usize = 64;

/// First words of the header lines that CSV files may have.
const HEADERS: &[&str] = &[
    "prefix",
    "network",
    "cidr",
    "subnet",
    "start",
    "start_ip",
    "ip_start",
    "ip_range_start",
    "range_start",
    "first",
    "first_ip",
    "from",
    "ip_from",
    "ip",
];

/// Drops a comment: `#`, `;` or `//` at the start or after white space, outside quotes (R2).
pub(super) fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        let starts = matches!(c, '#' | ';') || (c == '/' && line[at..].starts_with("//"));
        if starts && !quoted && before.is_whitespace() {
            return &line[..at];
        }
        quoted ^= c == '"';
        before = c;
    }
    line
}

/// Whether a line is the header of a CSV file.
pub(super) fn is_header(line: &str) -> bool {
    line.split_once(',').is_some_and(|(first, _)| {
        let first = first.trim().trim_matches('"');
        HEADERS.iter().any(|header| first.eq_ignore_ascii_case(header))
    })
}

/// Reads a line without its comment; `None` when nothing is on it.
pub(super) fn row(line: &str) -> Result<Option<Row<'_>>, RowFault> {
    let text = line.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let start = line.len() - line.trim_start().len();
    let (exclude, text, start) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start(), start + 1 + rest.len() - rest.trim_start().len()),
        None => (false, text, start),
    };
    let end = text.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(text.len());
    let rest = text[end..].trim_start();
    let (parsed, who) = if rest.starts_with(',') || text.starts_with('"') {
        comma_row(text).map_err(|(at, fault)| (start + at, fault))?
    } else {
        space_row(text, end).map_err(|(at, fault)| (start + at, fault))?
    };
    if who == Who::Everyone && !exclude {
        let fault = Fault::new(
            "`*` is no operator",
            "use `*` with `!` only: it takes the prefix from every operator",
        );
        return Err((start + end, fault));
    }
    Ok(Some(Row { parsed, exclude, who }))
}

/// Formats A and B.
fn space_row(text: &str, end: usize) -> Result<(Parsed, Who<'_>), RowFault> {
    let (mut prefix, mut rest) = text.split_at(end);
    // a range may have spaces around its hyphen
    if rest.trim_start().starts_with('-') {
        let last = rest.trim_start().trim_start_matches('-').trim_start();
        let last_end = last.find(char::is_whitespace).unwrap_or(last.len());
        (prefix, rest) = text.split_at(text.len() - (last.len() - last_end));
    }
    let parsed = parse(prefix).map_err(|fault| (0, fault))?;
    let names = rest.trim();
    if names.is_empty() {
        return Ok((parsed, Who::Owner));
    }
    let at = text.len() - rest.trim_start().len();
    Ok((parsed, named(names).map_err(|fault| (at, fault))?))
}

/// Format C.
fn comma_row(text: &str) -> Result<(Parsed, Who<'_>), RowFault> {
    let fields = split_csv(text)?;
    let text_of = |at: usize| fields.get(at).map_or("", |(_, field)| field.as_ref());
    let at_of = |at: usize| fields.get(at).map_or(text.len(), |(at, _)| *at);
    let too_few = || Fault::new("too few fields", "write `prefix,operator` or `start,end,asn`");

    let (first, second) = (text_of(0), text_of(1));
    let both_numeric = numeric(first).zip(numeric(second));
    let ends = match (both_numeric, address(first), address(second)) {
        (Some(ends), ..) => Some(ends),
        (None, Ok(first), Ok(second)) => Some((first, second)),
        (None, ..) => None,
    };
    let (parsed, who) = match ends {
        Some((first, last)) => (range(first, last).map_err(|fault| (at_of(0), fault))?, 2),
        None => (parse(first).map_err(|fault| (at_of(0), fault))?, 1),
    };
    let field = text_of(who);
    let digits = field.strip_prefix("AS").or_else(|| field.strip_prefix("as")).unwrap_or(field);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let allowed = if is_number { who + 2 } else { who + 1 };
    if fields.len() > allowed {
        let fault = Fault::new("too many fields", "put a field with commas in it into double quotes");
        return Err((at_of(allowed), fault));
    }
    if is_number {
        let asn = digits.parse().map_err(|_| {
            let help = "AS numbers are below 4294967296";
            (at_of(who), Fault::new(format!("`{}` is not an AS number", clip(field)), help))
        })?;
        let organisation = fields.into_iter().nth(who + 1).map(|(_, field)| field).unwrap_or_default();
        return Ok((parsed, Who::Network { asn, organisation }));
    }
    if field.is_empty() {
        // `start,end` alone belongs to the file's operator; an empty field is somebody's mistake
        let whole = who == 2 && fields.len() == 2;
        return if whole { Ok((parsed, Who::Owner)) } else { Err((at_of(who), too_few())) };
    }
    let at = at_of(who);
    let who = named(field).map_err(|fault| (at, fault))?;
    Ok((parsed, own(who)))
}

fn own(who: Who<'_>) -> Who<'static> {
    match who {
        Who::Owner => Who::Owner,
        Who::Everyone => Who::Everyone,
        Who::Named(names) => {
            Who::Named(names.into_iter().map(|name| Cow::Owned(name.into_owned())).collect())
        }
        Who::Network { asn, organisation } => {
            Who::Network { asn, organisation: Cow::Owned(organisation.into_owned()) }
        }
    }
}

/// `operator[,operator]`, or `*`.
fn named(text: &str) -> Result<Who<'_>, Fault> {
    if text == "*" {
        return Ok(Who::Everyone);
    }
    let mut names = Vec::new();
    for name in text.split(',').map(str::trim) {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '&');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(plain) {
            return Err(Fault::new(
                format!("`{}` is not an operator's name", clip(name)),
                format!(
                    "use letters, digits and - _ . + & (at most {MAX_NAME_BYTES} bytes), names separated by commas"
                ),
            ));
        }
        names.push(Cow::Borrowed(name));
    }
    Ok(Who::Named(names))
}

/// Splits a line by RFC 4180, white space around fields dropped; each field with the byte where it starts.
fn split_csv(text: &str) -> Result<Vec<(usize, Cow<'_, str>)>, RowFault> {
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let (field, used) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted).map(|(field, used)| (field, used + 1)).ok_or_else(|| {
                (
                    at,
                    Fault::new(
                        "a quoted field does not end",
                        "close it with a double quote; write \"\" for a quote in it",
                    ),
                )
            })?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(rest[..end].trim_end()), end)
            }
        };
        fields.push((at, field));
        at += used;
        let rest = text[at..].trim_start();
        match rest.strip_prefix(',') {
            Some(more) => at = text.len() - more.len(),
            None if rest.is_empty() => return Ok(fields),
            None => {
                let fault = Fault::new("text after a quoted field", "put a comma between fields");
                return Err((text.len() - rest.len(), fault));
            }
        }
    }
}

/// The content of a quoted field, given what follows its opening quote, and the bytes used.
fn quoted_field(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let mut content = Cow::Borrowed("");
    let mut from = 0;
    loop {
        let quote = from + text[from..].find('"')?;
        let part = &text[from..quote];
        if content.is_empty() {
            content = Cow::Borrowed(part);
        } else {
            content.to_mut().push_str(part);
        }
        if !text[quote + 1..].starts_with('"') {
            return Some((content, quote + 1));
        }
        content.to_mut().push('"');
        from = quote + 2;
    }
}
