//! The seed list of `mongodb+srv://HOST`: the rules for the name, and for the options that belong to it
//! (mongodb/specifications:source/initial-dns-seedlist-discovery/initial-dns-seedlist-discovery.md).
//!
//! This module performs no look-up.

use std::net::Ipv4Addr;

use fathom_errors::{Error, Result};

use crate::options::UriOptions;

/// The maximum length of a name and of a label in the name service (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// The name under which the name service lists the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedList {
    host: String,
    /// From `srvServiceName`; `mongodb` by default.
    service: String,
    /// `srvMaxHosts`: this many of the servers, chosen at random; 0 for all.
    pub(crate) hosts_max: usize,
    /// Whether the connection string sets it itself, so that the TXT record is ignored.
    pub(crate) auth_source_given: bool,
    pub(crate) load_balanced_given: bool,
}

impl SeedList {
    /// Reads the host of a connection string and the options that belong to it.
    pub(crate) fn read(host: &str, options: &mut UriOptions) -> Result<SeedList> {
        if host.contains(',') {
            return Err(Error::usage(
                "mongodb+srv:// takes one host, and the name service lists the servers",
            ));
        }
        if host.contains(':') {
            let what = "mongodb+srv:// takes a host without a port, and the name service knows the ports";
            return Err(Error::usage(what));
        }
        if !is_name(host) || host.parse::<Ipv4Addr>().is_ok() {
            // The text may be a login whose at sign is missing or escaped, so it is not repeated.
            let what =
                "the host of mongodb+srv:// is not a name that the name service could list servers under";
            return Err(Error::usage(what).advise("list servers themselves with mongodb://host:port"));
        }
        let service = options.take("srvServiceName").unwrap_or_else(|| "mongodb".to_owned());
        if !is_service(&service) {
            let what = "srvServiceName in the connection string is not a service's name";
            return Err(Error::usage(what).advise("use letters, digits and single hyphens between them"));
        }
        Ok(SeedList {
            host: host.to_ascii_lowercase(),
            service,
            hosts_max: options.count("srvMaxHosts")?.unwrap_or(0),
            auth_source_given: options.has("authSource"),
            load_balanced_given: options.has("loadBalanced"),
        })
    }

    /// The name in the connection string.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The name that has the SRV records.
    pub(crate) fn query(&self) -> String {
        format!("_{}._tcp.{}", self.service, self.host)
    }
}

fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    host.len() <= MAX_NAME_BYTES && host.split('.').all(is_label)
}

/// Whether this is a service name (RFC 6335, section 5.1). Unlike there, its length is limited only by that of a label with an underscore.
fn is_service(name: &str) -> bool {
    name.len() < MAX_LABEL_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && name.split('-').all(|part| !part.is_empty())
}
