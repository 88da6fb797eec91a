//! What a cluster is: its servers, how they belong together, and what each is given.
//!
//! This is what a command line or a file comes to, and what the state file keeps. It holds no secret: a password is never part of
//! it. Nothing is opened here.

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
/// Names that other things in a cluster's folder have, and databases that MongoDB keeps for itself.
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
/// What MongoDB allows in a set, and how many of them vote.
const MEMBERS_MAX: usize = 50;
const VOTING_MAX: usize = 7;

/// A whole cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// How the servers belong together.
    pub shape: Shape,
    /// The first of the ports, which are counted up from it.
    pub first_port: u16,
    /// The name by which clients and members find the servers.
    pub host: String,
    /// Where `mongod` and `mongos` are; the word `fathom` for the built-in server. By itself, what the path has.
    pub binaries: Option<String>,
    /// Options that were handed through, for every server that has them.
    pub pass_through: Vec<String>,
    /// TLS options, in MongoDB's words of 4.2 and later.
    pub tls: TlsArguments,
    /// Whether clients must log in, and who is made at the start.
    pub auth: Option<Auth>,
    /// Whether a proxy stands before each server, which can delay and cut.
    pub proxied: bool,
    /// Collections that are sharded at the start.
    pub collections: Vec<ShardedCollection>,
}

/// How servers belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One server by itself.
    Single(ServerOptions),
    /// One replica set.
    ReplicaSet(ReplicaSet),
    /// Shards, each a set; config servers; routers.
    Sharded {
        /// The shards, in the order of their ports.
        shards: Vec<ReplicaSet>,
        /// The config servers.
        config: ReplicaSet,
        /// The routers; none means that one adds the shards and is stopped again.
        routers: Vec<ServerOptions>,
    },
}

/// A replica set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaSet {
    /// Its name.
    pub name: String,
    /// Its members, in the order of their ports.
    pub members: Vec<Member>,
}

/// A member of a set. What is `None` is left to MongoDB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Member {
    /// Votes and holds no data.
    pub arbiter: bool,
    /// 0 to 1000; 0 never becomes primary.
    pub priority: Option<f64>,
    /// 0 or 1.
    pub votes: Option<u8>,
    /// Clients do not see it.
    pub hidden: bool,
    /// How far it stays behind on purpose, in seconds.
    pub delay_secs: Option<u64>,
    /// Its tags, for write concerns and read preferences.
    pub tags: BTreeMap<String, String>,
    /// What its server is given.
    #[serde(flatten)]
    pub options: ServerOptions,
}

/// What one server is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerOptions {
    /// `--storageEngine`.
    pub engine: Option<String>,
    /// The cache of its engine, in GiB.
    #[serde(rename = "cacheSizeGB")]
    pub cache_size_gb: Option<f64>,
    /// `--setParameter`.
    pub parameters: BTreeMap<String, Value>,
    /// Further arguments, as they are.
    pub arguments: Vec<String>,
    /// Where its data goes in place of its folder in the cluster's: on another device, say.
    pub directory: Option<PathBuf>,
    /// Another version: a folder with `mongod` and `mongos`, or the word `fathom`.
    pub binaries: Option<String>,
    /// What it may use of the machine.
    pub limits: Limits,
}

/// What a server may use of the machine; held by the kernel's control groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Limits {
    /// Processors: 0.5 is half of one.
    pub cpus: Option<f64>,
    /// Memory, page cache included, as `512M`.
    pub memory: Option<String>,
    /// Reads a second on the disk of its data.
    pub read_iops: Option<u64>,
    /// Writes a second.
    pub write_iops: Option<u64>,
    /// Bytes read a second, as `20M`.
    pub read_bandwidth: Option<String>,
    /// Bytes written a second.
    pub write_bandwidth: Option<String>,
}

/// Who may log in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// The user who is made at the start, if one is.
    pub user: Option<String>,
    /// Where the user is made.
    pub database: String,
    /// Names of roles, or role documents.
    pub roles: Vec<Bson>,
    /// A key file that was named; else one is made.
    pub key_file: Option<PathBuf>,
}

/// A collection that is sharded when the cluster is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ShardedCollection {
    /// `database.collection`.
    pub namespace: String,
    /// The shard key: names of fields with 1, -1 or `hashed`.
    pub key: Document,
    /// Whether the key must be unique.
    #[serde(default)]
    pub unique: bool,
    /// Chunks at the start, of a hashed key.
    #[serde(default)]
    pub chunks: Option<u32>,
}

impl Default for Topology {
    /// One server at mlaunch's port.
    fn default() -> Topology {
        Topology {
            shape: Shape::Single(ServerOptions::default()),
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
            Shape::Single(_) => Vec::new(),
            Shape::ReplicaSet(set) => vec![set],
            Shape::Sharded { shards, config, .. } => shards.iter().chain([config]).collect(),
        }
    }

    /// Refuses what makes no sense, or what MongoDB would refuse after everything was started.
    pub fn check(&self) -> Result<()> {
        if let Shape::Sharded { shards, .. } = &self.shape {
            if shards.is_empty() {
                return Err(Error::usage("a sharded cluster needs at least one shard"));
            }
        } else if !self.collections.is_empty() {
            return Err(Error::usage("collections are sharded in a sharded cluster only"));
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
    /// `count` members with data, `arbiters` behind them, as mlaunch makes them: beyond the seventh vote nobody votes.
    pub fn plain(name: impl Into<String>, count: usize, arbiters: usize) -> ReplicaSet {
        // One too many is enough to be refused for.
        let (count, arbiters) = (count.min(MEMBERS_MAX + 1), arbiters.min(MEMBERS_MAX + 1));
        let voters = VOTING_MAX.saturating_sub(arbiters).max(1);
        let voter = |at: usize| {
            let silent = at >= voters;
            Member { votes: silent.then_some(0), priority: silent.then_some(0.0), ..Member::default() }
        };
        let arbiter = || Member { arbiter: true, ..Member::default() };
        let members = (0..count).map(voter).chain((0..arbiters).map(|_| arbiter())).collect();
        ReplicaSet { name: name.into(), members }
    }

    fn check(&self) -> Result<()> {
        let ReplicaSet { name, members } = self;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let reserved = RESERVED.contains(&name.as_str());
        if name.is_empty() || !name.chars().all(fits) || name.starts_with(['-', '.']) || reserved {
            let what = format!("'{name}' cannot be the name of a set");
            return Err(Error::usage(what).advise("use letters, digits, '-', '_' and '.'"));
        }
        let data = members.iter().filter(|member| !member.arbiter).count();
        if data == 0 {
            return Err(Error::usage(format!("the set '{name}' has no member that holds data")));
        }
        if members.len() > MEMBERS_MAX {
            return Err(Error::usage(format!("the set '{name}' has more than {MEMBERS_MAX} members")));
        }
        let voting = members.iter().filter(|member| member.votes != Some(0)).count();
        if !(1..=VOTING_MAX).contains(&voting) {
            let what = format!("the set '{name}' has {voting} voting members, and needs 1 to {VOTING_MAX}");
            return Err(Error::usage(what).advise("give the others 'votes: 0' and 'priority: 0'"));
        }
        members.iter().enumerate().try_for_each(|(at, member)| member.check(name, at + 1))?;
        if !members.iter().any(Member::is_electable) {
            return Err(Error::usage(format!("no member of the set '{name}' can become primary")));
        }
        Ok(())
    }
}

impl Member {
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
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }

    /// Refuses limits of nothing, and sizes that are none.
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
            return Err(Error::usage(format!("'{namespace}' is no namespace, which is database.collection")));
        }
        if self.key.is_empty() {
            let what = format!("the collection {namespace} has no shard key");
            return Err(Error::usage(what).advise("write one like 'key: {_id: hashed}'"));
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
    /// Rewrites the paths in it by `name`: what is relative now is not for a later call from elsewhere.
    pub fn name_places(&mut self, name: &dyn Fn(&Path) -> Result<PathBuf>) -> Result<()> {
        let mut options: Vec<&mut ServerOptions> = Vec::new();
        match &mut self.shape {
            Shape::Single(one) => options.push(one),
            Shape::ReplicaSet(set) => options.extend(set.members.iter_mut().map(|one| &mut one.options)),
            Shape::Sharded { shards, config, routers } => {
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

    /// Gives every mongod what it does not say itself; the engine is not for config servers. Routers take binaries and limits.
    pub fn give_defaults(&mut self, defaults: &ServerOptions) {
        let of_set =
            |set: &mut ReplicaSet| set.members.iter_mut().for_each(|one| one.options.complete(defaults));
        match &mut self.shape {
            Shape::Single(options) => options.complete(defaults),
            Shape::ReplicaSet(set) => of_set(set),
            Shape::Sharded { shards, config, routers } => {
                shards.iter_mut().for_each(of_set);
                let bare = ServerOptions { engine: None, ..defaults.clone() };
                config.members.iter_mut().for_each(|one| one.options.complete(&bare));
                // A router has neither an engine's parameters nor a disk.
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
    /// Takes from `defaults` what is not said here; parameters one by one.
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
