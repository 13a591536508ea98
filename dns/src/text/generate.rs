//! `$GENERATE start-stop[/step] owner [ttl] [class] type data`, as BIND has it.

use crate::record::{Place, Problem};

use super::field::{number, unwanted};
use super::lex::{Quotes, Token};
use super::problem::{fail, shown};
use super::read::head;

/// A directive, ready to be written out one record at a time.
pub(super) struct Template {
    start: u32,
    stop: u32,
    step: u32,
    line: Vec<u8>,
    at: Place,
}

impl Template {
    pub(super) fn parse(tokens: &[Token<'_>], at: Place) -> Result<Self, Problem> {
        let Some((first, record)) = tokens.split_first() else {
            return Err(fail(at, "$GENERATE without a range").help(HELP));
        };
        let (start, stop, step) = range(first.text).ok_or_else(|| unwanted(first, "a range").help(HELP))?;
        Ok(Self { start, stop, step, line: line(record, at)?, at })
    }

    /// How many records it makes.
    pub(super) fn count(&self) -> u64 {
        u64::from((self.stop - self.start) / self.step) + 1
    }

    pub(super) fn values(&self) -> impl Iterator<Item = u32> + use<> {
        (self.start..=self.stop).step_by(usize::try_from(self.step).unwrap_or(usize::MAX))
    }

    /// The record's text for one value.
    pub(super) fn text(&self, value: u32, out: &mut Vec<u8>) -> Result<(), Problem> {
        out.clear();
        substitute(&self.line, i64::from(value), self.at, out)
    }
}

const HELP: &str = "write for example \"$GENERATE 1-10 host-$ A 10.0.0.$\"";

/// `start-stop` or `start-stop/step`.
fn range(text: &[u8]) -> Option<(u32, u32, u32)> {
    const MOST: u32 = i32::MAX as u32;
    let mut parts = text.splitn(2, |&octet| octet == b'/');
    let mut ends = parts.next()?.splitn(2, |&octet| octet == b'-');
    let (start, stop) = (number(ends.next()?)?, number(ends.next()?)?);
    let step = parts.next().map_or(Some(1), number)?;
    (start <= stop && stop <= MOST && step > 0).then_some((start, stop, step))
}

/// The record as one line again. Data that is one quoted string is taken out of its quotes, as in
/// `MX "10 mail$"`; quotes that are meant to stay are escaped.
fn line(record: &[Token<'_>], at: Place) -> Result<Vec<u8>, Problem> {
    let Some((owner, rest)) = record.split_first() else {
        return Err(fail(at, "$GENERATE without an owner, a type and data").help(HELP));
    };
    let (_, data) = head(rest, at)?;
    let before = rest.get(..rest.len() - data.len()).unwrap_or_default();
    let mut text = Vec::new();
    for token in [owner].into_iter().chain(before) {
        append(token, &mut text);
    }
    match data {
        [alone] if alone.quotes == Quotes::Whole => unquote(alone.text, &mut text),
        data => data.iter().for_each(|token| append(token, &mut text)),
    }
    Ok(text)
}

/// Writes a token as it was.
fn append(token: &Token<'_>, text: &mut Vec<u8>) {
    let quote: &[u8] = if token.quotes == Quotes::Whole { b"\"" } else { b"" };
    text.extend([quote, token.text, quote, b" "].into_iter().flatten());
}

/// `\"` becomes `"`; other escapes stay for the record's own reading.
fn unquote(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        match (octet, tail.split_first()) {
            (b'\\', Some((b'"', tail))) => {
                out.push(b'"');
                rest = tail;
            }
            (b'\\', Some((&escaped, tail))) => {
                out.extend_from_slice(&[b'\\', escaped]);
                rest = tail;
            }
            // a line break would begin another record
            (b'\n' | b'\r', _) => out.push(b' '),
            _ => out.push(octet),
        }
    }
}

/// `$` is the value, `${offset[,width[,base]]}` the value formatted, `$$` and `\$` the character.
fn substitute(template: &[u8], value: i64, at: Place, out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut rest = template;
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        match (octet, tail) {
            (b'\\', [escaped, tail @ ..]) => {
                out.extend_from_slice(&[b'\\', *escaped]);
                rest = tail;
            }
            (b'$', [b'$', tail @ ..]) => {
                out.extend_from_slice(b"\\$");
                rest = tail;
            }
            (b'$', [b'{', tail @ ..]) => {
                let end = tail.iter().position(|&octet| octet == b'}').unwrap_or(tail.len());
                let (inside, behind) = tail.split_at_checked(end).unwrap_or((tail, &[]));
                let formatted = Format::parse(inside).and_then(|format| format.apply(value));
                out.extend(formatted.ok_or_else(|| {
                    fail(at, format!("bad ${{...}} in $GENERATE: {} with {value}", shown(inside))).help(
                        "write ${offset,width,base}, base one of d, o, x, X, n, N, width up to 255; only d may be negative",
                    )
                })?);
                rest = behind.get(1..).unwrap_or_default();
            }
            (b'$', _) => out.extend(value.to_string().into_bytes()),
            _ => out.push(octet),
        }
    }
    Ok(())
}

struct Format {
    offset: i64,
    width: usize,
    base: u8,
}

impl Format {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.split(|&octet| octet == b',');
        let offset = parts.next()?;
        let (sign, digits) = match offset {
            [b'-', digits @ ..] => (-1, digits),
            [b'+', digits @ ..] => (1, digits),
            digits => (1, digits),
        };
        let offset = sign * i64::from(number(digits)?);
        let width = parts.next().map_or(Some(0), number).filter(|&width| width <= 255)?;
        let base = match parts.next() {
            None => b'd',
            Some([base @ (b'd' | b'o' | b'x' | b'X' | b'n' | b'N')]) => *base,
            Some(_) => return None,
        };
        if parts.next().is_some() {
            return None;
        }
        Some(Self { offset, width: usize::try_from(width).ok()?, base })
    }

    fn apply(&self, value: i64) -> Option<Vec<u8>> {
        let (value, width) = (value + self.offset, self.width);
        if self.base == b'd' {
            return Some(format!("{value:0width$}").into_bytes());
        }
        let value = u64::try_from(value).ok()?;
        Some(match self.base {
            b'o' => format!("{value:0width$o}").into_bytes(),
            b'x' => format!("{value:0width$x}").into_bytes(),
            b'X' => format!("{value:0width$X}").into_bytes(),
            b'N' => nibbles(value, width).to_ascii_uppercase(),
            _ => nibbles(value, width),
        })
    }
}

/// Hexadecimal digits, the lowest first, as labels; the width counts the dots (for ip6.arpa).
fn nibbles(mut value: u64, width: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        out.extend(format!("{:x}", value & 0xf).into_bytes());
        value >>= 4;
        if value == 0 && out.len() >= width {
            return out;
        }
        out.push(b'.');
        if value == 0 && out.len() >= width {
            return out;
        }
    }
}
