//! Fields: an id, a length and a value. What a reader does not know it skips.

use std::net::IpAddr;

use super::Malformed;

/// Octets of a field's id and length.
pub(super) const FIELD_HEADER: usize = 3;

/// Appends fields. A value never exceeds a field's length: texts are cut at `u16::MAX` octets at the latest, names and
/// claims are bounded far below.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn octets(&mut self, id: u8, value: &[u8]) {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.0.push(id);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(&value[..usize::from(length)]);
    }

    pub(super) fn text(&mut self, id: u8, value: &str) {
        self.octets(id, value.as_bytes());
    }

    /// A text for people: cut at a character's boundary.
    pub(super) fn cut_text(&mut self, id: u8, value: &str, limit: usize) {
        self.text(id, cut(value, limit));
    }

    pub(super) fn u8(&mut self, id: u8, value: u8) {
        self.octets(id, &[value]);
    }

    pub(super) fn u16(&mut self, id: u8, value: u16) {
        self.octets(id, &value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, id: u8, value: u32) {
        self.octets(id, &value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, id: u8, value: u64) {
        self.octets(id, &value.to_be_bytes());
    }

    pub(super) fn address(&mut self, id: u8, value: IpAddr) {
        match value {
            IpAddr::V4(v4) => self.octets(id, &v4.octets()),
            IpAddr::V6(v6) => self.octets(id, &v6.octets()),
        }
    }

    /// Family (4 or 6), length in bits, and the octets that hold those bits.
    pub(super) fn prefix(&mut self, id: u8, (address, length): (IpAddr, u8)) {
        let mut value = [0; 18];
        let (family, octets) = match address {
            IpAddr::V4(v4) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&v4.octets());
                (4, octets)
            }
            IpAddr::V6(v6) => (6, v6.octets()),
        };
        value[0] = family;
        value[1] = length;
        value[2..].copy_from_slice(&octets);
        self.octets(id, &value[..2 + usize::from(length.min(128)).div_ceil(8)]);
    }
}

/// `text` cut to at most `limit` octets, at a character's boundary.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// One field as it was found.
pub(super) struct Field<'b> {
    pub(super) id: u8,
    value: &'b [u8],
}

/// The fields of a body, in their order.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl<'b> Iterator for Fields<'b> {
    type Item = Result<Field<'b>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.split();
        if found.is_none() {
            self.0 = &[];
        }
        Some(found.ok_or(Malformed::Field))
    }
}

impl<'b> Fields<'b> {
    fn split(&mut self) -> Option<Field<'b>> {
        let (&[id, high, low], rest) = self.0.split_first_chunk::<FIELD_HEADER>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        self.0 = rest;
        Some(Field { id, value })
    }
}

impl<'b> Field<'b> {
    pub(super) fn octets(&self) -> &'b [u8] {
        self.value
    }

    fn array<const N: usize>(&self) -> Result<[u8; N], Malformed> {
        self.value.try_into().map_err(|_| Malformed::Value)
    }

    pub(super) fn u8(&self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn flag(&self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value),
        }
    }

    pub(super) fn text(&self, limit: usize) -> Result<String, Malformed> {
        if self.value.len() > limit {
            return Err(Malformed::Value);
        }
        str::from_utf8(self.value).map(str::to_owned).map_err(|_| Malformed::Value)
    }

    pub(super) fn address(&self) -> Result<IpAddr, Malformed> {
        address(self.value)
    }

    pub(super) fn prefix(&self) -> Result<(IpAddr, u8), Malformed> {
        let (&[family, length], octets) = self.value.split_first_chunk::<2>().ok_or(Malformed::Value)?;
        if octets.len() != usize::from(length).div_ceil(8) {
            return Err(Malformed::Value);
        }
        let mut all = [0; 16];
        let width = match family {
            4 => 4,
            6 => 16,
            _ => return Err(Malformed::Value),
        };
        let room = all[..width].get_mut(..octets.len()).ok_or(Malformed::Value)?;
        room.copy_from_slice(octets);
        let prefix = (address(&all[..width])?, length);
        crate::claim::check_prefix(prefix).map_err(|_| Malformed::Value)?;
        Ok(prefix)
    }
}

fn address(octets: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Ok(v4.into());
    }
    <[u8; 16]>::try_from(octets).map(IpAddr::from).map_err(|_| Malformed::Value)
}
