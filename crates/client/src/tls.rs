//! TLS as MongoDB's options describe it, for this client and for the server: turns PEM files into rustls configurations.
//!
//! One file holds a certificate, the certificates that signed it, and its key (`tlsCertificateKeyFile`); another holds the trusted
//! certificates (`tlsCAFile`). Only TLS 1.2 and 1.3 are supported. Encrypted keys are refused with a specific message.
//!
//! If `tlsAllowInvalidCertificates` or `tlsAllowInvalidHostnames` is set, the verifier skips the corresponding check. It still
//! checks the handshake's signatures, so the server owns at least the certificate that it presents.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathom_errors::{Error, Kind, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};

/// The requirements of a client on a server's certificate, and its own certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// `tlsCAFile`: the trusted certificates; the system's if `None`.
    pub ca_file: Option<PathBuf>,
    /// `tlsCertificateKeyFile`: the client's own certificate and key.
    pub certificate_key_file: Option<PathBuf>,
    /// `tlsAllowInvalidCertificates`: accept any certificate.
    pub allow_invalid_certificates: bool,
    /// `tlsAllowInvalidHostnames`: accept a trusted certificate for any host.
    pub allow_invalid_hostnames: bool,
}

/// The certificate of a server, and its requirements on clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The file of mongod's `net.tls.certificateKeyFile`.
    pub certificate_key_file: PathBuf,
    /// `net.tls.CAFile`: the authorities that must have signed clients' certificates. Without it no certificate is requested.
    pub ca_file: Option<PathBuf>,
    /// `net.tls.allowConnectionsWithoutCertificates`: with a CA file, also accept clients without a certificate.
    pub allow_connections_without_certificates: bool,
}

/// The files in which Linux distributions keep the system's trusted certificates.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The configuration for a client.
pub fn client_config(tls: &ClientTls) -> Result<Arc<ClientConfig>> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|cause| misconfigured("the TLS versions", cause))?;
    let builder = if tls.allow_invalid_certificates {
        builder.dangerous().with_custom_certificate_verifier(LenientVerifier::of_any(&provider))
    } else {
        let authorities = Arc::new(trusted(tls.ca_file.as_deref())?);
        if tls.allow_invalid_hostnames {
            let strict = WebPkiServerVerifier::builder_with_provider(authorities, Arc::clone(&provider))
                .build()
                .map_err(|cause| misconfigured("the trusted certificates", cause))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(LenientVerifier::of_any_host(strict, &provider))
        } else {
            builder.with_root_certificates(authorities)
        }
    };
    let config = match &tls.certificate_key_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let TlsIdentity { certificates, key } = load_identity(path)?;
            builder.with_client_auth_cert(certificates, key).map_err(|cause| unusable(path, cause))?
        }
    };
    Ok(Arc::new(config))
}

/// The configuration for a server.
pub fn server_config(tls: &ServerTls) -> Result<Arc<ServerConfig>> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|cause| misconfigured("the TLS versions", cause))?;
    let builder = match &tls.ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let authorities = Arc::new(load_authorities(path)?);
            let mut verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider);
            if tls.allow_connections_without_certificates {
                verifier = verifier.allow_unauthenticated();
            }
            let verifier = verifier.build().map_err(|cause| unusable(path, cause))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let path = &tls.certificate_key_file;
    let TlsIdentity { certificates, key } = load_identity(path)?;
    let config = builder.with_single_cert(certificates, key).map_err(|cause| unusable(path, cause))?;
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn trusted(ca_file: Option<&Path>) -> Result<RootCertStore> {
    if let Some(path) = ca_file {
        return load_authorities(path);
    }
    let system = SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
    system.map(load_authorities).unwrap_or_else(|| {
        let what = "this system has no list of trusted certificates where one is expected";
        Err(Error::new(Kind::NotFound, what).advise("name one with tlsCAFile"))
    })
}

fn misconfigured(part: &str, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Kind::Usage, format!("{part} cannot be used for TLS")).because(cause)
}

fn unusable(path: &Path, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    misconfigured(&path.display().to_string(), cause)
}

/// A certificate, the certificates that signed it, and its key.
pub struct TlsIdentity {
    /// The end-entity certificate comes first.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The private key of that certificate.
    pub key: PrivateKeyDer<'static>,
}

/// Keeps the key out of logs.
impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.certificates.len()).finish_non_exhaustive()
    }
}

/// Loads a certificate and its key from one file, in any order.
pub fn load_identity(path: &Path) -> Result<TlsIdentity> {
    let text = read(path)?;
    let certificates = certificates(path, &text)?;
    if text.windows(ENCRYPTED.len()).any(|bytes| bytes == ENCRYPTED)
        || text.windows(OLD_ENCRYPTED.len()).any(|bytes| bytes == OLD_ENCRYPTED)
    {
        let what = format!("the key in {} is encrypted, which is not supported", path.display());
        return Err(Error::new(Kind::Unsupported, what).advise("decrypt it with: openssl pkey -in FILE"));
    }
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|cause| {
        Error::new(Kind::Malformed, format!("{} holds no usable private key", path.display())).because(cause)
    })?;
    Ok(TlsIdentity { certificates, key })
}

/// Loads the trusted certificates.
pub fn load_authorities(path: &Path) -> Result<RootCertStore> {
    let text = read(path)?;
    let mut store = RootCertStore::empty();
    // A system's list may hold some that this library does not accept; those are then not trusted, which is safe.
    let (taken, _) = store.add_parsable_certificates(certificates(path, &text)?);
    if taken > 0 {
        return Ok(store);
    }
    let what = format!("{} holds no certificate that can be trusted", path.display());
    Err(Error::new(Kind::Malformed, what))
}

/// The first words of the two formats of an encrypted key in a PEM file.
const ENCRYPTED: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";
const OLD_ENCRYPTED: &[u8] = b"Proc-Type: 4,ENCRYPTED";

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(|cause| {
        Error::new(Kind::Malformed, format!("{} is not a PEM file", path.display())).because(cause)
    })?;
    if found.is_empty() {
        return Err(Error::new(Kind::Malformed, format!("{} holds no certificate", path.display())));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|cause| Error::io("read", path, cause))
}

/// A verifier that skips the checks that its user disabled.
#[derive(Debug)]
struct LenientVerifier {
    /// Verifies everything except the host's name; no verification if `None`.
    strict: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl LenientVerifier {
    /// Accepts any certificate, as `tlsInsecure` does.
    fn of_any(provider: &CryptoProvider) -> Arc<Self> {
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(LenientVerifier { strict: None, algorithms })
    }

    /// Accepts any certificate that `strict` accepts for some host.
    fn of_any_host(strict: Arc<WebPkiServerVerifier>, provider: &CryptoProvider) -> Arc<Self> {
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(LenientVerifier { strict: Some(strict), algorithms })
    }
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(strict) = &self.strict else { return Ok(ServerCertVerified::assertion()) };
        match strict.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The chain of trust is checked before the host name.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| Error::new(Kind::Io, "the system gives no random numbers"))?;
    Ok(bytes)
}
