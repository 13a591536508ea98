//! TLS 1.3 with both sides' certificates. The only place, with `pki`, that names rustls.
//!
//! Trust is in [`Roster::recognise`]; this file wires it into rustls. Each handshake has its own verifier, so that its
//! refusal can be told with the address it came from. Tickets and resumption are off: a resumed session would skip the
//! certificate, and with it a pin that was taken back or an expiry.

use super::roster::{Expected, Known, Refusal, Roster};
use crate::pki::Identity;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// What both sides must speak.
pub(super) const ALPN: &[u8] = b"portolan/1";
/// Nobody reads it: a peer is its key. rustls wants a name all the same.
pub(super) const SERVER_NAME: &str = "portolan";

/// What trust depends on; replaced by a reload.
#[derive(Debug)]
struct Current {
    identity: Identity,
    roster: Arc<Roster>,
}

/// Makes the settings of every handshake from what is current.
#[derive(Debug)]
pub(super) struct Trust {
    current: RwLock<Arc<Current>>,
    provider: Arc<CryptoProvider>,
}

impl Trust {
    pub(super) fn new(identity: Identity, roster: Roster) -> Self {
        let current = Current { identity, roster: Arc::new(roster) };
        Self {
            current: RwLock::new(Arc::new(current)),
            provider: Arc::new(rustls::crypto::ring::default_provider()),
        }
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, change: impl FnOnce(&Current) -> Current) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(change(&current));
    }

    pub(super) fn roster(&self) -> Arc<Roster> {
        self.current().roster.clone()
    }

    pub(super) fn identity(&self) -> Identity {
        self.current().identity.clone()
    }

    pub(super) fn set_roster(&self, roster: Roster) {
        self.replace(|old| Current { identity: old.identity.clone(), roster: Arc::new(roster) });
    }

    pub(super) fn set_identity(&self, identity: Identity) {
        self.replace(|old| Current { identity, roster: old.roster.clone() });
    }

    /// Settings for somebody who came.
    pub(super) fn server(&self) -> Result<(ServerConfig, Verdict), Error> {
        let current = self.current();
        let resolver = Arc::new(SingleCertAndKey::from(current.identity.certified()));
        let verifier = Arc::new(Verifier::new(current, None, self.provider.clone()));
        let verdict = verifier.verdict.clone();
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(NoTickets);
        config.send_tls13_tickets = 0;
        Ok((config, verdict))
    }

    /// Settings for dialling a peer.
    pub(super) fn client(&self, peer: &str) -> Result<(ClientConfig, Verdict), Error> {
        let current = self.current();
        let resolver: Arc<dyn ResolvesClientCert> =
            Arc::new(SingleCertAndKey::from(current.identity.certified()));
        let verifier = Arc::new(Verifier::new(current, Some(peer.to_owned()), self.provider.clone()));
        let verdict = verifier.verdict.clone();
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(resolver);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        // names of nodes are nobody's business on the way
        config.enable_sni = false;
        Ok((config, verdict))
    }
}

/// What a handshake's verifier found.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict(Arc<Mutex<Option<Result<Known, Refusal>>>>);

impl Verdict {
    pub(super) fn take(&self) -> Option<Result<Known, Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }
    fn lifetime(&self) -> u32 {
        0
    }
    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }
    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Recognises the other side of one handshake.
#[derive(Debug)]
struct Verifier {
    current: Arc<Current>,
    expected: Option<String>,
    provider: Arc<CryptoProvider>,
    verdict: Verdict,
}

impl Verifier {
    fn new(current: Arc<Current>, expected: Option<String>, provider: Arc<CryptoProvider>) -> Self {
        Self { current, expected, provider, verdict: Verdict::default() }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let expected = self.expected.as_deref().map_or(Expected::Any, Expected::Peer);
        let Current { identity, roster } = &*self.current;
        let known = roster.recognise(certificate, expected, identity.authorities(), now_unix_s());
        let result = match &known {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Error::InvalidCertificate(alert_for(refusal))),
        };
        *self.verdict.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        result
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The error whose alert tells the other side most: see [`told`].
fn alert_for(refusal: &Refusal) -> CertificateError {
    match refusal {
        Refusal::Malformed => CertificateError::BadEncoding,
        Refusal::UnknownPin { .. } | Refusal::WrongPin { .. } | Refusal::OtherPeer { .. } => {
            CertificateError::ApplicationVerificationFailure
        }
        Refusal::Expired { .. } => CertificateError::Expired,
        Refusal::NotYetValid { .. } => CertificateError::NotValidYet,
        Refusal::Issuer { .. } => CertificateError::UnknownIssuer,
    }
}

/// What an alert of the other side means here (RFC 8446 6.2).
pub(super) fn told(alert: u8) -> String {
    match alert {
        42 => "it cannot read this node's certificate".into(),
        45 => "it finds this node's certificate expired or not yet valid; see its log, compare the clocks"
            .into(),
        48 => "its ca.crt did not sign this node's certificate".into(),
        49 => "it does not know this node's pin; `portolan pki pin DIR NAME` prints it".into(),
        116 => "it wants a certificate".into(),
        120 => "it does not speak this protocol".into(),
        other => format!("it ended the handshake with TLS alert {other}"),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

/// Seconds since 1970 by this node's clock: the only use of wall time between peers, as certificates need it.
pub(super) fn now_unix_s() -> i64 {
    let age = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    i64::try_from(age).unwrap_or(i64::MAX)
}
