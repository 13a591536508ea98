//! Single values: numbers with ranges, words, durations, addresses.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use portolan_dns::name::Name;
use serde_json::{Value as Json, json};
use toml::de::DeValue;

use super::{Node, Reader, Value};

/// The text of a string.
pub(crate) fn text<'n>(node: &'n Node<'_>, expected: &str, reader: &mut Reader<'_>) -> Option<&'n str> {
    match node.get_ref() {
        DeValue::String(text) => Some(text.as_ref()),
        _ => reader.wrong_type(node, expected),
    }
}

fn whole_number(node: &Node<'_>) -> Option<i64> {
    let DeValue::Integer(number) = node.get_ref() else { return None };
    // beyond 64 bits is beyond every range there is
    let clamp = if number.as_str().starts_with('-') { i64::MIN } else { i64::MAX };
    Some(i64::from_str_radix(number.as_str(), number.radix()).unwrap_or(clamp))
}

impl Value for String {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        text(node, "a string", reader).map(str::to_owned)
    }
    fn stand_in() -> Option<Self> {
        Some(Self::new())
    }
    fn schema() -> Json {
        json!({ "type": "string" })
    }
    fn show(&self) -> Json {
        self.as_str().into()
    }
}

impl Value for PathBuf {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let path = text(node, "a path", reader)?;
        if path.is_empty() || path.contains('\0') {
            return reader.bad_value(
                node,
                format!("{path:?} is no path"),
                "give the path of a file or folder",
            );
        }
        Some(path.into())
    }
    fn schema() -> Json {
        json!({ "type": "string", "minLength": 1 })
    }
    fn show(&self) -> Json {
        self.to_string_lossy().into()
    }
}

impl Value for bool {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            _ => reader.wrong_type(node, "true or false"),
        }
    }
    fn schema() -> Json {
        json!({ "type": "boolean" })
    }
    fn show(&self) -> Json {
        (*self).into()
    }
}

/// A whole number from `LOW` to `HIGH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int<const LOW: i64, const HIGH: i64>(i64);

impl<const LOW: i64, const HIGH: i64> Int<LOW, HIGH> {
    /// A default.
    pub const fn new(value: i64) -> Self {
        assert!(LOW <= value && value <= HIGH, "a default must lie in its range");
        Self(value)
    }

    /// The number, in a type its range fits; the nearest one there is otherwise.
    pub fn get<T: TryFrom<i64> + Default>(self) -> T {
        let fits = T::try_from(self.0);
        debug_assert!(fits.is_ok(), "{LOW}..={HIGH} does not fit");
        fits.unwrap_or_default()
    }
}

impl<const LOW: i64, const HIGH: i64> Value for Int<LOW, HIGH> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(number) = whole_number(node) else { return reader.wrong_type(node, "a whole number") };
        if LOW == HIGH && number != LOW {
            return reader.bad_value(node, format!("only {LOW} is known here, not {number}"), "");
        }
        if !(LOW..=HIGH).contains(&number) {
            return reader.bad_value(node, format!("{number} is outside {LOW} to {HIGH}"), "");
        }
        Some(Self(number))
    }
    fn schema() -> Json {
        json!({ "type": "integer", "minimum": LOW, "maximum": HIGH })
    }
    fn show(&self) -> Json {
        self.0.into()
    }
}

/// A number with a fraction; its range is the user's business.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Real(pub f64);

impl Value for Real {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let number = match node.get_ref() {
            // TOML allows 1_000.5
            DeValue::Float(float) => float.as_str().replace('_', "").parse::<f64>().ok(),
            DeValue::Integer(_) => whole_number(node).map(|number| number as f64),
            _ => return reader.wrong_type(node, "a number"),
        };
        match number {
            Some(number) if number.is_finite() => Some(Self(number)),
            Some(_) | None => reader.bad_value(node, "the number must be finite", ""),
        }
    }
    fn schema() -> Json {
        json!({ "type": "number" })
    }
    fn show(&self) -> Json {
        self.0.into()
    }
}

/// A length of time: `"1m30s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(pub Duration);

impl Length {
    /// So many seconds.
    pub const fn secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Reads `"1h"`, `"1m30s"`, `"500ms"`.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return None;
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, after) = rest.split_at_checked(digits)?;
            let unit_len = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at_checked(unit_len)?;
            let ms = match unit.trim() {
                "ms" => 1,
                "s" => 1000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return None,
            };
            total = number.parse::<u64>().ok()?.checked_mul(ms)?.checked_add(total)?;
            rest = after;
        }
        Some(Self(Duration::from_millis(total)))
    }
}

const LENGTH_HELP: &str = "write a duration like \"500ms\", \"5s\", \"1m30s\", \"1h\" or \"1d\"";

impl Value for Length {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Some(number) = whole_number(node) {
            let help = format!("say the unit: \"{number}s\" or \"{number}ms\"");
            return reader.bad_value(node, format!("the duration {number} has no unit"), &help);
        }
        let text = text(node, "a duration", reader)?;
        match Self::parse(text) {
            Some(length) => Some(length),
            None => reader.bad_value(node, format!("{text:?} is no duration"), LENGTH_HELP),
        }
    }
    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^( *[0-9]+ *(ms|s|m|h|d))+ *$" })
    }
    fn show(&self) -> Json {
        let ms = self.0.as_millis();
        let (number, unit) = match ms {
            0 => (0, "s"),
            ms if ms % 86_400_000 == 0 => (ms / 86_400_000, "d"),
            // "60s" and "90s" are how people speak of timers
            ms if ms % 3_600_000 == 0 => (ms / 3_600_000, "h"),
            ms if ms % 1000 == 0 => (ms / 1000, "s"),
            ms => (ms, "ms"),
        };
        format!("{number}{unit}").into()
    }
}

/// Whole seconds, as a number or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u32);

impl Value for Seconds {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let seconds = match whole_number(node) {
            Some(number) => u32::try_from(number).ok(),
            None => {
                let text = text(node, "seconds", reader)?;
                match Length::parse(text) {
                    Some(length) if length.0.subsec_millis() == 0 => u32::try_from(length.0.as_secs()).ok(),
                    Some(_) => return reader.bad_value(node, format!("{text:?} is not whole seconds"), ""),
                    None => return reader.bad_value(node, format!("{text:?} is no duration"), LENGTH_HELP),
                }
            }
        };
        match seconds {
            Some(seconds) => Some(Self(seconds)),
            None => reader.bad_value(node, "the time is outside 0 to 4294967295 seconds", ""),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "integer", "minimum": 0, "maximum": u32::MAX }, Length::schema()] })
    }
    fn show(&self) -> Json {
        self.0.into()
    }
}

/// Bits a second: `"1Gbps"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRate(pub u64);

impl BitRate {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = text.split_at_checked(digits)?;
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "bps" => 1,
            "kbps" => 1_000,
            "mbps" => 1_000_000,
            "gbps" => 1_000_000_000,
            "tbps" => 1_000_000_000_000,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(factor).filter(|bps| *bps > 0).map(Self)
    }
}

impl Value for BitRate {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = text(node, "a bit rate", reader)?;
        match Self::parse(text) {
            Some(rate) => Some(rate),
            None => reader.bad_value(
                node,
                format!("{text:?} is no bit rate"),
                "write it like \"100Mbps\" or \"1Gbps\"",
            ),
        }
    }
    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9]+ *([kKmMgGtT]?[bB][pP][sS])$" })
    }
    fn show(&self) -> Json {
        format!("{}bps", self.0).into()
    }
}

impl Value for IpAddr {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = text(node, "an address", reader)?;
        match text.parse::<Self>() {
            Ok(address) => Some(address.to_canonical()),
            Err(_) => {
                let help = match text {
                    _ if text.contains('/') => "give one address, without a prefix length",
                    _ if text.parse::<SocketAddr>().is_ok() => "give the address without a port",
                    _ => "write it like \"192.0.2.10\" or \"2001:db8::10\"",
                };
                reader.bad_value(node, format!("{text:?} is no IP address"), help)
            }
        }
    }
    fn schema() -> Json {
        json!({ "type": "string", "anyOf": [{ "format": "ipv4" }, { "format": "ipv6" }] })
    }
    fn show(&self) -> Json {
        self.to_string().into()
    }
}

impl Value for SocketAddr {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = text(node, "an address with a port", reader)?;
        match text.parse() {
            Ok(socket) => Some(socket),
            Err(_) => {
                let help = match text.parse::<IpAddr>() {
                    Ok(IpAddr::V4(address)) => format!("add the port: \"{address}:PORT\""),
                    Ok(IpAddr::V6(address)) => format!("add the port: \"[{address}]:PORT\""),
                    Err(_) => "write it like \"192.0.2.1:53\" or \"[2001:db8::1]:53\"".to_owned(),
                };
                reader.bad_value(node, format!("{text:?} is no address with a port"), &help)
            }
        }
    }
    fn schema() -> Json {
        json!({ "type": "string" })
    }
    fn show(&self) -> Json {
        self.to_string().into()
    }
}

/// A prefix in canonical form, or what is wrong with the text.
pub(crate) fn parse_prefix(text: &str) -> Result<IpNet, (String, String)> {
    let net = match (text.parse::<IpNet>(), text.parse::<IpAddr>()) {
        (Ok(net), _) => net,
        (_, Ok(address)) => IpNet::from(address),
        _ => {
            let help = "write it like \"192.0.2.0/24\", \"2001:db8::/32\" or \"192.0.2.10\"";
            return Err((format!("{text:?} is no prefix"), help.into()));
        }
    };
    if net.addr() != net.network() {
        let message = format!("{text:?} has bits behind its length");
        return Err((message, format!("did you mean \"{}\"?", net.trunc())));
    }
    // R5: v4-mapped prefixes are IPv4 ones
    Ok(match (net, net.addr().to_canonical()) {
        (IpNet::V6(v6), IpAddr::V4(address)) if v6.prefix_len() >= 96 => {
            IpNet::new(IpAddr::V4(address), v6.prefix_len() - 96).unwrap_or(net)
        }
        _ => net,
    })
}

impl Value for IpNet {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = text(node, "a prefix", reader)?;
        match parse_prefix(text) {
            Ok(net) => Some(net),
            Err((message, help)) => reader.bad_value(node, message, &help),
        }
    }
    fn schema() -> Json {
        json!({ "type": "string" })
    }
    fn show(&self) -> Json {
        self.to_string().into()
    }
}

impl Value for Name {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = text(node, "a domain name", reader)?;
        match text.parse::<Self>() {
            // hosts files and URLs get pasted here
            Ok(_) if text.contains([' ', '/', ':', '@']) => {
                let help = "give a name like \"www.example.com.\", without a scheme, port or path";
                reader.bad_value(node, format!("{text:?} is no domain name"), help)
            }
            Ok(name) => Some(name),
            Err(error) => reader.bad_value(node, format!("{text:?} is no domain name: {error}"), ""),
        }
    }
    fn schema() -> Json {
        json!({ "type": "string", "minLength": 1 })
    }
    fn show(&self) -> Json {
        self.to_string().into()
    }
}

/// Defines a choice of words.
macro_rules! words {
    ($(#[doc = $doc:literal])+ pub enum $name:ident { $( $(#[doc = $about:literal])+ $variant:ident = $word:literal, )+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[doc = $about])+ $variant, )+ }

        impl $name {
            /// The word in the config.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }

            /// All the words.
            pub(crate) const WORDS: &[&str] = &[$($word),+];

            pub(crate) fn from_word(word: &str) -> Option<Self> {
                match word { $( $word => Some(Self::$variant), )+ _ => None }
            }
        }

        impl $crate::read::Value for $name {
            fn read(node: &$crate::read::Node<'_>, reader: &mut $crate::read::Reader<'_>) -> Option<Self> {
                let word = $crate::read::text(node, "a word", reader)?;
                match Self::from_word(word) {
                    Some(value) => Some(value),
                    None => $crate::read::unknown_word(node, word, Self::WORDS, reader),
                }
            }
            fn schema() -> serde_json::Value {
                serde_json::json!({ "type": "string", "enum": Self::WORDS })
            }
            fn show(&self) -> serde_json::Value {
                self.name().into()
            }
        }
    };
}
pub(crate) use words;

/// Reports a word that is none of the known ones.
pub(crate) fn unknown_word<T>(
    node: &Node<'_>,
    word: &str,
    words: &[&str],
    reader: &mut Reader<'_>,
) -> Option<T> {
    let help = crate::suggest::remedy(word, words.iter().copied()).unwrap_or_default();
    reader.bad_value(node, format!("unknown word {word:?}"), &help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in
            [("500ms", 500), ("5s", 5000), ("1m30s", 90_000), ("1h", 3_600_000), ("1d", 86_400_000)]
        {
            assert_eq!(Length::parse(text), Some(Length(Duration::from_millis(ms))), "{text}");
        }
        for text in
            ["", "5", "s", "5x", "5 s5", "-5s", "99999999999999999999s", "999999999999999999d", "5s 5"]
        {
            assert_eq!(Length::parse(text), None, "{text}");
        }
    }

    #[test]
    fn bit_rates() {
        for (text, bps) in
            [("1bps", 1), ("64kbps", 64_000), ("100Mbps", 100_000_000), ("1 Gbps", 1_000_000_000)]
        {
            assert_eq!(BitRate::parse(text), Some(BitRate(bps)), "{text}");
        }
        for text in ["", "5", "0Gbps", "Gbps", "1.5Gbps", "99999999999999Tbps"] {
            assert_eq!(BitRate::parse(text), None, "{text}");
        }
    }
}
