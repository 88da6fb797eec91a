//! Random bytes that nobody can guess, from the generator of the TLS library.

use fathom_errors::{Error, Kind, Result};

/// `N` random bytes.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| Error::new(Kind::Io, "the system gives no random numbers"))?;
    Ok(bytes)
}
