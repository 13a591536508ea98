//! A node's own key and certificate, read from its files.

use super::certificate::{Date, Facts, Validity};
use super::files;
use super::{Pin, PkiError};
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Stem of the CA's files.
pub(super) const AUTHORITY: &str = "ca";
/// From how many days before its end on a certificate is warned about.
pub const EXPIRY_WARNING_DAYS: i64 = 30;

/// Who this node is to its peers.
#[derive(Clone, Debug)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    facts: Facts,
    authorities: Vec<CertificateDer<'static>>,
    key_file: PathBuf,
}

impl Identity {
    /// Reads `PATH.crt` and `PATH.key`, and `ca.crt` beside them if it is there.
    pub fn load(path: &Path) -> Result<Self, PkiError> {
        const REMEDY: &str = "`portolan pki init DIR` and `portolan pki issue DIR NAME` make it";
        let certificate_file = files::with_ending(path, "crt");
        let key_file = files::with_ending(path, "key");
        let chain = read_certificates(&certificate_file, REMEDY)?;
        let facts = facts_of(&certificate_file, &chain)?;
        let key = PrivateKeyDer::from_pem_slice(&files::read(&key_file, REMEDY)?).map_err(|_| {
            let problem = "no private key in PEM".to_owned();
            PkiError::Content { path: key_file.clone(), problem, remedy: REMEDY }
        })?;
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| PkiError::Content {
            path: key_file.clone(),
            problem: format!("does not belong to {}: {error}", certificate_file.display()),
            remedy: "restore the pair, or make a new one with `portolan pki issue DIR NAME --force`",
        })?;
        let authority_file = path.with_file_name(AUTHORITY).with_extension("crt");
        let authorities = if authority_file.exists() {
            read_certificates(&authority_file, "restore it, or remove it to trust pins alone")?
        } else {
            Vec::new()
        };
        Ok(Self { certified: Arc::new(certified), facts, authorities, key_file })
    }

    /// The pin by which the other nodes know this one.
    #[must_use]
    pub fn pin(&self) -> Pin {
        self.facts.pin
    }

    /// When the certificate may be used.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.facts.validity
    }

    /// How long the certificate is still valid; zero when it has expired.
    #[must_use]
    pub fn expires_in(&self, now_s: i64) -> Duration {
        Duration::from_secs(self.facts.validity.left_s(now_s).unsigned_abs())
    }

    /// What an operator should know about these files before peers refuse them.
    #[must_use]
    pub fn warnings(&self, now_s: i64) -> Vec<String> {
        let mut warnings = self.certificate_warnings(now_s);
        if files::is_open_to_others(&self.key_file) {
            let key = self.key_file.display();
            warnings.push(format!("{key} is open to others than its owner; chmod 600 {key}"));
        }
        warnings
    }

    /// The same of the certificate alone.
    #[must_use]
    pub fn certificate_warnings(&self, now_s: i64) -> Vec<String> {
        const RENEW: &str = "`portolan pki issue DIR NAME --renew` makes a new certificate with the same pin";
        let Validity { not_before_s, not_after_s } = self.facts.validity;
        let mut warnings = Vec::new();
        if now_s > not_after_s {
            warnings.push(format!(
                "this node's certificate expired at {}, peers refuse it; {RENEW}",
                Date(not_after_s)
            ));
        } else if not_after_s - now_s < EXPIRY_WARNING_DAYS * 86_400 {
            let days = (not_after_s - now_s) / 86_400;
            warnings.push(format!(
                "this node's certificate expires in {days} days, at {}; {RENEW}",
                Date(not_after_s)
            ));
        }
        if now_s < not_before_s {
            warnings.push(format!(
                "this node's certificate is valid from {} on, its clock says {}; set the clock, or issue it anew",
                Date(not_before_s),
                Date(now_s)
            ));
        }
        if !self.authorities.is_empty()
            && !self.certified.cert.first().is_some_and(|own| is_signed_by(own, &self.authorities))
        {
            warnings.push(
                "this node's certificate is not signed by the ca.crt beside it, peers with the same ca.crt refuse it; \
                 issue it anew, or remove ca.crt everywhere to trust pins alone"
                    .into(),
            );
        }
        warnings
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }

    pub(crate) fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }
}

pub(super) fn read_certificates(
    path: &Path,
    remedy: &'static str,
) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let text = files::read(path, remedy)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) | Err(_) => {
            let problem = "no certificate in PEM".to_owned();
            Err(PkiError::Content { path: path.to_owned(), problem, remedy })
        }
    }
}

/// What the first certificate of a file says.
pub(super) fn facts_of(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Facts, PkiError> {
    let facts = chain.first().map(|certificate| Facts::of(certificate));
    match facts {
        Some(Ok(facts)) => Ok(facts),
        Some(Err(error)) => Err(content(path, error.to_string())),
        None => Err(content(path, "no certificate".into())),
    }
}

fn content(path: &Path, problem: String) -> PkiError {
    PkiError::Content {
        path: path.to_owned(),
        problem,
        remedy: "make it anew with `portolan pki issue DIR NAME`",
    }
}

/// Whether one of the authorities signed the certificate. Its dates are judged elsewhere, with reasons of their own, so
/// the signature is looked at in the certificate's first second.
pub(crate) fn is_signed_by(certificate: &[u8], authorities: &[CertificateDer<'_>]) -> bool {
    let certificate = CertificateDer::from(certificate);
    let (Ok(parsed), Ok(facts)) = (ParsedCertificate::try_from(&certificate), Facts::of(&certificate)) else {
        return false;
    };
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let _ = roots.add(authority.clone().into_owned());
    }
    let at = Duration::from_secs(facts.validity.not_before_s.max(0).unsigned_abs());
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let at = UnixTime::since_unix_epoch(at);
    verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], at, algorithms).is_ok()
}
