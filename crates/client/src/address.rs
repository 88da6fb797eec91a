//! The address of a server: a host and a port, as replica set members and connection strings write it.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use fathom_errors::{Error, Result};

/// The port that mongod listens on by default.
const DEFAULT_PORT: u16 = 27017;

/// A host name or IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Address { host: host.into(), port }
    }
}

/// The reason why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressFault {
    Form,
    UnixSocket,
}

impl AddressFault {
    /// The error for a text that `subject` names.
    pub(crate) fn error(self, subject: &str) -> Error {
        match self {
            AddressFault::Form => Error::usage(format!("{subject} is not an address"))
                .advise("write host:port, or [address]:port for IPv6"),
            AddressFault::UnixSocket => {
                Error::usage(format!("{subject} is a Unix socket, which is not supported"))
            }
        }
    }
}

impl Address {
    /// As [`Address::from_str`], for callers whose errors must not repeat the text.
    pub(crate) fn read(text: &str) -> Result<Address, AddressFault> {
        if text.to_ascii_lowercase().ends_with(".sock") {
            return Err(AddressFault::UnixSocket);
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(AddressFault::Form)?;
                let port = if after.is_empty() {
                    None
                } else {
                    Some(after.strip_prefix(':').ok_or(AddressFault::Form)?)
                };
                (host, port)
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        // Brackets enclose an IPv6 address, which may name its interface after a percent sign; anything else is a name or IPv4.
        let is_host = if text.starts_with('[') {
            host.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        } else {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        };
        if !is_host {
            return Err(AddressFault::Form);
        }
        let port = match port {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|&port| port > 0).ok_or(AddressFault::Form)?
            }
            Some(_) => return Err(AddressFault::Form),
            None => DEFAULT_PORT,
        };
        Ok(Address::new(host, port))
    }
}

impl FromStr for Address {
    type Err = Error;

    /// Reads `host`, `host:port`, `[ipv6]` or `[ipv6]:port`; paths of Unix sockets are refused. A text with an at sign may hold a
    /// password, so the error does not repeat it.
    fn from_str(text: &str) -> Result<Address> {
        let subject = || if text.contains('@') { "a text with an @".to_owned() } else { format!("'{text}'") };
        Address::read(text).map_err(|fault| fault.error(&subject()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
