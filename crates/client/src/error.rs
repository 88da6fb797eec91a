//! Why a command did not succeed: the way to the server failed, or the server said no.
//!
//! The difference decides what the caller may do: after [`Error::Network`] the connection is gone and nobody knows whether the
//! command was carried out; after [`Error::Server`] the connection is as good as before.

use std::fmt;

use fathom_errors::Kind;
use fathom_wire::Failure;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Error {
    /// No connection, a broken one, a time-out, or an answer that is not one. The connection is no longer usable.
    Network(fathom_errors::Error),
    /// The server answered with `ok: 0`.
    Server(Failure),
}

impl Error {
    /// The server's failure, if it answered with one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Error::Server(failure) => Some(failure),
            Error::Network(_) => None,
        }
    }

    /// Whether the connection is gone.
    pub fn is_network(&self) -> bool {
        matches!(self, Error::Network(_))
    }

    /// A message from the server that does not follow the protocol.
    pub(crate) fn protocol(what: impl fmt::Display) -> Error {
        Error::Network(fathom_errors::Error::new(
            Kind::Malformed,
            format!("the server does not keep to the protocol: {what}"),
        ))
    }
}

impl From<fathom_errors::Error> for Error {
    fn from(error: fathom_errors::Error) -> Self {
        Error::Network(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::Server(failure)
    }
}

/// For callers that report to people.
impl From<Error> for fathom_errors::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Network(error) => error,
            Error::Server(failure) => {
                let what = format!("the server refused ({:?})", failure.code());
                fathom_errors::Error::new(Kind::Io, what).because(failure)
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Network(error) => error.fmt(f),
            Error::Server(failure) => write!(f, "{failure:?}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Error::Network(error) => error,
            Error::Server(failure) => failure,
        })
    }
}
