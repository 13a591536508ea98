//! `[peers]`: the other nodes.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::place::At;
use crate::read::{self, Length, Many, Reader, Value, table};

table! {
    /// The other nodes.
    pub struct Peers {
        /// Sockets that peers connect to.
        listen: At<Many<At<SocketAddr>>>,
        /// Path of this node's certificate and key, without their endings.
        identity: At<PathBuf>,
        /// How long the claims of a silent peer live.
        hold: At<Length> = Length::secs(3),
        /// A peer that has nothing to say says so after this.
        keepalive: Option<At<Length>>,
        /// File of the frames that this node sends and receives.
        trace: Option<At<PathBuf>>,
        /// The peers.
        members: Vec<Peer>,
    }
}

table! {
    /// A peer.
    pub struct Peer {
        /// Its `[node] name`.
        name: At<String>,
        /// The site it stands at.
        site: At<String>,
        /// Where it listens.
        address: At<SocketAddr>,
        /// Pins of its key.
        pin: At<Many<At<Pin>>>,
    }
}

/// SHA-256 of a public key (SubjectPublicKeyInfo).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin(pub [u8; 32]);

const PIN_HELP: &str =
    "write \"sha256:\" and 43 characters of base64, as `portolan pki pin DIR NAME` prints it";

impl Pin {
    fn parse(text: &str) -> Result<Self, String> {
        let Some(digest) = text.strip_prefix("sha256:") else {
            return Err(format!("the pin {text:?} does not begin with \"sha256:\""));
        };
        let digest = digest.trim_end_matches('=');
        let wrong = || format!("the pin {text:?} is not 32 octets of base64");
        if digest.len() != 43 {
            return Err(match digest.len() {
                64 if digest.bytes().all(|octet| octet.is_ascii_hexdigit()) => {
                    format!("the pin {text:?} is hexadecimal, not base64")
                }
                _ => wrong(),
            });
        }
        let mut octets = [0_u8; 32];
        let (mut bits, mut held, mut at) = (0_u32, 0, 0);
        for letter in digest.bytes() {
            bits = bits << 6 | u32::from(sextet(letter).ok_or_else(wrong)?);
            held += 6;
            if held >= 8 {
                held -= 8;
                if let Some(octet) = octets.get_mut(at) {
                    *octet = (bits >> held) as u8;
                }
                at += 1;
                bits &= (1 << held) - 1;
            }
        }
        // bits behind the last octet: another text for the same key
        if bits == 0 { Ok(Self(octets)) } else { Err(wrong()) }
    }
}

/// The value of a letter of base64, in either alphabet (RFC 4648 4 and 5).
fn sextet(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// `sha256:` and base64 without padding.
impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        f.write_str("sha256:")?;
        for three in self.0.chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, octet| bits << 8 | u32::from(*octet));
            let bits = bits << (8 * (3 - three.len()));
            for at in 0..=three.len() {
                let letter = ALPHABET.get((bits >> (18 - 6 * at) & 63) as usize).copied().unwrap_or(b'A');
                write!(f, "{}", char::from(letter))?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pin({self})")
    }
}

impl Value for Pin {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = read::text(node, "a pin", reader)?;
        match Self::parse(text) {
            Ok(pin) => Some(pin),
            Err(message) => reader.bad_value(node, message, PIN_HELP),
        }
    }
    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^sha256:[A-Za-z0-9+/_-]{43}=?$" })
    }
    fn show(&self) -> Json {
        self.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins() {
        // `printf '' | sha256sum`, in base64
        let empty = "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
        let url = empty.replace('+', "-").replace('/', "_");
        let pin = Pin::parse(empty).unwrap();
        assert_eq!(pin.0[..4], [0xe3, 0xb0, 0xc4, 0x42]);
        assert_eq!(pin.0[31], 0x55);
        for text in [empty.to_owned(), format!("{empty}="), url] {
            assert_eq!(Pin::parse(&text), Ok(pin), "{text}");
        }
        assert_eq!(pin.to_string(), empty);
        for (text, why) in [
            ("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU", "begin with"),
            ("sha256:", "32 octets"),
            ("sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuF", "32 octets"),
            ("sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV", "32 octets"),
            ("sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSu!U", "32 octets"),
            ("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "hexadecimal"),
        ] {
            assert!(Pin::parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
