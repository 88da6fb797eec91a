//! Assigns ports and folders to the servers of a cluster, in mlaunch's layout.
//!
//! Ports: routers first, then shard by shard (in the order of the members), then config servers. Folders below the cluster's: `db`
//! and `mongod.log` of a single server; `SET/rsN`, `SET/arb`; `mongos.log`, or `mongos/mongos_PORT.log` of several
//! (rueckstiess/mtools:mtools/mlaunch/mlaunch.py). Pure: this module creates nothing.

use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::topology::{ClusterShape, MemberOptions, ReplicaSet, ServerOptions, Topology};

/// The purpose of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A single, standalone server.
    Single,
    /// A data-bearing member of a set.
    Data,
    /// A member of a set that only votes.
    Arbiter,
    /// A member of the config servers' set.
    Config,
    Router,
}

/// One server of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The port that clients and members connect to.
    pub port: u16,
    /// The port that it actually listens on: a different one behind a proxy.
    pub own_port: u16,
    pub purpose: Purpose,
    /// Its set, if it belongs to one.
    pub set: Option<String>,
    /// Whether its set is a shard.
    pub in_shard: bool,
    /// The data directory; a router has none.
    pub db_path: Option<PathBuf>,
    pub log_path: PathBuf,
    /// Whether it runs only while the cluster is created.
    pub temporary: bool,
    pub options: ServerOptions,
}

impl Node {
    /// The file for its output other than its log.
    pub fn console_path(&self) -> PathBuf {
        self.log_path.with_extension("console")
    }

    /// The folder of mongos's diagnostics: next to its log (`getMongoSPath` in MongoDB's `ftdc/util.cpp`). A mongod has them in its data.
    pub(crate) fn diagnostics_path(&self) -> Option<PathBuf> {
        (!self.is_mongod()).then(|| self.log_path.with_extension("diagnostic.data"))
    }

    /// Whether it is a mongod.
    pub fn is_mongod(&self) -> bool {
        self.purpose != Purpose::Router
    }

    /// The title for messages, such as `the config server on port 27020`.
    pub fn title(&self) -> String {
        let what = match (self.purpose, &self.set) {
            (Purpose::Single, _) => "the server".to_owned(),
            (Purpose::Arbiter, Some(set)) => format!("the arbiter of {set}"),
            (Purpose::Config, _) => "the config server".to_owned(),
            (Purpose::Router, _) => "the router".to_owned(),
            (_, Some(set)) => format!("the member of {set}"),
            (_, None) => "the member".to_owned(),
        };
        format!("{what} on port {}", self.port)
    }
}

/// All servers of a cluster, by port.
pub fn layout(topology: &Topology, folder: &Path) -> Result<Vec<Node>> {
    let mut nodes = match &topology.shape {
        ClusterShape::Single(options) => {
            vec![node(
                Purpose::Single,
                Some(db_path(folder, &[], options)),
                folder.join("mongod.log"),
                options,
            )]
        }
        ClusterShape::ReplicaSet(set) => of_set(folder, set, Purpose::Data, false),
        ClusterShape::Sharded { shards, config, routers } => {
            let mut nodes = of_routers(folder, routers);
            nodes.extend(shards.iter().flat_map(|shard| of_set(folder, shard, Purpose::Data, true)));
            nodes.extend(of_set(folder, config, Purpose::Config, false));
            nodes
        }
    };
    number(&mut nodes, topology)?;
    Ok(nodes)
}

/// A server without set and port.
fn node(purpose: Purpose, db_path: Option<PathBuf>, log_path: PathBuf, options: &ServerOptions) -> Node {
    Node {
        port: 0,
        own_port: 0,
        purpose,
        set: None,
        in_shard: false,
        db_path,
        log_path,
        temporary: false,
        options: options.clone(),
    }
}

/// A folder of its own within a given directory, which may hold other files.
fn db_path(folder: &Path, below: &[&str], options: &ServerOptions) -> PathBuf {
    match &options.directory {
        Some(directory) if below.is_empty() => directory.join("db"),
        Some(directory) => directory.join(below.join("-")),
        None => folder.join(below.iter().collect::<PathBuf>()).join("db"),
    }
}

fn of_set(folder: &Path, set: &ReplicaSet, purpose: Purpose, in_shard: bool) -> Vec<Node> {
    let (mut data, mut arbiters) = (0, 0);
    let mut nodes = Vec::new();
    for member in &set.members {
        let name = member_folder(member, &mut data, &mut arbiters);
        let purpose = if member.arbiter { Purpose::Arbiter } else { purpose };
        let db = db_path(folder, &[&set.name, &name], &member.options);
        let log = folder.join(&set.name).join(name).join("mongod.log");
        let plain = node(purpose, Some(db), log, &member.options);
        nodes.push(Node { set: Some(set.name.clone()), in_shard, ..plain });
    }
    nodes
}

/// With several routers, the log names contain the ports, which are assigned later.
fn of_routers(folder: &Path, routers: &[ServerOptions]) -> Vec<Node> {
    let log = || folder.join("mongos.log");
    if routers.is_empty() {
        let plain = node(Purpose::Router, None, log(), &ServerOptions::default());
        return vec![Node { temporary: true, ..plain }];
    }
    routers.iter().map(|options| node(Purpose::Router, None, log(), options)).collect()
}

fn member_folder(member: &MemberOptions, data: &mut usize, arbiters: &mut usize) -> String {
    if !member.arbiter {
        *data += 1;
        return format!("rs{data}");
    }
    *arbiters += 1;
    // mlaunch supports at most one, without a number.
    if *arbiters == 1 { "arb".to_owned() } else { format!("arb{arbiters}") }
}

/// Assigns the ports; behind proxies, the servers' own ports follow the ones that clients use.
fn number(nodes: &mut [Node], topology: &Topology) -> Result<()> {
    let count = nodes.len() * if topology.proxied { 2 } else { 1 };
    let first = usize::from(topology.first_port);
    let last = first + count - 1;
    if first == 0 || last > usize::from(u16::MAX) {
        let what = format!("ports {first} to {last} are not valid");
        return Err(Error::usage(what)
            .advise("choose --port so that the ports of all servers are between 1 and 65535"));
    }
    let routers = nodes.iter().filter(|node| node.purpose == Purpose::Router).count();
    let shift = if topology.proxied { nodes.len() } else { 0 };
    let port = |at: usize| u16::try_from(first + at).unwrap_or(u16::MAX);
    for (at, node) in nodes.iter_mut().enumerate() {
        node.port = port(at);
        node.own_port = port(at + shift);
        if node.purpose == Purpose::Router && routers > 1 {
            let folder = node.log_path.with_file_name("mongos");
            node.log_path = folder.join(format!("mongos_{}.log", node.port));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(topology: &Topology) -> Vec<String> {
        let nodes = layout(topology, Path::new("/c")).unwrap();
        let path = |path: &Path| path.strip_prefix("/c").unwrap_or(path).display().to_string();
        let line = |node: &Node| {
            let db = node.db_path.as_deref().map(path).unwrap_or_default();
            format!("{} {:?} {db} {}", node.port, node.purpose, path(&node.log_path))
        };
        nodes.iter().map(line).collect()
    }

    fn sharded(shards: usize, nodes: usize, arbiters: usize, config: usize, routers: usize) -> Topology {
        let shard = |at: usize| ReplicaSet::plain(format!("shard{:02}", at + 1), nodes, arbiters);
        Topology {
            shape: ClusterShape::Sharded {
                shards: (0..shards).map(shard).collect(),
                config: ReplicaSet::plain(crate::CONFIG_SET, config, 0),
                routers: vec![ServerOptions::default(); routers],
            },
            ..Topology::default()
        }
    }

    #[test]
    fn a_single_server_and_a_set_are_where_mlaunch_has_them() {
        assert_eq!(lines(&Topology::default()), ["27017 Single db mongod.log"]);
        let set = ClusterShape::ReplicaSet(ReplicaSet::plain("replset", 2, 2));
        let topology = Topology { shape: set, first_port: 30000, ..Topology::default() };
        assert_eq!(
            lines(&topology),
            [
                "30000 Data replset/rs1/db replset/rs1/mongod.log",
                "30001 Data replset/rs2/db replset/rs2/mongod.log",
                "30002 Arbiter replset/arb/db replset/arb/mongod.log",
                "30003 Arbiter replset/arb2/db replset/arb2/mongod.log",
            ]
        );
    }

    #[test]
    fn routers_come_first_and_config_servers_last() {
        assert_eq!(
            lines(&sharded(2, 1, 1, 1, 2)),
            [
                "27017 Router  mongos/mongos_27017.log",
                "27018 Router  mongos/mongos_27018.log",
                "27019 Data shard01/rs1/db shard01/rs1/mongod.log",
                "27020 Arbiter shard01/arb/db shard01/arb/mongod.log",
                "27021 Data shard02/rs1/db shard02/rs1/mongod.log",
                "27022 Arbiter shard02/arb/db shard02/arb/mongod.log",
                "27023 Config configRepl/rs1/db configRepl/rs1/mongod.log",
            ]
        );
        let nodes = layout(&sharded(1, 1, 0, 1, 0), Path::new("/c")).unwrap();
        assert!(nodes[0].temporary && nodes[0].log_path == Path::new("/c/mongos.log"));
        assert_eq!(nodes.len(), 3);
    }

    #[test]
    fn proxies_push_the_servers_behind_the_ports_of_the_clients() {
        let nodes = layout(&Topology { proxied: true, ..sharded(1, 2, 0, 1, 1) }, Path::new("/c")).unwrap();
        let ports: Vec<_> = nodes.iter().map(|node| (node.port, node.own_port)).collect();
        assert_eq!(ports, [(27017, 27021), (27018, 27022), (27019, 27023), (27020, 27024)]);
    }

    #[test]
    fn ports_that_do_not_exist_are_refused() {
        for first_port in [0, 65535] {
            let topology = Topology { first_port, ..sharded(1, 1, 0, 1, 1) };
            assert!(layout(&topology, Path::new("/c")).is_err(), "{first_port}");
        }
    }
}
