//! Making keys and certificates: what `portolan pki` does.

use super::certificate::{Date, Facts};
use super::files::{self, Mode};
use super::identity::{self, AUTHORITY, Identity};
use super::{Pin, PkiError};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SerialNumber,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a CA is valid unless said otherwise.
pub const CA_DAYS: u32 = 3_650;
/// How long a node's certificate is valid unless said otherwise.
pub const NODE_DAYS: u32 = 730;
/// The longest validity.
pub const MAX_DAYS: u32 = 36_500;
/// Certificates start a day in the past, since nodes' clocks differ (T11).
const BACKDATED_S: i64 = 86_400;

/// How to make keys and certificates.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// Validity in days; none: [`CA_DAYS`] or [`NODE_DAYS`].
    pub days: Option<u32>,
    /// Replace files that exist.
    pub force: bool,
    /// Keep the node's key, and so its pin, and make a new certificate for it.
    pub renew: bool,
    /// The time, in seconds since 1970.
    pub now_s: i64,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file.
    pub key: PathBuf,
    /// The pin of the key.
    pub pin: Pin,
    /// When the certificate ends, in seconds since 1970.
    pub not_after_s: i64,
}

/// Makes a CA in a folder: `ca.key` and `ca.crt`.
pub fn init(folder: &Path, making: &Making) -> Result<Issued, PkiError> {
    let days = checked_days(making.days.unwrap_or(CA_DAYS))?;
    files::make_folder(folder)?;
    let base = folder.join(AUTHORITY);
    let key = new_key()?;
    let mut params = ca_params(&key);
    date(&mut params, making.now_s, days)?;
    let certificate = params.self_signed(&key).map_err(cannot("the CA's certificate"))?;
    const REMEDY: &str = "a new CA makes all certificates of the old one void; use --force if that is meant";
    save(&base, Some(&key), &certificate.pem(), making.force, REMEDY)?;
    issued(&base, &key, certificate.der())
}

/// Makes a node's key and certificate, signed by the folder's CA.
pub fn issue(folder: &Path, name: &str, making: &Making) -> Result<Issued, PkiError> {
    let days = checked_days(making.days.unwrap_or(NODE_DAYS))?;
    check_name(name)?;
    let ca = read_ca(folder)?;
    let base = folder.join(name);
    let key_file = files::with_ending(&base, "key");
    let key = if making.renew {
        read_key(&key_file, "--renew keeps an existing key; issue the node first, without it")?
    } else {
        new_key()?
    };
    let params = node_params(name, making.now_s, days)?;
    let issuer = Issuer::new(ca_params(&ca), &ca);
    let certificate = params.signed_by(&key, &issuer).map_err(cannot("the certificate"))?;
    check_signed(folder, &ca, certificate.der())?;
    const REMEDY: &str = "use --renew to keep the key and its pin and to make a new certificate, or --force for a new key \
                          and a new pin";
    save(&base, (!making.renew).then_some(&key), &certificate.pem(), making.force || making.renew, REMEDY)?;
    issued(&base, &key, certificate.der())
}

/// The pin of a node's certificate in a folder.
pub fn pin(folder: &Path, name: &str) -> Result<Pin, PkiError> {
    check_name(name)?;
    public_pin(&files::with_ending(&folder.join(name), "crt"))
}

/// The pin of a certificate file; its key is not needed.
pub fn public_pin(certificate: &Path) -> Result<Pin, PkiError> {
    let chain = identity::read_certificates(certificate, "`portolan pki issue DIR NAME` makes it")?;
    Ok(identity::facts_of(certificate, &chain)?.pin)
}

fn new_key() -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(cannot("a key"))
}

fn cannot(what: &'static str) -> impl FnOnce(rcgen::Error) -> PkiError {
    move |error| PkiError::Make { what, why: error.to_string() }
}

/// The CA, but for its dates. All of it follows from the key, so that issuing needs no reader of certificates.
fn ca_params(key: &KeyPair) -> CertificateParams {
    let Pin(hash) = Pin::of_public_key(&key.subject_public_key_info());
    let id: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("Portolan peers CA {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn node_params(name: &str, now_s: i64, days: u32) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(cannot("the certificate"))?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // a node dials and is dialled with the same certificate
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    date(&mut params, now_s, days)?;
    Ok(params)
}

fn date(params: &mut CertificateParams, now_s: i64, days: u32) -> Result<(), PkiError> {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |seconds: i64| epoch + Duration::from_secs(seconds.clamp(0, 250_000_000_000).unsigned_abs());
    params.not_before = at(now_s - BACKDATED_S);
    params.not_after = at(now_s + i64::from(days) * 86_400);
    // renewed certificates of one key must differ in their serial number (RFC 5280 4.1.2.2)
    let mut serial = [0; 16];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random
        .fill(&mut serial)
        .map_err(|_| PkiError::Make { what: "a serial number", why: "no entropy".into() })?;
    // positive, and not shortened for a leading zero
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(())
}

/// Writes the key first: a certificate without its key would be useless, a key without one can be completed.
fn save(
    base: &Path,
    key: Option<&KeyPair>,
    certificate: &str,
    replace: bool,
    remedy: &'static str,
) -> Result<(), PkiError> {
    let certificate_file = files::with_ending(base, "crt");
    if !replace && certificate_file.symlink_metadata().is_ok() {
        return Err(PkiError::Exists { path: certificate_file, remedy });
    }
    if let Some(key) = key {
        files::write(&files::with_ending(base, "key"), &key.serialize_pem(), Mode::Secret, replace, remedy)?;
    }
    files::write(&certificate_file, certificate, Mode::Public, replace, remedy)
}

fn issued(base: &Path, key: &KeyPair, certificate: &[u8]) -> Result<Issued, PkiError> {
    let facts = Facts::of(certificate)
        .map_err(|error| PkiError::Make { what: "the certificate", why: error.to_string() })?;
    debug_assert_eq!(facts.pin, Pin::of_public_key(&key.subject_public_key_info()));
    Ok(Issued {
        certificate: files::with_ending(base, "crt"),
        key: files::with_ending(base, "key"),
        pin: facts.pin,
        not_after_s: facts.validity.not_after_s,
    })
}

fn read_ca(folder: &Path) -> Result<KeyPair, PkiError> {
    read_key(&folder.join(AUTHORITY).with_extension("key"), "`portolan pki init DIR` makes a CA")
}

fn read_key(path: &Path, remedy: &'static str) -> Result<KeyPair, PkiError> {
    let text = files::read(path, remedy)?;
    let key = std::str::from_utf8(&text).ok().and_then(|text| KeyPair::from_pem(text).ok());
    key.ok_or_else(|| PkiError::Content {
        path: path.to_owned(),
        problem: "not a private key in PEM (PKCS #8)".into(),
        remedy: "restore it, or make a new one with --force",
    })
}

/// A certificate that the folder's `ca.crt` does not vouch for would be refused by every peer.
fn check_signed(folder: &Path, ca: &KeyPair, certificate: &[u8]) -> Result<(), PkiError> {
    let path = folder.join(AUTHORITY).with_extension("crt");
    let authorities = identity::read_certificates(&path, "`portolan pki init DIR` makes a CA")?;
    let is_own = |one: &rustls_pki_types::CertificateDer<'_>| {
        Facts::of(one).is_ok_and(|facts| facts.pin == Pin::of_public_key(&ca.subject_public_key_info()))
    };
    if authorities.iter().any(is_own) && identity::is_signed_by(certificate, &authorities) {
        return Ok(());
    }
    Err(PkiError::Content {
        path,
        problem: "does not belong to ca.key, or was not made by `portolan pki init`".into(),
        remedy: "restore the pair, or make a new CA with `portolan pki init DIR --force`",
    })
}

fn check_name(name: &str) -> Result<(), PkiError> {
    let is_good = (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && !name.starts_with(['.', '-'])
        && name != AUTHORITY;
    if is_good { Ok(()) } else { Err(PkiError::Name { name: name.to_owned() }) }
}

fn checked_days(days: u32) -> Result<u32, PkiError> {
    if (1..=MAX_DAYS).contains(&days) { Ok(days) } else { Err(PkiError::Days { days }) }
}

impl Issued {
    /// The identity that was made.
    pub fn load(&self) -> Result<Identity, PkiError> {
        Identity::load(&self.key.with_extension(""))
    }

    /// When the certificate ends, as text.
    #[must_use]
    pub fn not_after(&self) -> String {
        Date(self.not_after_s).to_string()
    }
}
