//! The reasons why a command did not succeed: the connection to the server failed, or the server answered with an error.
//!
//! The difference decides what the caller may do: after [`Error::Network`] the connection is lost and it is unknown whether the
//! command was executed; after [`Error::Server`] the connection remains usable.

use std::fmt;

use fathom_errors::Kind;
use fathom_wire::{Code, Failure};

/// The reason why a command did not succeed.
#[derive(Debug)]
pub enum Error {
    /// No connection, a broken one, a time-out, or an invalid reply. The connection is no longer usable.
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

    /// Whether the connection is lost.
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

/// For callers that report errors to users.
impl From<Error> for fathom_errors::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Network(error) => error,
            Error::Server(failure) => {
                let code = failure.code();
                let error = fathom_errors::Error::new(Kind::Io, format!("the server refused ({code:?})"));
                let error = error.because(failure);
                if code == Code::AuthenticationFailed { error.with_id("login-refused") } else { error }
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
