//! A cluster described in a file: YAML in which everything may be left out that has a default.
//!
//! A count stands for so many plain members, shards or routers, and a list for each by itself. A name that is unknown is refused,
//! with its place in the file. docs/cluster.md has an example of everything.

use std::fs;
use std::path::Path;

use bson::Bson;
use fathom_errors::{Error, Kind, Result};
use serde::Deserialize;

use crate::tls_arguments::TlsArguments;
use crate::topology::{
    Auth, CONFIG_SET, Member, ReplicaSet, ServerOptions, Shape, ShardedCollection, Topology,
};

/// The largest file that is read, in bytes.
const LARGEST_BYTES: u64 = 1 << 20;

/// mlaunch's roles of the user that is made.
pub const ROLES: [&str; 4] =
    ["dbAdminAnyDatabase", "readWriteAnyDatabase", "userAdminAnyDatabase", "clusterAdmin"];

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Description {
    port: Option<u16>,
    hostname: Option<String>,
    binaries: Option<String>,
    single: Option<Server>,
    replica_set: Option<Set>,
    sharded: Option<Sharded>,
    /// What every mongod gets where it does not say otherwise.
    #[serde(default)]
    defaults: Server,
    #[serde(default)]
    tls: TlsArguments,
    auth: Option<Login>,
    #[serde(default)]
    proxied: bool,
}

/// Options of one server, strictly read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    #[serde(flatten)]
    options: ServerOptions,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    name: Option<String>,
    #[serde(default = "three")]
    members: Many<Member>,
    #[serde(default)]
    arbiters: usize,
}

/// So many plain ones, or each by itself.
#[derive(Debug)]
enum Many<T> {
    Count(usize),
    Each(Vec<T>),
}

/// Written out, so that a mistake within the list is told with its place; an untagged enum would lose it.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a count or a list")
            }

            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Self::Value, E> {
                let count = usize::try_from(count).ok().filter(|count| *count <= 200);
                count.map(Many::Count).ok_or_else(|| E::custom("a count is 200 at most"))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut each = Vec::new();
                while let Some(one) = list.next_element()? {
                    each.push(one);
                }
                Ok(Many::Each(each))
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

fn three() -> Many<Member> {
    Many::Count(3)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Sharded {
    shards: Many<Set>,
    /// Members of the config servers' set.
    #[serde(default = "one")]
    config_servers: Many<Member>,
    #[serde(default = "one_server")]
    routers: Many<Server>,
    /// Members of each shard that is only counted.
    #[serde(default = "three")]
    members: Many<Member>,
    #[serde(default)]
    arbiters: usize,
    #[serde(default)]
    collections: Vec<ShardedCollection>,
}

fn one() -> Many<Member> {
    Many::Count(1)
}

fn one_server() -> Many<Server> {
    Many::Count(1)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Login {
    user: Option<String>,
    database: Option<String>,
    roles: Option<Vec<Bson>>,
    key_file: Option<std::path::PathBuf>,
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Topology> {
    let failed = |error| Error::io("read the description", path, error);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > LARGEST_BYTES {
        return Err(Error::usage(format!(
            "{} is no description of a cluster: {length} bytes",
            path.display()
        )));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    parse(&text).map_err(|error| {
        Error::new(Kind::Usage, format!("the description {} is refused", path.display())).because(error)
    })
}

/// What the text of a file describes.
pub fn parse(text: &str) -> Result<Topology> {
    let description: Description =
        serde_yaml_ng::from_str(text).map_err(|cause| Error::usage("it does not fit").because(cause))?;
    let plain = Topology::default();
    let Description { port, hostname, binaries, single, replica_set, sharded, defaults, tls, auth, proxied } =
        description;
    let mut collections = Vec::new();
    let shape = match (single, replica_set, sharded) {
        (Some(server), None, None) => Shape::Single(server.options),
        (None, Some(set), None) => Shape::ReplicaSet(set.build("replset".to_owned())),
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
pub fn member(text: &str) -> Result<Member> {
    serde_yaml_ng::from_str(text)
        .map_err(|cause| Error::usage(format!("'{text}' describes no member")).because(cause))
}

/// A shard key, as `--shard-collection NAMESPACE=...` has it.
pub fn key(text: &str) -> Result<bson::Document> {
    serde_yaml_ng::from_str(text)
        .map_err(|cause| Error::usage(format!("'{text}' is no shard key")).because(cause))
}

impl Set {
    fn build(self, name: String) -> ReplicaSet {
        let name = self.name.unwrap_or(name);
        match self.members {
            Many::Count(count) => ReplicaSet::plain(name, count, self.arbiters),
            Many::Each(mut members) => {
                members.extend((0..self.arbiters).map(|_| Member { arbiter: true, ..Member::default() }));
                ReplicaSet { name, members }
            }
        }
    }
}

impl Sharded {
    fn build(self) -> Shape {
        let Sharded { shards, config_servers, routers, members, arbiters, collections: _ } = self;
        let name = |at: usize| format!("shard{:02}", at + 1);
        let plain = |at: usize| match &members {
            Many::Count(count) => ReplicaSet::plain(name(at), *count, arbiters),
            Many::Each(each) => {
                let arbiter = || Member { arbiter: true, ..Member::default() };
                let members = each.iter().cloned().chain((0..arbiters).map(|_| arbiter())).collect();
                ReplicaSet { name: name(at), members }
            }
        };
        let shards = match shards {
            Many::Count(count) => (0..count).map(plain).collect(),
            Many::Each(each) => each.into_iter().enumerate().map(|(at, set)| set.build(name(at))).collect(),
        };
        let config = Set { name: Some(CONFIG_SET.to_owned()), members: config_servers, arbiters: 0 };
        let routers = match routers {
            Many::Count(count) => vec![ServerOptions::default(); count],
            Many::Each(each) => each.into_iter().map(|server| server.options).collect(),
        };
        Shape::Sharded { shards, config: config.build(String::new()), routers }
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
