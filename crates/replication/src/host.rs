//! The address at which a member listens: a name or address, and a port.
//!
//! Two spellings of one address are the same host only if MongoDB considers them so: the port is made explicit, names are not resolved.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use fathom_wire::{Code, Failure};

/// The port of a host that names none.
const DEFAULT_PORT: u16 = 27017;

/// `host:port`, cheap to clone. Ordered by text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Arc<str>);

impl Host {
    /// The whole text, `host:port`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can only mean this machine (mongodb/mongo:src/mongo/util/net/hostandport.cpp, isLocalHost).
    pub fn is_localhost(&self) -> bool {
        let name = self.0.rsplit_once(':').map_or(&*self.0, |(name, _)| name);
        name == "localhost" || name.starts_with("127.") || name == "[::1]" || name.starts_with('/')
    }
}

impl FromStr for Host {
    type Err = Failure;

    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; fails with FailedToParse.
    fn from_str(text: &str) -> Result<Host, Failure> {
        let refuse = |why: String| Failure::new(Code::FailedToParse, why);
        let text = text.trim();
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inner, after) = rest
                    .split_once(']')
                    .ok_or_else(|| refuse(format!("Missing ']' in HostAndPort \"{text}\"")))?;
                if inner.is_empty() {
                    return Err(refuse(format!("Empty host component parsing HostAndPort from \"{text}\"")));
                }
                let port = match after {
                    "" => None,
                    after => Some(after.strip_prefix(':').ok_or_else(|| {
                        refuse(format!("Extraneous characters after ']' in HostAndPort \"{text}\""))
                    })?),
                };
                (format!("[{inner}]"), port)
            }
            None => match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err(refuse(format!("More than one ':' in HostAndPort \"{text}\"")));
                }
                Some((name, port)) => (name.to_owned(), Some(port)),
                None => (text.to_owned(), None),
            },
        };
        if name.is_empty() {
            return Err(refuse(format!("Empty host component parsing HostAndPort from \"{text}\"")));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| {
                refuse(format!("Port number \"{port}\" out of range parsing HostAndPort from \"{text}\""))
            })?,
        };
        Ok(Host(format!("{name}:{port}").into()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[test]
    fn the_port_is_made_explicit() {
        assert_eq!(host("a").as_str(), "a:27017");
        assert_eq!(host(" a:1 ").as_str(), "a:1");
        assert_eq!(host("[::1]").as_str(), "[::1]:27017");
        assert_eq!(host("[fe80::1]:5"), host("[fe80::1]:5"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in ["", ":1", "a:0", "a:65536", "a:x", "a:", "::1", "[::1", "[]:1", "[::1]x"] {
            assert_eq!(text.parse::<Host>().unwrap_err().code(), Code::FailedToParse, "{text}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for text in ["localhost:1", "127.0.0.1", "127.1.2.3:9", "[::1]:3", "/run/socket"] {
            assert!(host(text).is_localhost(), "{text}");
        }
        assert!(!host("localhost.example").is_localhost() && !host("10.127.0.1").is_localhost());
    }
}
