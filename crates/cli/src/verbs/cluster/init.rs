//! `fathom cluster init`: mlaunch's flags, or a file, as a topology; then the cluster is made.

use std::path::PathBuf;

use anyhow::Result;
use bson::Bson;
use clap::{Arg, ArgAction, ArgMatches, Args};
use fathom_cluster::{
    Auth, CONFIG_SET, Cluster, Member, ROLES, ReplicaSet, ServerOptions, Shape, ShardedCollection,
    TlsArguments, Topology, Wish, file, quoted, shard_names,
};
use fathom_errors::{Error, Kind};

use super::common::{ClusterFolder, TimeoutArgs, own, say};
use super::list;
use crate::outcome::Outcome;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster init --single --storageEngine rocksdb
  fathom cluster init --replicaset --nodes 2 --arbiter --priority --auth
  fathom cluster init --replicaset --member '2={engine: rocksdb, priority: 0}' \\
      --member '3={limits: {cpus: 0.5, writeIops: 200}, directory: /mnt/slow}'
  fathom cluster init --sharded 4 --replicaset --nodes 1 --mongos 2 \\
      --shard-collection 'ycsb.usertable={_id: hashed}'
  fathom cluster init --replicaset --binarypath /opt/mongodb-7.0/bin --dry-run
  fathom cluster init --file cluster.yaml --dir /data/cluster

A file can say all of this and more of each member; see docs/cluster.md.";

/// What the command line of `init` may say.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InitArgs {
    /// One server by itself
    #[arg(long, conflicts_with_all = ["replicaset", "file"])]
    single: bool,
    /// A replica set, or shards that are sets
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
    /// So many arbiters in each set
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
    /// Routers [default: 1]; with 0 one adds the shards and is stopped
    #[arg(long, value_name = "NUM")]
    mongos: Option<u16>,
    /// Shard a collection at the start
    #[arg(long, value_name = "DB.COLLECTION={KEY}")]
    shard_collection: Vec<String>,
    /// Chunks that collections with a hashed key begin with
    #[arg(long, value_name = "NUM", requires = "shard_collection")]
    initial_chunks: Option<u32>,
    /// The first port [default: 27017]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Where mongod and mongos are, or the word fathom for the built-in servers [default: the path's, else the built-in ones]
    #[arg(long, value_name = "PATH")]
    binarypath: Option<String>,
    /// The name by which servers are found [default: localhost]
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// Clients must log in; a key file and a user are made
    #[arg(long)]
    auth: bool,
    /// The user
    #[arg(long, value_name = "NAME", default_value = "user")]
    username: String,
    /// The user's password; it is never written down
    #[arg(long, value_name = "WORD", default_value = "password")]
    password: String,
    /// The user's database
    #[arg(long, value_name = "DB", default_value = "admin")]
    auth_db: String,
    /// The user's roles [default: dbAdminAnyDatabase readWriteAnyDatabase userAdminAnyDatabase clusterAdmin]
    #[arg(long, value_name = "ROLE", num_args = 0..)]
    auth_roles: Option<Vec<String>>,
    /// Roles are JSON documents
    #[arg(long)]
    auth_role_docs: bool,
    /// A proxy before each server, which can delay and cut (partition, delay, heal)
    #[arg(long)]
    proxied: bool,
    /// Make no user
    #[arg(long)]
    no_initial_user: bool,
    /// Print the servers' command lines, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Keep the folder if the cluster cannot be made
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
        let heading = if name.starts_with("tls") { "TLS" } else { "TLS, under the names before MongoDB 4.2" };
        let argument = Arg::new(name).long(name).help_heading(heading).hide_short_help(true);
        match value {
            Some(value) => argument.value_name(value).help("As mongod has it"),
            None => argument.action(ArgAction::SetTrue).help("As mongod has it"),
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

/// Makes the cluster.
pub(super) fn run(args: InitArgs, tls: &[(String, Option<String>)]) -> Result<Outcome> {
    let topology = args.topology(tls)?;
    let wish = Wish::new(&args.place.dir, topology, &own()?, &mut |text| say(text))?;
    if args.dry_run {
        for server in wish.servers() {
            let words =
                std::iter::once(server.program.display().to_string()).chain(server.arguments.iter().cloned());
            output::line(&words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" "))?;
        }
        return Ok(Outcome::Clean);
    }
    let tools = args.patience.tools()?;
    let cluster = wish.make(&tools, &args.password, args.keep_failed)?;
    if args.json {
        output::line(&list::document(&cluster)?.to_string())?;
    } else {
        tell(&cluster)?;
    }
    Ok(Outcome::Clean)
}

fn tell(cluster: &Cluster) -> Result<()> {
    let nodes = cluster.nodes();
    let ports: Vec<u16> = nodes.iter().filter(|node| !node.temporary).map(|node| node.port).collect();
    let what = match &cluster.topology().shape {
        Shape::Single(_) => "server".to_owned(),
        Shape::ReplicaSet(set) => format!("replica set '{}'", set.name),
        Shape::Sharded { shards, .. } if shards.len() == 1 => "sharded cluster of 1 shard".to_owned(),
        Shape::Sharded { shards, .. } => format!("sharded cluster of {} shards", shards.len()),
    };
    let where_ = match ports.as_slice() {
        [port] => format!("port {port}"),
        [first, .., last] => format!("ports {first} to {last}"),
        [] => "no port".to_owned(),
    };
    output::line(&format!("{what} is ready at {where_}, in {}", cluster.folder().display()))?;
    let connect = cluster.connection_string();
    if !connect.is_empty() {
        output::line(&format!("connect with {connect}"))?;
    }
    Ok(())
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
        for text in &self.shard_collection {
            topology.collections.push(collection(text, self.initial_chunks)?);
        }
        Ok(topology)
    }

    fn shape(&self) -> Result<Shape> {
        let refuse = |what: &str, advice: &str| Err(Error::usage(what).advise(advice));
        let of_set = [
            (self.arbiter, "--arbiter"),
            (self.arbiters.is_some(), "--arbiters"),
            (self.nodes.is_some(), "--nodes"),
            (self.priority, "--priority"),
        ];
        if self.single {
            if !self.sharded.is_empty() {
                return Ok(refuse(
                    "a shard is a replica set, and not a single server",
                    "use --replicaset --nodes 1",
                )?);
            }
            if let Some((_, name)) = of_set.iter().find(|(is_given, _)| *is_given) {
                return Ok(refuse(
                    &format!("{name} belongs to a set, and not to a single server"),
                    "use --replicaset",
                )?);
            }
            return Ok(Shape::Single(self.single_member()?));
        }
        if self.sharded.is_empty() {
            if !self.replicaset {
                return Ok(refuse(
                    "nothing says what to make",
                    "use --single, --replicaset, --sharded or --file",
                )?);
            }
            if self.config.is_some() || self.mongos.is_some() {
                return Ok(refuse("--config and --mongos belong to a sharded cluster", "add --sharded")?);
            }
            return Ok(Shape::ReplicaSet(self.set(self.name.as_deref().unwrap_or("replset"))?));
        }
        if self.name.is_some() {
            return Ok(refuse(
                "--name names one set, and shards have names of their own",
                "write the names behind --sharded",
            )?);
        }
        let shards = shard_names(&self.sharded)?.iter().map(|name| self.set(name)).collect::<Result<_>>()?;
        Ok(Shape::Sharded {
            shards,
            config: ReplicaSet::plain(CONFIG_SET, usize::from(self.config.unwrap_or(1)), 0),
            routers: vec![ServerOptions::default(); usize::from(self.mongos.unwrap_or(1))],
        })
    }

    fn set(&self, name: &str) -> Result<ReplicaSet> {
        let arbiters = usize::from(self.arbiters.unwrap_or(u16::from(self.arbiter)));
        let mut set = ReplicaSet::plain(name, usize::from(self.nodes.unwrap_or(3)), arbiters);
        if self.priority {
            set.members.iter_mut().take(1).for_each(|first| first.priority = Some(10.0));
        }
        for (number, member) in self.members()? {
            let count = set.members.len();
            let Some(place) = number.checked_sub(1).and_then(|at| set.members.get_mut(at)) else {
                return Err(Error::usage(format!("there is no member {number}: the set has {count}")).into());
            };
            let arbiter = place.arbiter || member.arbiter;
            let priority = member.priority.or(place.priority);
            *place = Member { arbiter, priority, votes: member.votes.or(place.votes), ..member };
        }
        Ok(set)
    }

    fn single_member(&self) -> Result<ServerOptions> {
        let mut members = self.members()?;
        match (members.pop(), members.is_empty()) {
            (None, _) => Ok(ServerOptions::default()),
            (Some((1, member)), true)
                if member == (Member { options: member.options.clone(), ..Member::default() }) =>
            {
                Ok(member.options)
            }
            _ => {
                Err(Error::usage("a single server has one --member, 1, and nothing that belongs to a set")
                    .into())
            }
        }
    }

    fn members(&self) -> Result<Vec<(usize, Member)>> {
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

    /// A key file that was handed through is the cluster's.
    fn login(&self, pass_through: &mut Vec<String>) -> Result<Auth> {
        let mut key_file = None;
        if let Some(place) = pass_through.iter().position(|word| word == "--keyFile") {
            let words: Vec<String> = pass_through.drain(place..(place + 2).min(pass_through.len())).collect();
            let path = words.get(1).ok_or_else(|| Error::usage("--keyFile takes a file"))?;
            key_file = Some(std::path::absolute(path).map_err(|cause| Error::io("find", path, cause))?);
        }
        let roles = self.auth_roles.clone().unwrap_or_else(|| ROLES.map(str::to_owned).to_vec());
        let roles = roles.into_iter().map(|text| role(text, self.auth_role_docs)).collect::<Result<_>>()?;
        let user = (!self.no_initial_user).then(|| self.username.clone());
        Ok(Auth { user, database: self.auth_db.clone(), roles, key_file })
    }
}

fn role(text: String, is_document: bool) -> Result<Bson> {
    if !is_document {
        return Ok(Bson::String(text));
    }
    let refused = || Error::new(Kind::Usage, format!("the role '{text}' is no JSON document"));
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
