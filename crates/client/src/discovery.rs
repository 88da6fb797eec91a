//! Resolves the name in `mongodb+srv://HOST` to servers: checks and applies the name service's records for a seed list
//! (mongodb/specifications:source/initial-dns-seedlist-discovery/initial-dns-seedlist-discovery.md).
//!
//! Servers outside the name's own domain are refused, because a forged answer of the name service could otherwise send passwords
//! anywhere.

use fathom_errors::{Error, Kind, Result};

use crate::name_service::SeedRecords;
use crate::options::{UriOptions, load_balanced};
use crate::tls::random_bytes;
use crate::{Address, NameService, SeedList, Target};

impl Target {
    /// The same target with the servers that the system's name service lists for it; without a seed list no query is sent. Must not
    /// be called from within an asynchronous runtime.
    pub fn resolve(&self) -> Result<Target> {
        self.resolve_by(&NameService::system())
    }

    /// As [`Target::resolve`], with another name service.
    pub fn resolve_by(&self, names: &NameService) -> Result<Target> {
        match &self.seed_list {
            Some(seeds) => seeds.settle(self, names.look_up(seeds, self.connect_timeout)?),
            None => Ok(self.clone()),
        }
    }
}

impl SeedList {
    /// Applies the name service's answer to `target`.
    fn settle(&self, target: &Target, records: SeedRecords) -> Result<Target> {
        let mut target = Target { seed_list: None, ..target.clone() };
        self.apply_text(&mut target, &records.texts)?;
        if self.hosts_max > 0 && target.replica_set.is_some() {
            return Err(Error::usage("srvMaxHosts is for routers, and cannot be used with replicaSet"));
        }
        if records.services.is_empty() {
            let what = format!("the name service lists no servers for {}", self.query());
            return Err(Error::new(Kind::NotFound, what));
        }
        if let Some(stranger) = records.services.iter().find(|address| !self.is_kin(&address.host)) {
            let what = format!(
                "the name service lists {stranger} for {}, which is not in the domain {}",
                self.host(),
                self.domain()
            );
            return Err(Error::new(Kind::Permission, what).advise("do not trust it with a password"));
        }
        target.addresses = self.choose(records.services)?;
        Ok(target)
    }

    /// The part of the name that servers must share: without its first label, if two labels remain.
    fn domain(&self) -> &str {
        match self.host().split_once('.') {
            Some((_, domain)) if domain.contains('.') => domain,
            _ => self.host(),
        }
    }

    fn is_kin(&self, host: &str) -> bool {
        host.to_ascii_lowercase().strip_suffix(self.domain()).is_some_and(|rest| rest.ends_with('.'))
    }

    /// Applies the options of the TXT record that the connection string does not set.
    fn apply_text(&self, target: &mut Target, texts: &[Vec<u8>]) -> Result<()> {
        let text = match texts {
            [] => return Ok(()),
            [text] => str::from_utf8(text).map_err(|cause| self.bad_text("is not UTF-8").because(cause))?,
            _ => {
                let what = format!("{} has {} TXT records, where one is allowed", self.host(), texts.len());
                return Err(Error::new(Kind::Malformed, what));
            }
        };
        let mut options = UriOptions::read(text)
            .map_err(|cause| self.bad_text("is not a list of options").because(cause))?;
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
        Error::new(Kind::Malformed, format!("the TXT record of {} {problem}", self.host()))
    }

    /// Chooses the wanted number of servers at random, each with the same chance.
    fn choose(&self, mut services: Vec<Address>) -> Result<Vec<Address>> {
        if self.hosts_max == 0 || self.hosts_max >= services.len() {
            return Ok(services);
        }
        let mut chosen = Vec::with_capacity(self.hosts_max);
        while chosen.len() < self.hosts_max && !services.is_empty() {
            // Of 2^64 values, far more than there are servers: the slight excess of some values does not matter.
            let random = u64::from_le_bytes(random_bytes()?);
            chosen.push(services.swap_remove((random % services.len() as u64) as usize));
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(uri: &str, hosts: &[&str], texts: &[&str]) -> Result<Target> {
        let target: Target = uri.parse()?;
        let records = SeedRecords {
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
