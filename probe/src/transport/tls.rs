//! TLS for checks: rustls with ring.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::failed;
use crate::{
    kind::{Roots, TlsDef},
    verdict::{Reason, What},
};

/// The settings of one check: made at its first run, and again when its file of roots changes.
#[derive(Default)]
pub(super) struct Connector(Mutex<Option<(Option<SystemTime>, TlsConnector)>>);

impl Connector {
    pub(super) async fn get(&self, def: &TlsDef) -> Result<TlsConnector, Reason> {
        let version = match &def.roots {
            Roots::Machine => None,
            Roots::File(path) => tokio::fs::metadata(path).await.and_then(|found| found.modified()).ok(),
        };
        if let Some((known, connector)) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && *known == version
        {
            return Ok(connector.clone());
        }
        let def = def.clone();
        // Reading certificates is file work: a blocking thread's.
        let made = tokio::task::spawn_blocking(move || settings(&def)).await;
        let settings = made.map_err(|error| failed(What::Local, error.to_string()))??;
        let connector = TlsConnector::from(Arc::new(settings));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((version, connector.clone()));
        Ok(connector)
    }
}

/// Opens TLS on a connection.
pub(super) async fn handshake(
    connector: TlsConnector,
    name: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Reason> {
    let server_name = ServerName::try_from(name.to_owned()).map_err(|_| {
        failed(What::Local, format!("{name:?} cannot be a certificate's name; set server_name"))
    })?;
    connector.connect(server_name, stream).await.map_err(|error| failed(What::Tls, error.to_string()))
}

fn settings(def: &TlsDef) -> Result<ClientConfig, Reason> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(What::Local, error.to_string()))?;
    let mut settings = if def.verify {
        builder.with_root_certificates(roots(&def.roots)?).with_no_client_auth()
    } else {
        let anything = Arc::new(AcceptAny(provider));
        builder.dangerous().with_custom_certificate_verifier(anything).with_no_client_auth()
    };
    // A resumed session is not verified again, and would hide a certificate that expired or was replaced.
    settings.resumption = Resumption::disabled();
    Ok(settings)
}

fn roots(roots: &Roots) -> Result<Arc<RootCertStore>, Reason> {
    match roots {
        Roots::Machine => machine_roots(),
        Roots::File(path) => {
            let cannot = |error: String| failed(What::Local, format!("ca_file {}: {error}", path.display()));
            let mut store = RootCertStore::empty();
            for certificate in
                CertificateDer::pem_file_iter(path).map_err(|error| cannot(error.to_string()))?
            {
                let certificate = certificate.map_err(|error| cannot(error.to_string()))?;
                store.add(certificate).map_err(|error| cannot(error.to_string()))?;
            }
            if store.is_empty() { Err(cannot("holds no certificate".into())) } else { Ok(Arc::new(store)) }
        }
    }
}

/// The machine's roots, read once: thousands of checks share them.
fn machine_roots() -> Result<Arc<RootCertStore>, Reason> {
    static MACHINE: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(store) = MACHINE.get() {
        return Ok(Arc::clone(store));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Machines carry some odd old certificates; those that cannot be read are left out.
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why =
            found.errors.first().map_or_else(|| io::ErrorKind::NotFound.to_string(), ToString::to_string);
        let remedy = "install the package ca-certificates, or set ca_file, or verify = false";
        return Err(failed(What::Local, format!("no root certificates on this machine ({why}); {remedy}")));
    }
    Ok(Arc::clone(MACHINE.get_or_init(|| Arc::new(store))))
}

/// Accepts any certificate (`verify = false`), but still wants the server to prove that it holds its key.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
