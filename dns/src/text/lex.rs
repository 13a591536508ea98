//! Octets to entries: the tokens of one logical line, parentheses and comments taken care of (RFC 1035 5.1).

use crate::record::{Place, Problem};

use super::problem::fail;

/// The tokens of one directive or record.
#[derive(Debug, Default)]
pub(super) struct Entry<'t> {
    pub(super) tokens: Vec<Token<'t>>,
    /// The line begins with a blank: its owner is the one before.
    pub(super) indented: bool,
}

/// A word or a quoted string, escapes still in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'t> {
    /// The text, without the quotes around a quoted string.
    pub(super) text: &'t [u8],
    pub(super) quotes: Quotes,
    pub(super) at: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// None: a plain word.
    None,
    /// The whole token was in quotes.
    Whole,
    /// Quotes inside or at the end of a word, as in `alpn="h2"`; still in the text.
    Inside,
}

/// Walks over one file.
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    file: u32,
    line: u32,
    line_start: usize,
    /// Generated text stands at the place of its directive.
    fixed: Option<Place>,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8], file: u32) -> Self {
        Self { text, at: 0, file, line: 1, line_start: 0, fixed: None }
    }

    /// For text that was made from the directive at `place`.
    pub(super) fn generated(text: &'t [u8], place: Place) -> Self {
        Self { fixed: Some(place), ..Self::new(text, place.file) }
    }

    /// Fills `entry` with the next one that has tokens; false at the end of the text.
    /// After an error the lexer stands behind the bad entry and can go on.
    pub(super) fn next(&mut self, entry: &mut Entry<'t>) -> Result<bool, Problem> {
        entry.tokens.clear();
        while self.at < self.text.len() {
            entry.indented = matches!(self.peek(), Some(b' ' | b'\t' | b'\r'));
            self.entry(entry)?;
            if !entry.tokens.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn entry(&mut self, entry: &mut Entry<'t>) -> Result<(), Problem> {
        let mut opened: Vec<Place> = Vec::new();
        while let Some(octet) = self.peek() {
            match octet {
                b'\n' => {
                    self.newline();
                    if opened.is_empty() {
                        return Ok(());
                    }
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b';' => self.skip_line(),
                b'(' => {
                    if opened.len() >= MAX_NESTING {
                        let place = self.place();
                        self.skip_line();
                        return Err(fail(place, "parentheses are nested too deeply"));
                    }
                    opened.push(self.place());
                    self.at += 1;
                }
                b')' => {
                    if opened.pop().is_none() {
                        let place = self.place();
                        self.skip_line();
                        return Err(
                            fail(place, "\")\" without \"(\"").help("write \"\\)\" for the character itself")
                        );
                    }
                    self.at += 1;
                }
                _ => {
                    let token = self.token(!opened.is_empty())?;
                    entry.tokens.push(token);
                }
            }
        }
        match opened.first() {
            None => Ok(()),
            Some(&place) => Err(fail(place, "\"(\" is never closed").help("add \")\" where the record ends")),
        }
    }

    fn token(&mut self, multiline: bool) -> Result<Token<'t>, Problem> {
        let place = self.place();
        if self.peek() == Some(b'"') {
            let start = self.at + 1;
            self.quoted(place, multiline)?;
            let text = self.text.get(start..self.at - 1).unwrap_or_default();
            return Ok(Token { text, quotes: Quotes::Whole, at: place });
        }
        let start = self.at;
        let mut quotes = Quotes::None;
        while let Some(octet) = self.peek() {
            match octet {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' => break,
                b'"' => {
                    quotes = Quotes::Inside;
                    let place = self.place();
                    self.quoted(place, multiline)?;
                }
                b'\\' => self.escape(),
                _ => self.at += 1,
            }
        }
        Ok(Token { text: self.text.get(start..self.at).unwrap_or_default(), quotes, at: place })
    }

    /// Goes from an opening quote to behind the closing one.
    fn quoted(&mut self, place: Place, multiline: bool) -> Result<(), Problem> {
        self.at += 1;
        while let Some(octet) = self.peek() {
            match octet {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                // a forgotten quote must not swallow the rest of the file
                b'\n' if !multiline => break,
                b'\n' => self.newline(),
                b'\\' => self.escape(),
                _ => self.at += 1,
            }
        }
        Err(fail(place, "the quoted string is not closed").help("add the closing \"\\\"\" on the same line"))
    }

    /// A backslash takes the next octet with it, but never the end of the line.
    fn escape(&mut self) {
        self.at += 1;
        if !matches!(self.peek(), None | Some(b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn skip_line(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|&octet| octet == b'\n').unwrap_or(rest.len());
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn place(&self) -> Place {
        self.fixed.unwrap_or_else(|| Place {
            file: self.file,
            line: self.line,
            column: u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX),
        })
    }
}

/// Nobody nests them; the bound keeps a file of parentheses from taking memory.
const MAX_NESTING: usize = 64;
