//! `mongodb+srv://HOST`: the rules for the name, and for what the name service says about it
//! (mongodb/specifications:source/initial-dns-seedlist-discovery/initial-dns-seedlist-discovery.md).
//!
//! Nothing is looked up here. Servers outside the name's own domain are refused, because whoever answers for the name service
//! could else send passwords anywhere.

use std::net::Ipv4Addr;

use fathom_errors::{Error, Kind, Result};

use crate::connection_string::load_balanced;
use crate::name_service::Records;
use crate::options::Options;
use crate::random::random_bytes;
use crate::{Address, Target};

/// The longest name and the longest part of one that the name service takes (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The name under which the name service lists the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedList {
    host: String,
    /// `srvServiceName`.
    service: String,
    /// `srvMaxHosts`: so many of the servers, chosen at random; all with 0.
    hosts_max: usize,
    /// Whether the connection string says it itself, so that the TXT record does not count.
    auth_source_given: bool,
    load_balanced_given: bool,
}

impl SeedList {
    /// Reads the host of a connection string and the options that belong to it.
    pub(crate) fn read(host: &str, options: &mut Options) -> Result<SeedList> {
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
            let what = format!("'{host}' is not a name that the name service could list servers under");
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

    /// `target` with what the name service answered.
    pub(crate) fn settle(&self, target: &Target, records: Records) -> Result<Target> {
        let mut target = Target { seed_list: None, ..target.clone() };
        self.apply_text(&mut target, &records.texts)?;
        if self.hosts_max > 0 && target.replica_set.is_some() {
            return Err(Error::usage("srvMaxHosts is for routers, and makes no sense with replicaSet"));
        }
        if records.services.is_empty() {
            let what = format!("the name service lists no servers for {}", self.query());
            return Err(Error::new(Kind::NotFound, what));
        }
        if let Some(stranger) = records.services.iter().find(|address| !self.is_kin(&address.host)) {
            let what = format!(
                "the name service lists {stranger} for {}, which is not in the domain {}",
                self.host,
                self.domain()
            );
            return Err(Error::new(Kind::Permission, what).advise("do not trust it with a password"));
        }
        target.addresses = self.choose(records.services)?;
        Ok(target)
    }

    /// The part of the name that servers must share: without its first label, if then two are left.
    fn domain(&self) -> &str {
        match self.host.split_once('.') {
            Some((_, domain)) if domain.contains('.') => domain,
            _ => &self.host,
        }
    }

    fn is_kin(&self, host: &str) -> bool {
        host.to_ascii_lowercase().strip_suffix(self.domain()).is_some_and(|rest| rest.ends_with('.'))
    }

    /// The options of the TXT record, as far as the connection string does not have them.
    fn apply_text(&self, target: &mut Target, texts: &[Vec<u8>]) -> Result<()> {
        let text = match texts {
            [] => return Ok(()),
            [text] => str::from_utf8(text).map_err(|cause| self.bad_text("is not UTF-8").because(cause))?,
            _ => {
                let what = format!("{} has {} TXT records, where one is allowed", self.host, texts.len());
                return Err(Error::new(Kind::Malformed, what));
            }
        };
        let mut options =
            Options::read(text).map_err(|cause| self.bad_text("is not a list of options").because(cause))?;
        if let (Some(source), Some(credential)) =
            (options.take("authSource").filter(|_| !self.auth_source_given), &mut target.credential)
        {
            credential.source = source;
        }
        if let Some(name) = options.take("replicaSet") {
            target.replica_set.get_or_insert(name);
        }
        match options.take("loadBalanced").as_deref() {
            Some("true") if !self.load_balanced_given => return Err(load_balanced()),
            None | Some("true" | "false") => {}
            Some(_) => return Err(self.bad_text("has a loadBalanced that is neither true nor false")),
        }
        match options.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(self.bad_text(&format!("sets {name}, which it may not"))),
        }
    }

    fn bad_text(&self, problem: &str) -> Error {
        Error::new(Kind::Malformed, format!("the TXT record of {} {problem}", self.host))
    }

    /// As many as are wanted, each with the same chance.
    fn choose(&self, mut services: Vec<Address>) -> Result<Vec<Address>> {
        if self.hosts_max == 0 || self.hosts_max >= services.len() {
            return Ok(services);
        }
        let mut chosen = Vec::with_capacity(self.hosts_max);
        while chosen.len() < self.hosts_max && !services.is_empty() {
            // Of 2^64 values, far more than there are servers: that some come once more than others does not matter.
            let random = u64::from_le_bytes(random_bytes()?);
            chosen.push(services.swap_remove((random % services.len() as u64) as usize));
        }
        Ok(chosen)
    }
}

fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    host.len() <= NAME_BYTES_MAX && host.split('.').all(is_label)
}

/// RFC 6335, section 5.1, but as long as a label may be with its underscore.
fn is_service(name: &str) -> bool {
    name.len() < LABEL_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && name.split('-').all(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(uri: &str, hosts: &[&str], texts: &[&str]) -> Result<Target> {
        let target: Target = uri.parse()?;
        let records = Records {
            services: hosts.iter().map(|host| Address::new(*host, 27017)).collect(),
            texts: texts.iter().map(|text| text.as_bytes().to_vec()).collect(),
        };
        target.seed_list.as_ref().unwrap().settle(&target, records)
    }

    fn refused(uri: &str, hosts: &[&str], texts: &[&str]) -> String {
        settled(uri, hosts, texts).unwrap_err().to_string()
    }

    #[test]
    fn servers_must_be_of_the_same_domain() {
        for (host, server, is_kin) in [
            ("c.example.com", "a.example.com", true),
            ("c.example.com", "a.b.EXAMPLE.com", true),
            ("c.example.com", "c.example.com", true),
            ("c.example.com", "example.com", false),
            ("c.example.com", "badexample.com", false),
            ("c.example.com", "a.example.org", false),
            ("a.b.example.com", "x.example.com", false),
            ("example.com", "a.example.com", true),
            ("example.com", "example.com", false),
            ("example.com", "a.com", false),
            ("local", "a.local", true),
            ("local", "local", false),
        ] {
            let settled = settled(&format!("mongodb+srv://{host}"), &[server], &[]);
            assert_eq!(settled.is_ok(), is_kin, "{host} {server}: {settled:?}");
        }
        assert!(
            refused("mongodb+srv://c.example.com", &["x.org"], &[]).contains("not in the domain example.com")
        );
        assert!(refused("mongodb+srv://c.example.com", &[], &[]).contains("_mongodb._tcp.c.example.com"));
    }

    #[test]
    fn the_text_record_fills_gaps() {
        let text = ["authSource=x&replicaSet=rs"];
        let settled_at = |uri: &str| settled(uri, &["a.example.com"], &text).unwrap();
        let plain = settled_at("mongodb+srv://u:p@c.example.com/app");
        assert_eq!(plain.credential.as_ref().unwrap().source, "x");
        assert_eq!(plain.replica_set.as_deref(), Some("rs"));
        assert_eq!(plain.to_string(), "mongodb://a.example.com:27017/app");
        let own = settled_at("mongodb+srv://u:p@c.example.com/app?authSource=y&replicaSet=own");
        assert_eq!(own.credential.as_ref().unwrap().source, "y");
        assert_eq!(own.replica_set.as_deref(), Some("own"));
        for (text, expected) in [
            (&["ssl=false"][..], "sets ssl"),
            (&["socketTimeoutMS=5"], "sets socketTimeoutMS"),
            (&["authSource"], "not a list of options"),
            (&["loadBalanced=true"], "not supported"),
            (&["loadBalanced=1"], "neither true nor false"),
            (&["authSource=a", "replicaSet=b"], "2 TXT records"),
        ] {
            let refused = refused("mongodb+srv://c.example.com", &["a.example.com"], text);
            assert!(refused.contains(expected), "{text:?}: {refused}");
        }
    }

    #[test]
    fn some_of_many_servers() {
        let hosts: Vec<String> = (0..9).map(|n| format!("r{n}.example.com")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let target = settled("mongodb+srv://c.example.com/?srvMaxHosts=2", &hosts, &[]).unwrap();
            assert_eq!(target.addresses.len(), 2);
            assert_ne!(target.addresses[0], target.addresses[1]);
            seen.extend(target.addresses);
        }
        assert_eq!(seen.len(), 9);
        for max in [0, 9, 10] {
            let uri = format!("mongodb+srv://c.example.com/?srvMaxHosts={max}");
            assert_eq!(settled(&uri, &hosts, &[]).unwrap().addresses.len(), 9);
        }
        let refused = refused("mongodb+srv://c.example.com/?srvMaxHosts=2", &hosts, &["replicaSet=rs"]);
        assert!(refused.contains("srvMaxHosts"), "{refused}");
    }
}
