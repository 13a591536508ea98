//! Pins: the SHA-256 of a public key, as text in configs.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// What every pin starts with.
const SCHEME: &str = "sha256:";

/// Who a peer is: the SHA-256 of its certificate's SubjectPublicKeyInfo, written `sha256:` and base64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pin(pub [u8; 32]);

impl Pin {
    /// The pin of a SubjectPublicKeyInfo in DER.
    #[must_use]
    pub fn of_public_key(subject_public_key_info: &[u8]) -> Self {
        Self(Sha256::digest(subject_public_key_info).into())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", base64(&self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({self})")
    }
}

impl From<Pin> for String {
    fn from(pin: Pin) -> Self {
        pin.to_string()
    }
}

impl TryFrom<String> for Pin {
    type Error = PinError;

    fn try_from(text: String) -> Result<Self, PinError> {
        text.parse()
    }
}

/// Why a text is no pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// Another hash, or none named.
    #[error("a pin starts with `sha256:`; `portolan pki pin DIR NAME` prints it")]
    Scheme,
    /// A character that base64 does not have.
    #[error("character {position} of the pin is not base64; `portolan pki pin DIR NAME` prints it")]
    Character {
        /// Its place, counted from 1 behind the scheme.
        position: usize,
    },
    /// Not 32 bytes.
    #[error("the pin is cut or too long: it must be 43 characters of base64 behind `sha256:`")]
    Length,
}

impl FromStr for Pin {
    type Err = PinError;

    /// Standard and URL-safe alphabets, padded or not.
    fn from_str(text: &str) -> Result<Self, PinError> {
        let encoded = text.trim().strip_prefix(SCHEME).ok_or(PinError::Scheme)?;
        let digits = encoded.strip_suffix('=').unwrap_or(encoded);
        let mut bytes = [0; 32];
        let (mut filled, mut bits, mut held) = (0, 0_u32, 0_u32);
        for (at, character) in digits.chars().enumerate() {
            let digit = base64_digit(character).ok_or(PinError::Character { position: at + 1 })?;
            held = held << 6 | digit;
            bits += 6;
            if bits >= 8 {
                bits -= 8;
                let byte = bytes.get_mut(filled).ok_or(PinError::Length)?;
                *byte = (held >> bits & 0xff) as u8;
                filled += 1;
                held &= (1 << bits) - 1;
            }
        }
        // 43 digits are 258 bits; a pin whose last two bits are set would be a second spelling of the same key
        if filled == 32 && bits < 6 && held == 0 { Ok(Self(bytes)) } else { Err(PinError::Length) }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64_digit(character: char) -> Option<u32> {
    let character = match character {
        '-' => '+',
        '_' => '/',
        other => other,
    };
    let byte = u8::try_from(character).ok()?;
    ALPHABET.iter().position(|&one| one == byte).and_then(|at| u32::try_from(at).ok())
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let held =
            group.iter().fold(0_u32, |held, &byte| held << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            if digit <= group.len() {
                text.push(char::from(ALPHABET[(held >> (18 - 6 * digit) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_text() {
        // printf '' | sha256sum | xxd -r -p | base64
        let pin = Pin::of_public_key(b"");
        assert_eq!(pin.to_string(), "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        for text in [
            "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
            "sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
            " sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=\n",
        ] {
            assert_eq!(text.parse(), Ok(pin), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_pin() {
        for (text, why) in [
            ("", PinError::Scheme),
            ("sha1:47DEQpj8HBSa", PinError::Scheme),
            ("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", PinError::Scheme),
            ("sha256:", PinError::Length),
            ("sha256:…", PinError::Character { position: 1 }),
            ("sha256:47DEQpj8 BSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", PinError::Character { position: 9 }),
            ("sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuF", PinError::Length),
            ("sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFUA", PinError::Length),
            ("sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV", PinError::Length),
            ("sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU==", PinError::Character { position: 44 }),
        ] {
            assert_eq!(text.parse::<Pin>(), Err(why), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn text_and_back(bytes: [u8; 32]) {
            let text = Pin(bytes).to_string();
            prop_assert_eq!(text.len(), 51);
            prop_assert_eq!(text.parse::<Pin>(), Ok(Pin(bytes)));
            prop_assert_eq!(text.replace('+', "-").replace('/', "_").trim_end_matches('=').parse::<Pin>(), Ok(Pin(bytes)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(sha256:)?.{0,60}") {
            let _ = text.parse::<Pin>();
        }
    }
}
