//! `fathom cluster init`: builds a topology from mlaunch's flags or from a file, and creates the cluster.

use std::path::PathBuf;

use anyhow::Result;
use bson::Bson;
use clap::{Arg, ArgAction, ArgMatches, Args};
use fathom_cluster::{
    Auth, CONFIG_SET, Cluster, ClusterPlan, ClusterShape, Maker, MemberOptions, ROLES, ReplicaSet,
    ServerOptions, ServerState, ShardedCollection, TlsArguments, Topology, file, quoted, shard_names,
};
use fathom_errors::{Error, Kind};

use super::common::{ClusterFolder, TimeoutArgs, own, say};
use super::list;
use crate::outcome::VerbOutcome;
use crate::output;

/// Members with data in each set.
const DEFAULT_MEMBERS: usize = 3;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster init --single --storageEngine rocksdb
  fathom cluster init --replicaset --nodes 2 --arbiter --priority --auth
  fathom cluster init --replicaset --member '2={engine: rocksdb, priority: 0}' \\
      --member '3={limits: {cpus: 0.5, writeIops: 200}, directory: /mnt/slow}'
  fathom cluster init --sharded 4 --single --mongos 2 \\
      --shard-collection 'ycsb.usertable={_id: hashed}'
  fathom cluster init --replicaset --binarypath /opt/mongodb-7.0/bin --dry-run
  fathom cluster init --file cluster.yaml --dir /data/cluster

mongod's options for TLS (--tlsMode, --tlsCAFile ...; before 4.2 --sslMode ...)
are taken too, and so is every option that the servers list in their --help.
A file can say all of this and more of each member; see docs/cluster.md.";

/// The command line of `init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InitArgs {
    /// One server; with --sharded, one server for each shard, as a set of one member
    #[arg(long, conflicts_with_all = ["replicaset", "file"])]
    single: bool,
    /// A replica set; with --sharded, a set for each shard
    #[arg(long, conflicts_with = "file")]
    replicaset: bool,
    /// A cluster described in YAML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "arbiter", "arbiters", "name", "priority", "sharded", "config", "mongos", "member"])]
    file: Option<PathBuf>,
    /// Members with data in each set [default: 3]
    #[arg(long, value_name = "NUM")]
    nodes: Option<u16>,
    /// An arbiter in each set
    #[arg(long)]
    arbiter: bool,
    /// Number of arbiters in each set
    #[arg(long, value_name = "NUM", conflicts_with = "arbiter")]
    arbiters: Option<u16>,
    /// The set's name [default: replset]; shards have names of their own
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The first member of each set gets priority 10
    #[arg(long)]
    priority: bool,
    /// A member of each set, by its number: engine, cacheSizeGB, parameters, arguments, limits, directory, binaries, priority,
    /// votes, hidden, delaySecs, tags
    #[arg(long, value_name = "N={...}")]
    member: Vec<String>,
    /// Shards: how many, or their names
    #[arg(long, visible_alias = "shards", value_name = "N", num_args = 1..)]
    sharded: Vec<String>,
    /// Config servers [default: 1]
    #[arg(long, value_name = "NUM")]
    config: Option<u16>,
    #[arg(long, hide = true)]
    csrs: bool,
    /// Routers [default: 1]; with 0, a router adds the shards and is then stopped
    #[arg(long, value_name = "NUM")]
    mongos: Option<u16>,
    /// Shard a collection at the start
    #[arg(long, value_name = "DB.COLLECTION={KEY}")]
    shard_collection: Vec<String>,
    /// Initial chunks of collections with a hashed key
    #[arg(long, value_name = "NUM", requires = "shard_collection")]
    initial_chunks: Option<u32>,
    /// The first port [default: 27017]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Directory of mongod and mongos, or fathom for the built-in servers [default: those in PATH, else the built-in ones]
    #[arg(long, value_name = "PATH")]
    binarypath: Option<String>,
    /// Host name in the servers' addresses [default: localhost]
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// Require clients to log in; creates a key file and a user
    #[arg(long)]
    auth: bool,
    /// The name of the first user [default: user]
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// The user's password, which is never stored [default: password]
    #[arg(long, value_name = "WORD")]
    password: Option<String>,
    /// The database in which the user is created [default: admin]
    #[arg(long, value_name = "DB")]
    auth_db: Option<String>,
    /// The user's roles [default: dbAdminAnyDatabase readWriteAnyDatabase userAdminAnyDatabase clusterAdmin]
    #[arg(long, value_name = "ROLE", num_args = 0..)]
    auth_roles: Option<Vec<String>>,
    /// Roles are JSON documents
    #[arg(long)]
    auth_role_docs: bool,
    /// Put a proxy before each server, for partition, delay and heal
    #[arg(long)]
    proxied: bool,
    /// Create no user, despite --auth
    #[arg(long, conflicts_with_all = ["username", "password", "auth_db", "auth_roles", "auth_role_docs"])]
    no_initial_user: bool,
    /// Print the servers' command lines, and start nothing
    #[arg(long, conflicts_with_all = ["json", "keep_failed"])]
    dry_run: bool,
    /// Keep the folder if the cluster cannot be created
    #[arg(long)]
    keep_failed: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ClusterFolder,
    #[command(flatten)]
    patience: TimeoutArgs,
    /// Options for the servers
    #[arg(last = true, value_name = "OPTION")]
    pass_through: Vec<String>,
}

/// The TLS options as arguments.
pub(super) fn tls_arguments() -> Vec<Arg> {
    let argument = |(name, value): (&'static str, Option<&'static str>)| {
        let argument = Arg::new(name).long(name).hide(true);
        match value {
            Some(value) => argument.value_name(value),
            None => argument.action(ArgAction::SetTrue),
        }
    };
    TlsArguments::options().into_iter().map(argument).collect()
}

/// The TLS options that were given.
pub(super) fn tls_given(matches: &ArgMatches) -> Vec<(String, Option<String>)> {
    let given = |(name, value): (&'static str, Option<&'static str>)| match value {
        Some(_) => matches.get_one::<String>(name).map(|text| (name.to_owned(), Some(text.clone()))),
        None => matches.get_flag(name).then(|| (name.to_owned(), None)),
    };
    TlsArguments::options().into_iter().filter_map(given).collect()
}

pub(super) fn run(args: InitArgs, tls: &[(String, Option<String>)]) -> Result<VerbOutcome> {
    let topology = args.topology(tls)?;
    let wish = ClusterPlan::new(&args.place.dir, topology, &own()?, &mut |text| say(text))?;
    if args.dry_run {
        for server in wish.servers() {
            let words =
                std::iter::once(server.program.display().to_string()).chain(server.arguments.iter().cloned());
            output::line(&words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" "))?;
        }
        return Ok(VerbOutcome::Clean);
    }
    let tools = args.patience.tools()?;
    let password = args.password.as_deref().unwrap_or("password");
    let cluster = wish.make(&tools, password, args.keep_failed)?;
    if args.json {
        output::line(&list::document(&cluster)?.to_string())?;
    } else {
        tell(&cluster)?;
    }
    Ok(VerbOutcome::Clean)
}

fn tell(cluster: &Cluster) -> Result<()> {
    let nodes = cluster.nodes();
    let ports: Vec<u16> = nodes.iter().filter(|node| !node.temporary).map(|node| node.port).collect();
    let what = match &cluster.topology().shape {
        ClusterShape::Single(_) => "server".to_owned(),
        ClusterShape::ReplicaSet(set) => format!("replica set '{}'", set.name),
        ClusterShape::Sharded { shards, .. } if shards.len() == 1 => "sharded cluster of 1 shard".to_owned(),
        ClusterShape::Sharded { shards, .. } => format!("sharded cluster of {} shards", shards.len()),
    };
    let where_ = match ports.as_slice() {
        [port] => format!("port {port}"),
        [first, .., last] => format!("ports {first} to {last}"),
        [] => "no port".to_owned(),
    };
    output::line(&format!("{what} is ready at {where_}, in {}", cluster.folder().display()))?;
    output::line(&format!("servers: {}", programs(cluster)))?;
    let connect = cluster.connection_string();
    if !connect.is_empty() {
        output::line(&format!("connect with {connect}"))?;
    }
    Ok(())
}

/// The programs of the servers, each once: `fathom 0.1.0 (WiredTiger), fathom 0.1.0 (router)`; and the reason if they are built-in ones.
fn programs(cluster: &Cluster) -> String {
    let mut titles: Vec<String> = cluster.servers().iter().map(ServerState::title).collect();
    titles.sort();
    titles.dedup();
    let is_built_in = |server: &ServerState| server.maker == Maker::Fathom;
    let was_chosen = cluster.topology().binaries.is_some()
        || cluster.nodes().iter().any(|node| node.options.binaries.is_some());
    let why = if !was_chosen && cluster.servers().iter().all(is_built_in) {
        "; no mongod is on the path"
    } else {
        ""
    };
    format!("{}{why}", titles.join(", "))
}

impl InitArgs {
    fn topology(&self, tls: &[(String, Option<String>)]) -> Result<Topology> {
        let mut topology = match &self.file {
            Some(path) => file::read(path)?,
            None => Topology { shape: self.shape()?, ..Topology::default() },
        };
        topology.first_port = self.port.unwrap_or(topology.first_port);
        topology.host = self.hostname.clone().unwrap_or(topology.host);
        topology.binaries = self.binarypath.clone().or(topology.binaries);
        topology.pass_through.clone_from(&self.pass_through);
        for (name, value) in tls {
            topology.tls.set(name, value.clone())?;
        }
        topology.proxied |= self.proxied;
        if self.auth {
            topology.auth = Some(self.login(&mut topology.pass_through)?);
        }
        self.check_login(&topology)?;
        let collections = self.shard_collection.iter().map(|text| collection(text, self.initial_chunks));
        let collections = collections.collect::<Result<Vec<_>>>()?;
        if self.initial_chunks.is_some() && collections.iter().all(|one| one.chunks.is_none()) {
            let what = "--initial-chunks belongs to a hashed key, and no collection has one";
            return Err(Error::usage(what).with_id("bad-topology").into());
        }
        topology.collections.extend(collections);
        Ok(topology)
    }

    /// Refuses what is said of a user who is not made.
    fn check_login(&self, topology: &Topology) -> Result<()> {
        let of_auth = [
            ("--username", self.username.is_some()),
            ("--auth-db", self.auth_db.is_some()),
            ("--auth-roles", self.auth_roles.is_some()),
            ("--auth-role-docs", self.auth_role_docs),
            ("--no-initial-user", self.no_initial_user),
            // A file may name the user, but holds no password.
            ("--password", self.password.is_some() && topology.auth.is_none()),
        ];
        match of_auth.iter().find(|(_, is_given)| *is_given && !self.auth) {
            Some((name, _)) => {
                let what = format!("{name} belongs to a cluster whose clients log in");
                Err(Error::usage(what).with_id("bad-topology").advise("add --auth").into())
            }
            None => Ok(()),
        }
    }

    /// Refuses what is said of parts that only a sharded cluster has.
    fn check_unsharded(&self) -> Result<()> {
        if self.config.is_none() && self.mongos.is_none() {
            return Ok(());
        }
        let what = "--config and --mongos apply to a sharded cluster only";
        Err(Error::usage(what).with_id("bad-topology").advise("add --sharded").into())
    }

    fn shape(&self) -> Result<ClusterShape> {
        let refuse =
            |what: &str, advice: &str| Err(Error::usage(what).with_id("bad-topology").advise(advice));
        let of_set = [
            (self.arbiter, "--arbiter"),
            (self.arbiters.is_some(), "--arbiters"),
            (self.nodes.is_some(), "--nodes"),
            (self.priority, "--priority"),
        ];
        if self.single {
            if let Some((_, name)) = of_set.iter().find(|(is_given, _)| *is_given) {
                return Ok(refuse(
                    &format!("{name} applies to a replica set, not to a single server"),
                    "use --replicaset",
                )?);
            }
            if self.sharded.is_empty() {
                if self.name.is_some() {
                    return Ok(refuse(
                        "--name applies to a replica set, not to a single server",
                        "use --replicaset",
                    )?);
                }
                self.check_unsharded()?;
                return Ok(ClusterShape::Single(self.single_member()?));
            }
            say("each shard is a replica set of one member, as MongoDB requires since 3.6");
        }
        if self.sharded.is_empty() {
            if !self.replicaset {
                return Ok(refuse(
                    "the shape of the cluster is missing",
                    "give --single, --replicaset, --sharded or --file",
                )?);
            }
            self.check_unsharded()?;
            return Ok(ClusterShape::ReplicaSet(self.set(self.name.as_deref().unwrap_or("replset"))?));
        }
        if self.name.is_some() {
            return Ok(refuse(
                "--name names one replica set, and each shard needs its own name",
                "give the names to --sharded",
            )?);
        }
        let shards = shard_names(&self.sharded)?.iter().map(|name| self.set(name)).collect::<Result<_>>()?;
        Ok(ClusterShape::Sharded {
            shards,
            config: ReplicaSet::plain(CONFIG_SET, usize::from(self.config.unwrap_or(1)), 0),
            routers: vec![ServerOptions::default(); usize::from(self.mongos.unwrap_or(1))],
        })
    }

    fn set(&self, name: &str) -> Result<ReplicaSet> {
        let arbiters = usize::from(self.arbiters.unwrap_or(u16::from(self.arbiter)));
        let members = if self.single { 1 } else { self.nodes.map_or(DEFAULT_MEMBERS, usize::from) };
        let mut set = ReplicaSet::plain(name, members, arbiters);
        if self.priority {
            set.members.iter_mut().take(1).for_each(|first| first.priority = Some(10.0));
        }
        for (number, member) in self.members()? {
            let count = set.members.len();
            let Some(place) = number.checked_sub(1).and_then(|at| set.members.get_mut(at)) else {
                let what = format!("there is no member {number}: the set has {count} members");
                return Err(Error::usage(what).with_id("bad-topology").into());
            };
            let arbiter = place.arbiter || member.arbiter;
            let priority = member.priority.or(place.priority);
            *place = MemberOptions { arbiter, priority, votes: member.votes.or(place.votes), ..member };
        }
        Ok(set)
    }

    fn single_member(&self) -> Result<ServerOptions> {
        let mut members = self.members()?;
        match (members.pop(), members.is_empty()) {
            (None, _) => Ok(ServerOptions::default()),
            (Some((1, member)), true)
                if member
                    == (MemberOptions { options: member.options.clone(), ..MemberOptions::default() }) =>
            {
                Ok(member.options)
            }
            _ => {
                Err(Error::usage("a single server has only --member 1, without options of a replica set")
                    .into())
            }
        }
    }

    fn members(&self) -> Result<Vec<(usize, MemberOptions)>> {
        let one = |text: &String| {
            let parts =
                text.split_once('=').and_then(|(number, rest)| Some((number.trim().parse().ok()?, rest)));
            let (number, rest) = parts.ok_or_else(|| {
                Error::usage(format!("'{text}' names no member"))
                    .advise("write it like '2={engine: rocksdb}'")
            })?;
            Ok((number, file::member(rest)?))
        };
        self.member.iter().map(one).collect()
    }

    /// A key file among the options for the servers is used for the whole cluster.
    fn login(&self, pass_through: &mut Vec<String>) -> Result<Auth> {
        let mut key_file = None;
        if let Some(place) = pass_through.iter().position(|word| word == "--keyFile") {
            let words: Vec<String> = pass_through.drain(place..(place + 2).min(pass_through.len())).collect();
            let path = words.get(1).ok_or_else(|| Error::usage("--keyFile takes a file"))?;
            key_file = Some(std::path::absolute(path).map_err(|cause| Error::io("find", path, cause))?);
        }
        let roles = self.auth_roles.clone().unwrap_or_else(|| ROLES.map(str::to_owned).to_vec());
        let roles = roles.into_iter().map(|text| role(text, self.auth_role_docs)).collect::<Result<_>>()?;
        let or = |given: &Option<String>, usual: &str| given.clone().unwrap_or_else(|| usual.to_owned());
        let user = (!self.no_initial_user).then(|| or(&self.username, "user"));
        Ok(Auth { user, database: or(&self.auth_db, "admin"), roles, key_file })
    }
}

fn role(text: String, is_document: bool) -> Result<Bson> {
    if !is_document {
        return Ok(Bson::String(text));
    }
    let refused = || Error::new(Kind::Usage, format!("the role '{text}' is not a JSON document"));
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|cause| refused().because(cause))?;
    Ok(Bson::try_from(value).map_err(|cause| refused().because(cause))?)
}

fn collection(text: &str, chunks: Option<u32>) -> Result<ShardedCollection> {
    let (namespace, key) = text.split_once('=').unwrap_or((text, "{}"));
    let key = file::key(key)?;
    let is_hashed = key.values().any(|value| value.as_str() == Some("hashed"));
    let namespace = namespace.trim().to_owned();
    Ok(ShardedCollection { namespace, key, unique: false, chunks: chunks.filter(|_| is_hashed) })
}
