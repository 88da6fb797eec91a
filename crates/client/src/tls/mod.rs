//! TLS as MongoDB's options describe it, for this client and for the server: PEM files in, configurations of rustls out.
//!
//! One file holds a certificate, those that signed it, and its key (`tlsCertificateKeyFile`); another the certificates that are
//! trusted (`tlsCAFile`). TLS 1.2 and 1.3 only. Encrypted keys are refused by name.

mod pem;
mod verifier;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathom_errors::{Error, Kind, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

pub use pem::{Identity, load_authorities, load_identity};
use verifier::LenientVerifier;

/// What a client asks of a server's certificate, and shows of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// `tlsCAFile`: whom to trust; the system's certificates if `None`.
    pub ca_file: Option<PathBuf>,
    /// `tlsCertificateKeyFile`: the client's own certificate and key.
    pub certificate_key_file: Option<PathBuf>,
    /// `tlsAllowInvalidCertificates`: take any certificate.
    pub allow_invalid_certificates: bool,
    /// `tlsAllowInvalidHostnames`: take a trusted certificate for any host.
    pub allow_invalid_hostnames: bool,
}

/// What a server shows, and asks of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// `net.tls.certificateKeyFile`.
    pub certificate_key_file: PathBuf,
    /// `net.tls.CAFile`: whom clients' certificates must come from. Without it none is asked for.
    pub ca_file: Option<PathBuf>,
    /// `net.tls.allowConnectionsWithoutCertificates`: with a CA file, let clients without a certificate in too.
    pub allow_connections_without_certificates: bool,
}

/// Where Linux distributions keep the certificates that the system trusts.
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
            let Identity { certificates, key } = load_identity(path)?;
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
    let Identity { certificates, key } = load_identity(path)?;
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
