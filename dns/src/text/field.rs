//! The words of a record's data, one at a time.

use crate::name::{self, Name};
use crate::record::{Place, Problem};

use super::lex::{Quotes, Token};
use super::problem::{fail, shown};
use super::read::name_problem;

/// The tokens still to be read of one record or directive.
pub(super) struct Fields<'e, 't> {
    tokens: &'e [Token<'t>],
    /// Where the last token read stands, for problems about what should follow.
    at: Place,
    origin: Option<&'e Name>,
}

impl<'e, 't> Fields<'e, 't> {
    pub(super) fn new(tokens: &'e [Token<'t>], at: Place, origin: Option<&'e Name>) -> Self {
        Self { tokens, at, origin }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn peek(&self) -> Option<&'e Token<'t>> {
        self.tokens.first()
    }

    pub(super) fn at(&self) -> Place {
        self.at
    }

    /// The next token, quoted or not.
    pub(super) fn next(&mut self, wanted: &str) -> Result<&'e Token<'t>, Problem> {
        let Some((token, rest)) = self.tokens.split_first() else {
            return Err(fail(self.at, format!("the data ends where {wanted} is wanted")));
        };
        self.tokens = rest;
        self.at = token.at;
        Ok(token)
    }

    /// The next token, which must be a plain word.
    pub(super) fn word(&mut self, wanted: &str) -> Result<&'e Token<'t>, Problem> {
        let token = self.next(wanted)?;
        if token.quotes == Quotes::None {
            return Ok(token);
        }
        Err(unwanted(token, wanted).help("remove the quotes"))
    }

    /// All remaining words joined, as hexadecimal and base64 data may be split anywhere.
    pub(super) fn joined(&mut self, wanted: &str) -> Result<Vec<u8>, Problem> {
        let mut all = Vec::new();
        while !self.is_empty() {
            all.extend_from_slice(self.word(wanted)?.text);
        }
        Ok(all)
    }

    pub(super) fn end(&self) -> Result<(), Problem> {
        match self.tokens.first() {
            None => Ok(()),
            Some(extra) => Err(fail(extra.at, format!("{} is left over after the data", shown(extra.text)))
                .help("remove it, or put quotes around text with blanks")),
        }
    }

    pub(super) fn name(&mut self, wanted: &str) -> Result<Name, Problem> {
        name(self.next(wanted)?, self.origin)
    }

    pub(super) fn number(&mut self, largest: u32) -> Result<u32, Problem> {
        let token = self.word("a number")?;
        let value = number(token.text).filter(|&value| value <= largest);
        value.ok_or_else(|| unwanted(token, &format!("a number up to {largest}")))
    }

    pub(super) fn ttl(&mut self) -> Result<u32, Problem> {
        ttl(self.word("a TTL")?)
    }
}

impl Token<'_> {
    pub(super) fn is_directive(&self) -> bool {
        self.quotes == Quotes::None && self.text.first() == Some(&b'$')
    }

    /// The octets of a character string, escapes resolved.
    pub(super) fn decoded(&self) -> Result<Vec<u8>, Problem> {
        let mut out = Vec::with_capacity(self.text.len());
        self.decode_into(&mut out)?;
        Ok(out)
    }

    pub(super) fn decode_into(&self, out: &mut Vec<u8>) -> Result<(), Problem> {
        if self.quotes == Quotes::Inside {
            return Err(fail(self.at, format!("quotes inside the word {}", shown(self.text)))
                .help("put the quotes around all of it, or write \"\\\"\" for the character"));
        }
        unescape(self.text, self.at, out)
    }
}

/// Appends `text` with its escapes resolved (RFC 1035 5.1, Z12).
pub(super) fn unescape(text: &[u8], at: Place, out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut rest = text;
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        if octet != b'\\' {
            out.push(octet);
            continue;
        }
        let Some((value, used)) = name::unescape(rest) else {
            return Err(fail(at, format!("bad escape \"\\\" in {}", shown(text))).help(
                "after \"\\\" comes one character, or three digits up to 255; \"\\\\\" is a backslash",
            ));
        };
        out.push(value);
        rest = rest.get(used..).unwrap_or_default();
    }
    Ok(())
}

/// A name, relative ones below `origin`.
pub(super) fn name(token: &Token<'_>, origin: Option<&Name>) -> Result<Name, Problem> {
    if token.quotes != Quotes::None {
        return Err(unwanted(token, "a name").help("names stand without quotes"));
    }
    if !token.text.is_ascii() {
        // RFC 5891 3.1: zones hold A-labels
        return Err(fail(token.at, format!("the name {} is not ASCII", shown(token.text)))
            .help("write internationalized names in their \"xn--\" form, other octets as \\DDD"));
    }
    Name::parse_bytes(token.text, origin).map_err(|error| name_problem(token, error))
}

/// Digits only: no sign, no blank.
pub(super) fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u32, |value, digit| value.checked_mul(10)?.checked_add(u32::from(digit - b'0')))
}

/// A TTL of at most 2^31-1 (RFC 2181 8).
pub(super) fn ttl(token: &Token<'_>) -> Result<u32, Problem> {
    const LONGEST: u32 = (1 << 31) - 1;
    span(token.text).filter(|&ttl| ttl <= LONGEST && token.quotes == Quotes::None).ok_or_else(|| {
        unwanted(token, "a TTL").help("write seconds up to 2147483647, or units as in 1h30m, 2d, 1w")
    })
}

/// Seconds, plain or with the units w, d, h, m, s.
pub(super) fn span(text: &[u8]) -> Option<u32> {
    let mut total = 0_u32;
    let mut digits: Option<u32> = None;
    for &octet in text {
        if octet.is_ascii_digit() {
            let so_far = digits.unwrap_or(0);
            digits = Some(so_far.checked_mul(10)?.checked_add(u32::from(octet - b'0'))?);
            continue;
        }
        let unit = match octet.to_ascii_lowercase() {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(digits.take()?.checked_mul(unit)?)?;
    }
    match digits {
        Some(seconds) => total.checked_add(seconds),
        None => (!text.is_empty()).then_some(total),
    }
}

/// The token is not what its place wants.
pub(super) fn unwanted(token: &Token<'_>, wanted: &str) -> Problem {
    fail(token.at, format!("{} is not {wanted}", shown(token.text)))
}
