//! The target of a connection: the servers and options of a connection string, or the servers of a shard or of the config servers,
//! as `config.shards` and mongos' `--configdb` write them: `set/host:port,host:port`, or a single `host:port`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_errors::{Error, Result};
use fathom_wire::Compressor;
use fathom_wire::scram::Mechanism;

use crate::Address;
use crate::seed_list::SeedList;
use crate::tls::ClientTls;

/// The servers and options of a connection. Made from a connection string (`"mongodb://...".parse()`) or from [`Target::at`].
#[derive(Clone)]
pub struct Target {
    /// The servers to try, in this order; empty before [`Target::resolve`] if there is a seed list.
    pub addresses: Vec<Address>,
    /// `mongodb+srv://`: the name under which the name service lists the servers.
    pub seed_list: Option<SeedList>,
    /// The database in the path, `defaultauthdb`.
    pub database: Option<String>,
    /// The identity to log in with.
    pub credential: Option<Credential>,
    /// `tls` and the options that belong to it; plain text if `None`.
    pub tls: Option<ClientTls>,
    /// `compressors`, the preferred one first.
    pub compressors: Vec<Compressor>,
    /// `replicaSet`: only members of that set qualify, and of several addresses only the primary's.
    pub replica_set: Option<String>,
    /// `directConnection=true`: only this server, whatever deployment it belongs to.
    pub direct_connection: bool,
    pub app_name: Option<String>,
    /// `connectTimeoutMS`: the time limit for connecting and for each message until the connection is ready.
    pub connect_timeout: Duration,
    /// `socketTimeoutMS`: the time limit for a reply. `None` means no limit.
    pub socket_timeout: Option<Duration>,
    /// Options that do not concern a connection, with their values: for other users, or for warnings.
    pub other_options: Vec<(String, String)>,
}

impl Target {
    /// A server with default options.
    pub fn at(address: Address) -> Target {
        Target {
            addresses: vec![address],
            seed_list: None,
            database: None,
            credential: None,
            tls: None,
            compressors: Vec::new(),
            replica_set: None,
            direct_connection: false,
            app_name: None,
            // The drivers' default.
            connect_timeout: Duration::from_secs(10),
            socket_timeout: None,
            other_options: Vec::new(),
        }
    }

    /// The value of an option that does not concern a connection, such as `w`; names are compared without case.
    pub fn other_option(&self, name: &str) -> Option<&str> {
        let (_, value) = self.other_options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The names of the options that a connection does not use.
    pub fn unused_options(&self) -> impl Iterator<Item = &str> {
        self.other_options.iter().map(|(name, _)| name.as_str())
    }
}

/// Values of unknown options may be secrets: only their names are shown.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("addresses", &self.addresses)
            .field("seed_list", &self.seed_list)
            .field("database", &self.database)
            .field("credential", &self.credential)
            .field("tls", &self.tls)
            .field("compressors", &self.compressors)
            .field("replica_set", &self.replica_set)
            .field("direct_connection", &self.direct_connection)
            .field("app_name", &self.app_name)
            .field("connect_timeout", &self.connect_timeout)
            .field("socket_timeout", &self.socket_timeout)
            .field("other_options", &self.unused_options().collect::<Vec<_>>())
            .finish()
    }
}

/// The connection string without its secrets.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.seed_list {
            Some(seeds) => write!(f, "mongodb+srv://{}", seeds.host())?,
            None => f.write_str("mongodb://")?,
        }
        for (at, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if at == 0 { "" } else { "," })?;
        }
        self.database.iter().try_for_each(|database| write!(f, "/{database}"))
    }
}

/// A user, the password, and the database that holds the user.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub user: String,
    pub password: String,
    /// `authSource`: the database that holds the user.
    pub source: String,
    /// `authMechanism`; if `None`, the strongest that the server supports for the user.
    pub mechanism: Option<Mechanism>,
}

/// Keeps the password out of logs.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .field("source", &self.source)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// Addresses, and the replica set that they belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddressList {
    /// The set's name; `None` for a standalone server.
    pub set: Option<String>,
    /// At least one; exactly one without a set.
    pub addresses: Vec<Address>,
}

impl AddressList {
    /// The target to connect to.
    pub fn target(&self) -> Target {
        let mut target = Target::at(Address::new("", 0));
        target.addresses.clone_from(&self.addresses);
        target.replica_set.clone_from(&self.set);
        target
    }
}

impl FromStr for AddressList {
    type Err = Error;

    fn from_str(text: &str) -> Result<AddressList> {
        // A login would be split at its commas and slashes, and an error would repeat a part of it.
        if text.contains('@') {
            return Err(Error::usage("a list of servers has no user, no password and no @")
                .advise("write SET/HOST:PORT,HOST:PORT"));
        }
        let (set, hosts) = text.split_once('/').map_or((None, text), |(set, hosts)| (Some(set), hosts));
        if set == Some("") {
            return Err(Error::usage(format!("'{text}' names no replica set before the slash")));
        }
        let addresses = hosts.split(',').map(str::parse).collect::<Result<Vec<Address>>>()?;
        if set.is_none() && addresses.len() > 1 {
            return Err(Error::usage(format!("'{text}' names several servers and no replica set"))
                .advise("write SET/HOST:PORT,HOST:PORT"));
        }
        Ok(AddressList { set: set.map(str::to_owned), addresses })
    }
}

impl fmt::Display for AddressList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(set) = &self.set {
            write!(f, "{set}/")?;
        }
        for (at, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        for text in ["rs/a:1,b:2", "a:1", "cfg/[::1]:27019"] {
            assert_eq!(text.parse::<AddressList>().unwrap().to_string(), text);
        }
        let one: AddressList = "somewhere".parse().unwrap();
        assert_eq!(one.to_string(), "somewhere:27017");
        assert_eq!("rs/a:1".parse::<AddressList>().unwrap().target().replica_set.as_deref(), Some("rs"));
        for refused in ["", "/a:1", "a:1,b:1", "rs/", "rs/a:x"] {
            assert!(refused.parse::<AddressList>().is_err(), "{refused}");
        }
        for login in ["us3r:s3cret@a:1", "rs/us3r:s3cret,s3cret@a:1", "mongodb://us3r:s3cret/s3cret@a:1"] {
            let refused = login.parse::<AddressList>().unwrap_err().to_string();
            assert!(!refused.contains("s3cret") && refused.contains("no password"), "{refused}");
        }
    }
}
