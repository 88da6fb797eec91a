//! Certificates and keys from PEM files.

use std::fmt;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate, those that signed it, and its key.
pub struct Identity {
    /// One's own certificate first.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The key to it.
    pub key: PrivateKeyDer<'static>,
}

/// The key stays out of logs.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.certificates.len()).finish_non_exhaustive()
    }
}

/// Loads a certificate and its key from one file, in any order.
pub fn load_identity(path: &Path) -> Result<Identity> {
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
    Ok(Identity { certificates, key })
}

/// Loads the certificates that are trusted.
pub fn load_authorities(path: &Path) -> Result<RootCertStore> {
    let text = read(path)?;
    let mut store = RootCertStore::empty();
    // A system's list may hold a few that this library does not take; they are then not trusted, which is safe.
    let (taken, _) = store.add_parsable_certificates(certificates(path, &text)?);
    if taken > 0 {
        return Ok(store);
    }
    let what = format!("{} holds no certificate that can be trusted", path.display());
    Err(Error::new(Kind::Malformed, what))
}

/// How the two ways to encrypt a key in a PEM file begin.
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
