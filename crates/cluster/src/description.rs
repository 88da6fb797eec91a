//! Reads a cluster's description from a YAML file in which every setting with a default may be omitted.
//!
//! A count creates that many plain members, shards or routers; a list describes each of them. An unknown name is refused, with its
//! position in the file. docs/cluster.md has an example of everything.

use std::fs;
use std::path::Path;

use bson::Bson;
use fathom_errors::{Error, Kind, Result};
use serde::Deserialize;

use crate::tls_arguments::TlsArguments;
use crate::topology::{
    Auth, CONFIG_SET, ClusterShape, MemberOptions, ReplicaSet, ServerOptions, ShardedCollection, Topology,
};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The roles that mlaunch gives to the user it creates.
pub const ROLES: [&str; 4] =
    ["dbAdminAnyDatabase", "readWriteAnyDatabase", "userAdminAnyDatabase", "clusterAdmin"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ClusterDescription {
    port: Option<u16>,
    hostname: Option<String>,
    binaries: Option<String>,
    single: Option<ServerDescription>,
    replica_set: Option<SetDescription>,
    sharded: Option<ShardedDescription>,
    /// The default options of every mongod.
    #[serde(default)]
    defaults: ServerDescription,
    #[serde(default)]
    tls: TlsArguments,
    auth: Option<Login>,
    #[serde(default)]
    proxied: bool,
}

/// Options of one server; unknown names are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerDescription {
    #[serde(flatten)]
    options: ServerOptions,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetDescription {
    name: Option<String>,
    #[serde(default = "three")]
    members: CountOrList<MemberOptions>,
    #[serde(default)]
    arbiters: usize,
}

/// A count of plain items, or a list that describes each.
#[derive(Debug)]
enum CountOrList<T> {
    Count(usize),
    Each(Vec<T>),
}

/// Implemented by hand, so that the error of an item names its path; an untagged enum would lose it.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for CountOrList<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = CountOrList<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a count or a list")
            }

            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Self::Value, E> {
                let count = usize::try_from(count).ok().filter(|count| *count <= 200);
                count.map(CountOrList::Count).ok_or_else(|| E::custom("a count is 200 at most"))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut each = Vec::new();
                while let Some(one) = list.next_element()? {
                    each.push(one);
                }
                Ok(CountOrList::Each(each))
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

fn three() -> CountOrList<MemberOptions> {
    CountOrList::Count(3)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ShardedDescription {
    shards: CountOrList<SetDescription>,
    /// Members of the config servers' set.
    #[serde(default = "one")]
    config_servers: CountOrList<MemberOptions>,
    #[serde(default = "one_server")]
    routers: CountOrList<ServerDescription>,
    /// Members of each shard that is given only as a count.
    #[serde(default = "three")]
    members: CountOrList<MemberOptions>,
    #[serde(default)]
    arbiters: usize,
    #[serde(default)]
    collections: Vec<ShardedCollection>,
}

fn one() -> CountOrList<MemberOptions> {
    CountOrList::Count(1)
}

fn one_server() -> CountOrList<ServerDescription> {
    CountOrList::Count(1)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Login {
    user: Option<String>,
    database: Option<String>,
    roles: Option<Vec<Bson>>,
    key_file: Option<std::path::PathBuf>,
}

pub fn read(path: &Path) -> Result<Topology> {
    let failed = |error| Error::io("read the description", path, error);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > MAX_BYTES {
        return Err(Error::usage(format!(
            "{} is too large for a cluster description: {length} bytes, the limit is 1 MiB",
            path.display()
        )));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    parse(&text).map_err(|error| {
        Error::new(Kind::Usage, format!("the description {} is refused", path.display())).because(error)
    })
}

/// Parses the text of a file.
pub fn parse(text: &str) -> Result<Topology> {
    let description: ClusterDescription = serde_yaml_ng::from_str(text)
        .map_err(|cause| Error::usage("it is not a valid cluster description").because(cause))?;
    let plain = Topology::default();
    let ClusterDescription {
        port,
        hostname,
        binaries,
        single,
        replica_set,
        sharded,
        defaults,
        tls,
        auth,
        proxied,
    } = description;
    let mut collections = Vec::new();
    let shape = match (single, replica_set, sharded) {
        (Some(server), None, None) => ClusterShape::Single(server.options),
        (None, Some(set), None) => ClusterShape::ReplicaSet(set.build("replset".to_owned())),
        (None, None, Some(mut sharded)) => {
            collections = std::mem::take(&mut sharded.collections);
            sharded.build()
        }
        _ => {
            return Err(Error::usage("it must have exactly one of 'single', 'replicaSet' and 'sharded'"));
        }
    };
    let mut topology = Topology {
        shape,
        first_port: port.unwrap_or(plain.first_port),
        host: hostname.unwrap_or(plain.host),
        binaries,
        pass_through: Vec::new(),
        tls,
        auth: auth.map(Login::build),
        proxied,
        collections,
    };
    topology.give_defaults(&defaults.options);
    topology.check()?;
    Ok(topology)
}

/// One member, as `--member N=...` describes it.
pub fn member(text: &str) -> Result<MemberOptions> {
    serde_yaml_ng::from_str(text)
        .map_err(|cause| Error::usage(format!("'{text}' is not a valid member")).because(cause))
}

/// A shard key, as `--shard-collection NAMESPACE=...` has it.
pub fn key(text: &str) -> Result<bson::Document> {
    serde_yaml_ng::from_str(text)
        .map_err(|cause| Error::usage(format!("'{text}' is not a valid shard key")).because(cause))
}

impl SetDescription {
    fn build(self, name: String) -> ReplicaSet {
        let name = self.name.unwrap_or(name);
        match self.members {
            CountOrList::Count(count) => ReplicaSet::plain(name, count, self.arbiters),
            CountOrList::Each(mut members) => {
                members.extend(
                    (0..self.arbiters).map(|_| MemberOptions { arbiter: true, ..MemberOptions::default() }),
                );
                ReplicaSet { name, members }
            }
        }
    }
}

impl ShardedDescription {
    fn build(self) -> ClusterShape {
        let ShardedDescription { shards, config_servers, routers, members, arbiters, collections: _ } = self;
        let name = |at: usize| format!("shard{:02}", at + 1);
        let plain = |at: usize| match &members {
            CountOrList::Count(count) => ReplicaSet::plain(name(at), *count, arbiters),
            CountOrList::Each(each) => {
                let arbiter = || MemberOptions { arbiter: true, ..MemberOptions::default() };
                let members = each.iter().cloned().chain((0..arbiters).map(|_| arbiter())).collect();
                ReplicaSet { name: name(at), members }
            }
        };
        let shards = match shards {
            CountOrList::Count(count) => (0..count).map(plain).collect(),
            CountOrList::Each(each) => {
                each.into_iter().enumerate().map(|(at, set)| set.build(name(at))).collect()
            }
        };
        let config =
            SetDescription { name: Some(CONFIG_SET.to_owned()), members: config_servers, arbiters: 0 };
        let routers = match routers {
            CountOrList::Count(count) => vec![ServerOptions::default(); count],
            CountOrList::Each(each) => each.into_iter().map(|server| server.options).collect(),
        };
        ClusterShape::Sharded { shards, config: config.build(String::new()), routers }
    }
}

impl Login {
    fn build(self) -> Auth {
        Auth {
            user: self.user,
            database: self.database.unwrap_or_else(|| "admin".to_owned()),
            roles: self.roles.unwrap_or_else(|| ROLES.map(Bson::from).to_vec()),
            key_file: self.key_file,
        }
    }
}

#[cfg(test)]
#[path = "description_tests.rs"]
mod tests;
