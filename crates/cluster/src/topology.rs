//! The topology of a cluster: its servers, their groups, and the options of each.
//!
//! A command line or a file is parsed into this form, and the state file stores it. It holds no secret: a password is never part of
//! it. This module opens no files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bson::{Bson, Document};
use fathom_errors::{Error, Result};
use fathom_units::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tls_arguments::TlsArguments;

/// The name of the config servers' set (mlaunch's).
pub const CONFIG_SET: &str = "configRepl";
/// Names of other entries in a cluster's folder, and databases that MongoDB reserves.
const RESERVED: [&str; 11] = [
    "db",
    "mongos",
    "keyfile",
    "mongod.log",
    "mongod.console",
    "mongos.log",
    "mongos.console",
    "proxy.console",
    "admin",
    "local",
    "config",
];
/// The maximum number of members in a set, and of voting members.
const MAX_MEMBERS: usize = 50;
const MAX_VOTING_MEMBERS: usize = 7;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The grouping of the servers.
    pub shape: ClusterShape,
    /// The first port; the others follow in ascending order.
    pub first_port: u16,
    /// The host name by which clients and members reach the servers.
    pub host: String,
    /// The folder of `mongod` and `mongos`, or the word `fathom` for the built-in server. If `None`, the programs on the path.
    pub binaries: Option<String>,
    /// Passed-through options, for every server that accepts them.
    pub pass_through: Vec<String>,
    /// TLS options, under the names of 4.2 and later.
    pub tls: TlsArguments,
    /// Authentication: set if clients must log in, with the user to create.
    pub auth: Option<Auth>,
    /// Whether each server has a proxy in front of it, which can delay and cut connections.
    pub proxied: bool,
    /// Collections that are sharded at the start.
    pub collections: Vec<ShardedCollection>,
}

/// The grouping of the servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterShape {
    /// A single standalone server.
    Single(ServerOptions),
    ReplicaSet(ReplicaSet),
    /// Shards, each a set; config servers; routers.
    Sharded {
        /// The shards, in the order of their ports.
        shards: Vec<ReplicaSet>,
        config: ReplicaSet,
        /// The routers; if empty, a temporary one adds the shards.
        routers: Vec<ServerOptions>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaSet {
    pub name: String,
    /// Its members, in the order of their ports.
    pub members: Vec<MemberOptions>,
}

/// A member of a set. MongoDB decides the fields that are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct MemberOptions {
    /// Votes and holds no data.
    pub arbiter: bool,
    /// 0 to 1000; 0 never becomes primary.
    pub priority: Option<f64>,
    /// Votes in elections: 0 or 1.
    pub votes: Option<u8>,
    /// Whether clients do not see it.
    pub hidden: bool,
    /// The deliberate delay, in seconds.
    pub delay_secs: Option<u64>,
    /// Its tags, for write concerns and read preferences.
    pub tags: BTreeMap<String, String>,
    /// The options of its server.
    #[serde(flatten)]
    pub options: ServerOptions,
}

/// The options of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerOptions {
    /// The value of `--storageEngine`.
    pub engine: Option<String>,
    /// The cache of its engine, in GiB.
    #[serde(rename = "cacheSizeGB")]
    pub cache_size_gb: Option<f64>,
    /// The values of `--setParameter`.
    pub parameters: BTreeMap<String, Value>,
    /// Further arguments, passed on unchanged.
    pub arguments: Vec<String>,
    /// Its data directory, if it is not its folder in the cluster's: on another device, for example.
    pub directory: Option<PathBuf>,
    /// Another version: a folder with `mongod` and `mongos`, or the word `fathom`.
    pub binaries: Option<String>,
    /// Its limits on this machine.
    pub limits: Limits,
}

/// Limits of a server on this machine; enforced by the kernel's control groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Limits {
    /// Processors: 0.5 is half a processor.
    pub cpus: Option<f64>,
    /// Memory, page cache included, such as `512M`.
    pub memory: Option<String>,
    /// Reads per second on the disk of its data.
    pub read_iops: Option<u64>,
    /// Writes per second on that disk.
    pub write_iops: Option<u64>,
    /// Bytes read per second, such as `20M`.
    pub read_bandwidth: Option<String>,
    /// Bytes written per second, as above.
    pub write_bandwidth: Option<String>,
}

/// Authentication settings of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// The user to create at the start, if any.
    pub user: Option<String>,
    /// The database in which the user is created.
    pub database: String,
    /// Names of roles, or role documents.
    pub roles: Vec<Bson>,
    /// A given key file; if `None`, one is created.
    pub key_file: Option<PathBuf>,
}

/// A collection that is sharded when the cluster is created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ShardedCollection {
    /// The namespace, as `database.collection`.
    pub namespace: String,
    /// The shard key: names of fields with 1, -1 or `hashed`.
    pub key: Document,
    /// Whether the key must be unique.
    #[serde(default)]
    pub unique: bool,
    /// The number of initial chunks, for a hashed key.
    #[serde(default)]
    pub chunks: Option<u32>,
}

impl Default for Topology {
    /// One server at mlaunch's port.
    fn default() -> Topology {
        Topology {
            shape: ClusterShape::Single(ServerOptions::default()),
            first_port: 27017,
            host: "localhost".to_owned(),
            binaries: None,
            pass_through: Vec::new(),
            tls: TlsArguments::default(),
            auth: None,
            proxied: false,
            collections: Vec::new(),
        }
    }
}

impl Topology {
    /// All sets: shards in their order, then the config servers.
    pub fn sets(&self) -> Vec<&ReplicaSet> {
        match &self.shape {
            ClusterShape::Single(_) => Vec::new(),
            ClusterShape::ReplicaSet(set) => vec![set],
            ClusterShape::Sharded { shards, config, .. } => shards.iter().chain([config]).collect(),
        }
    }

    /// Refuses invalid topologies, and those that MongoDB would refuse after everything was started.
    pub fn check(&self) -> Result<()> {
        self.checked().map_err(|error| error.or_id("bad-topology"))
    }

    fn checked(&self) -> Result<()> {
        if let ClusterShape::Sharded { shards, .. } = &self.shape {
            if shards.is_empty() {
                return Err(Error::usage("a sharded cluster needs at least one shard"));
            }
        } else if !self.collections.is_empty() {
            return Err(Error::usage("only a sharded cluster can shard a collection").advise("use --sharded"));
        }
        let sets = self.sets();
        for (at, set) in sets.iter().enumerate() {
            set.check()?;
            if sets.iter().take(at).any(|other| other.name == set.name) {
                return Err(Error::usage(format!("two sets have the name '{}'", set.name)));
            }
        }
        self.collections.iter().try_for_each(ShardedCollection::check)
    }
}

impl ReplicaSet {
    /// `count` data-bearing members, then `arbiters`, as mlaunch creates them: only seven members vote.
    pub fn plain(name: impl Into<String>, count: usize, arbiters: usize) -> ReplicaSet {
        // One member too many is enough for the refusal.
        let (count, arbiters) = (count.min(MAX_MEMBERS + 1), arbiters.min(MAX_MEMBERS + 1));
        let voters = MAX_VOTING_MEMBERS.saturating_sub(arbiters).max(1);
        let voter = |at: usize| {
            let silent = at >= voters;
            MemberOptions {
                votes: silent.then_some(0),
                priority: silent.then_some(0.0),
                ..MemberOptions::default()
            }
        };
        let arbiter = || MemberOptions { arbiter: true, ..MemberOptions::default() };
        let members = (0..count).map(voter).chain((0..arbiters).map(|_| arbiter())).collect();
        ReplicaSet { name: name.into(), members }
    }

    fn check(&self) -> Result<()> {
        let ReplicaSet { name, members } = self;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let reserved = RESERVED.contains(&name.as_str());
        if name.is_empty() || !name.chars().all(fits) || name.starts_with(['-', '.']) || reserved {
            let what = format!("'{name}' cannot be the name of a replica set");
            return Err(if reserved {
                Error::usage(format!("{what}, because it is reserved")).advise("choose another")
            } else {
                Error::usage(what)
                    .advise("use letters, digits, '-', '_' and '.', and begin with a letter, a digit or '_'")
            });
        }
        let data = members.iter().filter(|member| !member.arbiter).count();
        if data == 0 {
            return Err(Error::usage(format!("the replica set '{name}' has no member that holds data")));
        }
        if members.len() > MAX_MEMBERS {
            return Err(Error::usage(format!(
                "the replica set '{name}' has more than {MAX_MEMBERS} members"
            )));
        }
        let voting = members.iter().filter(|member| member.votes != Some(0)).count();
        if !(1..=MAX_VOTING_MEMBERS).contains(&voting) {
            let what =
                format!("the set '{name}' has {voting} voting members, and needs 1 to {MAX_VOTING_MEMBERS}");
            return Err(Error::usage(what).advise("give the others 'votes: 0' and 'priority: 0'"));
        }
        members.iter().enumerate().try_for_each(|(at, member)| member.check(name, at + 1))?;
        if !members.iter().any(MemberOptions::is_electable) {
            return Err(Error::usage(format!("no member of the set '{name}' can become primary")));
        }
        Ok(())
    }
}

impl MemberOptions {
    fn is_electable(&self) -> bool {
        !self.arbiter && self.priority != Some(0.0)
    }

    fn check(&self, set: &str, number: usize) -> Result<()> {
        let refuse = |why: &str| Err(Error::usage(format!("member {number} of the set '{set}' {why}")));
        let zero = self.priority == Some(0.0);
        if self.priority.is_some_and(|priority| !(0.0..=1000.0).contains(&priority)) {
            return refuse("has a priority that is not from 0 to 1000");
        }
        if self.votes.is_some_and(|votes| votes > 1) {
            return refuse("has more than one vote");
        }
        if self.arbiter {
            if self.hidden || self.delay_secs.is_some() || self.votes == Some(0) {
                return refuse("is an arbiter, which can be neither hidden, nor late, nor without a vote");
            }
            if self.priority.is_some_and(|priority| priority != 0.0 && priority != 1.0) {
                return refuse("is an arbiter, whose priority is 0 or 1");
            }
            return Ok(());
        }
        if self.hidden && !zero {
            return refuse("is hidden, and so needs 'priority: 0'");
        }
        if self.delay_secs.is_some() && !zero {
            return refuse("is late on purpose, and so needs 'priority: 0'");
        }
        if self.votes == Some(0) && !zero {
            return refuse("has no vote, and so needs 'priority: 0'");
        }
        self.options.limits.check()
    }
}

impl Limits {
    /// Whether no limit is set.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }

    /// Refuses zero limits, and invalid sizes.
    pub fn check(&self) -> Result<()> {
        if self.cpus.is_some_and(|cpus| !(0.01..=4096.0).contains(&cpus)) {
            return Err(Error::usage("a limit of processors is at least 0.01"));
        }
        if [self.read_iops, self.write_iops].contains(&Some(0)) {
            return Err(Error::usage("a limit of reads or writes a second is at least 1"));
        }
        for text in [&self.memory, &self.read_bandwidth, &self.write_bandwidth].into_iter().flatten() {
            if text.parse::<Bytes>()?.get() == 0 {
                return Err(Error::usage("a limit of bytes is at least 1"));
            }
        }
        Ok(())
    }
}

impl ShardedCollection {
    fn check(&self) -> Result<()> {
        let namespace = &self.namespace;
        let parts =
            namespace.split_once('.').filter(|(database, name)| !database.is_empty() && !name.is_empty());
        if parts.is_none() {
            return Err(Error::usage(format!(
                "'{namespace}' is not a namespace, which is database.collection"
            )));
        }
        if self.key.is_empty() {
            let what = format!("the collection {namespace} has no shard key");
            return Err(Error::usage(what)
                .advise("write a.b={_id: hashed} on the command line, or 'key: {_id: hashed}' in a file"));
        }
        let is_hashed = |value: &Bson| value.as_str() == Some("hashed");
        let is_direction = |value: &Bson| matches!(value, Bson::Int32(1 | -1) | Bson::Int64(1 | -1));
        let odd = |(_, value): &(&String, &Bson)| !is_hashed(value) && !is_direction(value);
        if let Some((field, _)) = self.key.iter().find(odd) {
            let what = format!("the shard key of {namespace} has at '{field}' neither 1, -1 nor hashed");
            return Err(Error::usage(what));
        }
        if self.chunks.is_some() && !self.key.values().any(is_hashed) {
            let what = format!("{namespace} is to begin with chunks, which only a hashed shard key allows");
            return Err(Error::usage(what));
        }
        Ok(())
    }
}

impl Topology {
    /// Rewrites the paths in it by `name`: a relative path would be wrong for a later call from another directory.
    pub fn name_places(&mut self, name: &dyn Fn(&Path) -> Result<PathBuf>) -> Result<()> {
        let mut options: Vec<&mut ServerOptions> = Vec::new();
        match &mut self.shape {
            ClusterShape::Single(one) => options.push(one),
            ClusterShape::ReplicaSet(set) => {
                options.extend(set.members.iter_mut().map(|one| &mut one.options))
            }
            ClusterShape::Sharded { shards, config, routers } => {
                let members = shards.iter_mut().chain([config]).flat_map(|set| &mut set.members);
                options.extend(members.map(|one| &mut one.options));
                options.extend(routers);
            }
        }
        let places = options.into_iter().map(|one| &mut one.directory);
        for place in places.chain(self.auth.as_mut().map(|auth| &mut auth.key_file)) {
            *place = place.as_deref().map(name).transpose()?;
        }
        Ok(())
    }

    /// Fills in the options that a mongod does not set itself; the engine is not for config servers. Routers take binaries and limits.
    pub fn give_defaults(&mut self, defaults: &ServerOptions) {
        let of_set =
            |set: &mut ReplicaSet| set.members.iter_mut().for_each(|one| one.options.complete(defaults));
        match &mut self.shape {
            ClusterShape::Single(options) => options.complete(defaults),
            ClusterShape::ReplicaSet(set) => of_set(set),
            ClusterShape::Sharded { shards, config, routers } => {
                shards.iter_mut().for_each(of_set);
                let bare = ServerOptions { engine: None, ..defaults.clone() };
                config.members.iter_mut().for_each(|one| one.options.complete(&bare));
                // A router has neither engine parameters nor a disk.
                let Limits { cpus, memory, .. } = defaults.limits.clone();
                let limits = Limits { cpus, memory, ..Limits::default() };
                let bare =
                    ServerOptions { binaries: defaults.binaries.clone(), limits, ..ServerOptions::default() };
                routers.iter_mut().for_each(|one| one.complete(&bare));
            }
        }
    }
}

impl ServerOptions {
    /// Takes unset options from `defaults`; parameters one by one.
    fn complete(&mut self, defaults: &ServerOptions) {
        let ServerOptions { engine, cache_size_gb, parameters, arguments, directory: _, binaries, limits } =
            defaults;
        self.engine = self.engine.take().or_else(|| engine.clone());
        self.cache_size_gb = self.cache_size_gb.or(*cache_size_gb);
        for (name, value) in parameters {
            self.parameters.entry(name.clone()).or_insert_with(|| value.clone());
        }
        self.arguments.splice(0..0, arguments.iter().cloned());
        self.binaries = self.binaries.take().or_else(|| binaries.clone());
        if self.limits.is_empty() {
            self.limits = limits.clone();
        }
    }
}
