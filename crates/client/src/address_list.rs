//! The servers of a shard or of the config servers, as `config.shards` and mongos' `--configdb` write them: `set/host:port,host:port`,
//! or one `host:port` by itself.

use std::fmt;
use std::str::FromStr;

use fathom_errors::{Error, Result};

use crate::{Address, Target};

/// Addresses, and the replica set that they belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddressList {
    /// The set's name; none for a server by itself.
    pub set: Option<String>,
    /// At least one; just one without a set.
    pub addresses: Vec<Address>,
}

impl AddressList {
    /// What to connect to.
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
    }
}
