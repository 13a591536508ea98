//! DNS cookies in the form all servers of an anycast set share (RFC 7873, RFC 9018).

use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;

/// Octets of a client cookie.
pub(crate) const CLIENT: usize = 8;
/// Octets of a server cookie in the interoperable form (RFC 9018 4).
pub(crate) const SERVER: usize = 16;

/// A secret for server cookies.
pub type Secret = [u8; 16];

/// The secrets: clients that hold a cookie made with the previous one keep their standing while it rolls (RFC 9018 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieSecrets {
    /// New cookies are made with this one.
    pub current: Secret,
    /// Cookies made with this one are still good.
    pub previous: Option<Secret>,
}

/// A COOKIE option as a query gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The client's part.
    pub client: [u8; CLIENT],
    /// The server's part, where it has the interoperable form's length; any other is as good as none.
    pub server: Option<[u8; SERVER]>,
}

impl Cookie {
    /// Reads the option's data: 8 octets, or 16 to 40 (RFC 7873 5.2.2).
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let (client, server) = data.split_first_chunk::<CLIENT>()?;
        match server.len() {
            0 => Some(Self { client: *client, server: None }),
            8..=32 => Some(Self { client: *client, server: server.try_into().ok() }),
            _ => None,
        }
    }
}

impl CookieSecrets {
    /// Whether the server part was made here for this client not long ago (RFC 9018 4.3).
    #[must_use]
    pub fn is_valid(&self, cookie: &Cookie, source: IpAddr, unix_s: u32) -> bool {
        let Some(server) = cookie.server else { return false };
        let [1, _, _, _, t3, t2, t1, t0, ..] = server else { return false };
        // serial number arithmetic (RFC 1982): an hour old at most, five minutes ahead at most
        let age_s = unix_s.wrapping_sub(u32::from_be_bytes([t3, t2, t1, t0])).cast_signed();
        if !(-300..=3600).contains(&age_s) {
            return false;
        }
        [Some(&self.current), self.previous.as_ref()].into_iter().flatten().any(|secret| {
            let mut made = server;
            if let Some((head, hash)) = made.split_first_chunk_mut::<8>() {
                hash.copy_from_slice(&keyed_hash(secret, &cookie.client, head, source));
            }
            // compare all octets whatever the first ones say
            made.iter().zip(server).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
        })
    }

    /// A fresh server part.
    #[must_use]
    pub fn make(&self, client: &[u8; CLIENT], source: IpAddr, unix_s: u32) -> [u8; SERVER] {
        let [t3, t2, t1, t0] = unix_s.to_be_bytes();
        let head = [1, 0, 0, 0, t3, t2, t1, t0];
        let [a, b, c, d, e, f, g, h] = keyed_hash(&self.current, client, &head, source);
        [1, 0, 0, 0, t3, t2, t1, t0, a, b, c, d, e, f, g, h]
    }
}

/// RFC 9018 4.4: SipHash-2-4 over client cookie, version, reserved, timestamp and client address.
fn keyed_hash(secret: &Secret, client: &[u8; CLIENT], head: &[u8; 8], source: IpAddr) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(client);
    hasher.write(head);
    match source {
        IpAddr::V4(v4) => hasher.write(&v4.octets()),
        IpAddr::V6(v6) => hasher.write(&v6.octets()),
    }
    hasher.finish().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        let octets: Vec<u8> =
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect();
        octets.try_into().unwrap()
    }

    /// RFC 9018 appendix A.
    #[test]
    fn published_vectors() {
        let first = CookieSecrets { current: hex("e5e973e5a6b2a43f48e7dc849e37bfcf"), previous: None };
        let source = "198.51.100.100".parse().unwrap();
        let client = hex("2464c4abcf10c957");
        let made = first.make(&client, source, 1_559_731_985);
        assert_eq!(made, hex("010000005cf79f111f8130c3eee29480"));
        assert!(first.is_valid(&Cookie { client, server: Some(made) }, source, 1_559_731_985 + 3_600));

        // A.4: an IPv6 client, and a secret that rolled
        let second = CookieSecrets {
            current: hex("445536bcd2513298075a5d379663c962"),
            previous: Some(hex("dd3bdf9344b678b185a6f5cb60fca715")),
        };
        let source = "2001:db8:220:1:59de:d0f4:8769:82b8".parse().unwrap();
        let client = hex("22681ab97d52c298");
        let old = Cookie { client, server: Some(hex("010000005cf7c57926556bd0934c72f8")) };
        assert!(second.is_valid(&old, source, 1_559_741_961));
        assert_eq!(second.make(&client, source, 1_559_741_961), hex("010000005cf7c609a6bb79d16625507a"));
        assert!(!CookieSecrets { previous: None, ..second }.is_valid(&old, source, 1_559_741_961));
    }

    #[test]
    fn bad_ones_are_none() {
        let secrets = CookieSecrets { current: [7; 16], previous: None };
        let source = "192.0.2.1".parse().unwrap();
        let client = [1; 8];
        let good = secrets.make(&client, source, 10_000);
        let is_valid = |server, from: &str, now| {
            secrets.is_valid(&Cookie { client, server: Some(server) }, from.parse().unwrap(), now)
        };
        assert!(is_valid(good, "192.0.2.1", 10_000));
        assert!(is_valid(good, "192.0.2.1", 9_700) && !is_valid(good, "192.0.2.1", 9_699));
        assert!(is_valid(good, "192.0.2.1", 13_600) && !is_valid(good, "192.0.2.1", 13_601));
        assert!(!is_valid(good, "192.0.2.2", 10_000));
        for bit in 0..128 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_valid(bad, "192.0.2.1", 10_000), "bit {bit}");
        }
        for (length, is_read) in
            [(0, false), (7, false), (8, true), (9, false), (15, false), (16, true), (40, true), (41, false)]
        {
            assert_eq!(Cookie::read(&vec![1; length]).is_some(), is_read, "{length}");
        }
    }
}
