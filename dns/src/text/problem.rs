//! Making problems: a place, a message that names the value, a remedy.

use crate::record::{Place, Problem};

/// A problem without a remedy yet.
pub(super) fn fail(place: Place, message: impl Into<String>) -> Problem {
    Problem { place, message: message.into(), help: None }
}

impl Problem {
    /// Adds the remedy.
    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// A value as it stands in the text, short enough and clean enough for a message.
pub(super) fn shown(text: &[u8]) -> String {
    const LONGEST: usize = 60;
    let cut = text.get(..LONGEST).unwrap_or(text);
    let mut out = String::from("\"");
    for character in String::from_utf8_lossy(cut).chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    if text.len() > LONGEST {
        out.push('…');
    }
    out.push('"');
    out
}
