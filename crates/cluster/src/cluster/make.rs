//! Creates a cluster: checks everything before it creates anything, creates folders only at unused paths and records them first,
//! and deletes all of it if a step fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger};
use rustix::process::Signal;

use super::faults::proxy_files;
use super::start::StartedServers;
use super::stop::server_files;
use super::{Cluster, Tools, servers};
use crate::arguments::split_secrets;
use crate::layout::{Node, layout};
use crate::mlaunch::MLAUNCH_FILE;
use crate::ports;
use crate::programs::Programs;
use crate::state::{ClusterState, CreationPhase, Lock, STATE_FILE, ServerState};
use crate::topology::Topology;

/// The specification of a new cluster.
#[derive(Debug)]
pub struct ClusterPlan {
    folder: PathBuf,
    topology: Topology,
    nodes: Vec<Node>,
    /// The command lines of its servers, with all secrets.
    servers: Vec<ServerState>,
}

impl ClusterPlan {
    /// Lays out a cluster in a folder, finds its programs, and builds its command lines. Creates nothing. Remarks that are no
    /// errors are passed to `note`.
    pub fn new(
        folder: &Path,
        mut topology: Topology,
        own: &Path,
        note: &mut dyn FnMut(&str),
    ) -> Result<ClusterPlan> {
        topology.check()?;
        check_host(&topology)?;
        let folder = absolute(folder)?;
        topology.name_places(&|path| absolute(path))?;
        let nodes = layout(&topology, &folder)?;
        let mut programs = Programs::new(own.to_owned());
        programs.find(&nodes, topology.binaries.as_deref())?;
        let servers = servers::servers(&topology, &nodes, &programs, &folder, note)?;
        Ok(ClusterPlan { folder, topology, nodes, servers })
    }

    /// The servers that it would have.
    pub fn servers(&self) -> &[ServerState] {
        &self.servers
    }

    /// The topology and servers to record, without secrets.
    fn open(&self) -> Result<(Topology, Vec<ServerState>)> {
        let mut topology = self.topology.clone();
        topology.pass_through = split_secrets(&topology.pass_through)?.0;
        let mut servers = self.servers.clone();
        for server in &mut servers {
            // The first word of the built-in program is its verb.
            let verb = server.arguments.iter().take_while(|word| !word.starts_with('-')).count();
            let (verb, options) = server.arguments.split_at(verb);
            server.arguments = [verb.to_vec(), split_secrets(options)?.0].concat();
        }
        Ok((topology, servers))
    }

    /// Creates the cluster, completes it if its creation was interrupted, or starts it if it exists.
    pub fn make(self, tools: &Tools<'_>, password: &str, keep_failed: bool) -> Result<Cluster> {
        let (topology, servers) = self.open()?;
        let state = ClusterState::read(&self.folder)?;
        let is_mlaunch = match &state {
            Some(state) => state.made_by_mlaunch == Some(true),
            None => self.folder.join(MLAUNCH_FILE).exists(),
        };
        if is_mlaunch {
            let what = format!("{} holds an environment that mlaunch made", self.folder.display());
            return Err(Error::new(Kind::NotOurs, what)
                .with_id("made-by-mlaunch")
                .advise("'fathom cluster start' starts it; choose another --dir for init"));
        }
        match state {
            Some(state) => self.take_up(tools, state, &topology, password),
            None => self.make_new(tools, ClusterState::new(topology, servers), password, keep_failed),
        }
    }

    /// Makes a new cluster that belongs to this process: it ends when the returned value is dropped, and if this process is killed,
    /// `fathom cleanup` ends it. The folder must not hold a cluster yet.
    pub fn make_held(self, tools: &Tools<'_>, password: &str) -> Result<HeldCluster> {
        if ClusterState::read(&self.folder)?.is_some() || self.folder.join(MLAUNCH_FILE).exists() {
            let what = format!("there is a cluster in {} already", self.folder.display());
            return Err(Error::new(Kind::NotOurs, what));
        }
        let (topology, servers) = self.open()?;
        let (cluster, batch, made) =
            self.begin(tools, ClusterState::new(topology, servers), password, false)?;
        Ok(HeldCluster { cluster, batch, made })
    }

    fn make_new(
        self,
        tools: &Tools<'_>,
        state: ClusterState,
        password: &str,
        keep_failed: bool,
    ) -> Result<Cluster> {
        let (cluster, batch, made) = self.begin(tools, state, password, keep_failed)?;
        batch.let_go()?;
        made.keep()?;
        Ok(cluster)
    }

    /// Creates folders and servers and sets up the cluster; the caller decides whether they stay.
    fn begin(
        self,
        tools: &Tools<'_>,
        mut state: ClusterState,
        password: &str,
        keep_failed: bool,
    ) -> Result<(Cluster, StartedServers, FileGuard)> {
        check_vacant(&self.folder, &self.nodes)?;
        ports::check_free(&self.all_ports())?;
        let mut made = FileGuard::default();
        made.folder(&tools.ledger, &self.folder)?;
        let lock = Lock::take(&self.folder)?;
        for path in needed(&self.nodes) {
            made.folder(&tools.ledger, &path)?;
        }
        state.made.clone_from(&made.paths);
        state.begin_in(&self.folder)?;
        let own_key = state.topology.auth.as_ref().is_some_and(|auth| auth.key_file.is_none());
        let key = servers::key_file(&state.topology, &self.folder);
        if let Some(path) = key.filter(|_| own_key)
            && servers::make_key_file(&path)?
        {
            state.made.push(path);
        }
        let ClusterPlan { folder, nodes, servers, .. } = self;
        let mut cluster = Cluster { folder, nodes, state, is_mlaunch: false, _lock: Some(lock) };
        cluster.write()?;
        let mut batch = StartedServers::default();
        if let Err(error) = cluster.bring_up(tools, &servers, password, &mut batch) {
            // Processes end before their folders are removed.
            drop(batch);
            if keep_failed {
                cluster.state.servers.iter_mut().for_each(|server| server.process = None);
                cluster.write()?;
                made.keep()?;
            } else {
                cluster.forget_files();
            }
            return Err(error);
        }
        Ok((cluster, batch, made))
    }

    /// Handles an existing cluster: the same one is started and completed, a different one is left untouched.
    fn take_up(
        self,
        tools: &Tools<'_>,
        state: ClusterState,
        topology: &Topology,
        password: &str,
    ) -> Result<Cluster> {
        if state.topology != *topology {
            let what = format!("a different cluster exists at {}", self.folder.display());
            return Err(Error::new(Kind::NotOurs, what)
                .with_id("other-cluster")
                .advise("choose another --dir, or remove that one with 'fathom cluster destroy'"));
        }
        let lock = Lock::take(&self.folder)?;
        let ClusterPlan { folder, nodes, servers, .. } = self;
        let mut cluster = Cluster { folder, nodes, state, is_mlaunch: false, _lock: Some(lock) };
        let running = cluster.live(false)?.iter().filter(|one| one.runs).count();
        if running > 0 {
            let count = cluster.nodes.len();
            let how = if cluster.is_unfinished() { ", and its creation was interrupted" } else { "" };
            let what = format!(
                "{running} of the {count} servers of the cluster in {} run{how}",
                cluster.folder.display()
            );
            let advice = if cluster.is_unfinished() {
                "remove it with 'fathom cluster destroy', or stop them with 'fathom cluster stop' and do this again"
            } else {
                "start the others with 'fathom cluster start'"
            };
            return Err(Error::new(Kind::Busy, what).with_id("cluster-running").advise(advice));
        }
        let places: Vec<usize> = (0..cluster.nodes.len()).collect();
        cluster.check_ports(&places)?;
        let before = cluster.state.clone();
        let mut batch = StartedServers::default();
        if let Err(error) = cluster.bring_up(tools, &servers, password, &mut batch) {
            drop(batch);
            cluster.state = before;
            cluster.write()?;
            return Err(error);
        }
        batch.let_go()?;
        Ok(cluster)
    }

    fn all_ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.nodes.iter().flat_map(|node| [node.port, node.own_port]).collect();
        ports.dedup();
        ports
    }
}

/// A cluster that is removed on drop, processes before folders.
#[derive(Debug)]
pub struct HeldCluster {
    // Dropped in this order: processes before folders.
    cluster: Cluster,
    batch: StartedServers,
    made: FileGuard,
}

impl HeldCluster {
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Ends the cluster now, removes what was created for it, and reports failures.
    pub fn end(self, tools: &Tools<'_>) -> Result<()> {
        let HeldCluster { cluster, batch, made } = self;
        let ended = cluster.destroy(tools);
        drop(batch);
        drop(made);
        ended.map(drop)
    }
}

impl Cluster {
    /// Starts and sets up everything.
    fn bring_up(
        &mut self,
        tools: &Tools<'_>,
        servers: &[ServerState],
        password: &str,
        batch: &mut StartedServers,
    ) -> Result<()> {
        let until = Instant::now() + tools.timeout;
        let of = |wanted: fn(&Node) -> bool| -> Vec<usize> {
            self.nodes.iter().enumerate().filter(|(_, node)| wanted(node)).map(|(at, _)| at).collect()
        };
        let is_new = self.is_unfinished();
        let mongods = of(Node::is_mongod);
        let routers =
            of(if is_new { |node| !node.is_mongod() } else { |node| !node.is_mongod() && !node.temporary });
        self.start_round(tools, &mongods, Some(servers), batch)?;
        self.await_answers(tools, &mongods, until, batch)?;
        let (versions, contact) = (self.versions(), self.contact()?);
        self.setup(tools, &versions, &contact, until).sets()?;
        if !routers.is_empty() {
            self.start_round(tools, &routers, Some(servers), batch)?;
            self.await_answers(tools, &routers, until, batch)?;
        }
        if is_new {
            let setup = self.setup(tools, &versions, &contact, until);
            setup.shards()?;
            if let Some(auth) = &self.state.topology.auth {
                setup.users(auth, password)?;
            }
            setup.collections()?;
            self.state.phase = CreationPhase::Made;
        }
        let temporary: Vec<usize> =
            routers.into_iter().filter(|at| self.nodes.get(*at).is_some_and(|node| node.temporary)).collect();
        if !temporary.is_empty() {
            self.stop(tools, &temporary, super::StopOptions::with(Signal::TERM))?;
        }
        self.write()
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|cause| Error::io("find", path, cause))
}

/// Checks that a host name of another machine is combined with servers that listen on it.
fn check_host(topology: &Topology) -> Result<()> {
    let host = topology.host.as_str();
    let is_loopback = host == "localhost" || host.starts_with("127.") || host == "::1";
    let has_bind = topology.pass_through.iter().any(|word| word.starts_with("--bind_ip"));
    if is_loopback || has_bind || topology.sets().is_empty() {
        return Ok(());
    }
    let what = format!("'{host}' is not a loopback address, and the servers listen on the loopback only");
    Err(Error::usage(what).advise("add --bind_ip_all, or --bind_ip with the addresses to listen on"))
}

/// Created folders, which are removed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct FileGuard {
    guards: Vec<Guard>,
    /// Each folder that was created, outer ones first, without symbolic links.
    paths: Vec<PathBuf>,
}

impl FileGuard {
    /// Creates a folder and its missing parents; the topmost new one is removed with everything in it.
    pub(super) fn folder(&mut self, ledger: &Ledger, path: &Path) -> Result<()> {
        let mut missing: Vec<PathBuf> =
            path.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
        missing.reverse();
        let Some(topmost) = missing.first() else { return Ok(()) };
        self.guards.push(ledger.create_tree(topmost)?.guard());
        fs::create_dir_all(path).map_err(|cause| Error::io("create", path, cause))?;
        for path in missing {
            self.paths.push(path.canonicalize().map_err(|cause| Error::io("find", &path, cause))?);
        }
        Ok(())
    }

    /// Keeps the folders on drop.
    pub(super) fn keep(self) -> Result<()> {
        self.guards.into_iter().try_for_each(Guard::keep)
    }
}

/// Refuses what would be taken for the cluster's own and removed with it: a non-empty folder at the path of a server's data, such as an
/// earlier cluster's whose state is lost, and a file at the path of one that a server or the proxy writes.
pub(super) fn check_vacant(folder: &Path, nodes: &[Node]) -> Result<()> {
    let refuse = |path: &Path, how: &str| {
        let what = format!("{} {how}, and belongs to no cluster that {STATE_FILE} knows of", path.display());
        Err(Error::new(Kind::NotOurs, what)
            .with_id("directory-not-ours")
            .advise("choose another --dir, or move it elsewhere"))
    };
    for path in nodes.iter().filter_map(|node| node.db_path.as_deref()) {
        let is_vacant = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => true,
            Err(cause) => return Err(Error::io("look into", path, cause)),
        };
        if !is_vacant {
            return refuse(path, "holds data");
        }
    }
    let mut files = nodes.iter().flat_map(server_files).chain(proxy_files(folder));
    files.find(|path| path.symlink_metadata().is_ok()).map_or(Ok(()), |path| refuse(&path, "exists"))
}

/// The folders that a cluster needs.
pub(super) fn needed(nodes: &[Node]) -> Vec<PathBuf> {
    let logs = nodes.iter().filter_map(|node| node.log_path.parent().map(Path::to_owned));
    logs.chain(nodes.iter().filter_map(|node| node.db_path.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{ClusterShape, ReplicaSet};

    #[test]
    fn another_name_needs_other_addresses() {
        let set = ClusterShape::ReplicaSet(ReplicaSet::plain("rs", 1, 0));
        let mut topology = Topology { shape: set, host: "db1.example.net".to_owned(), ..Topology::default() };
        assert_eq!(check_host(&topology).unwrap_err().kind(), Kind::Usage);
        topology.pass_through.push("--bind_ip_all".to_owned());
        check_host(&topology).unwrap();
        topology = Topology { host: "127.0.0.1".to_owned(), ..Topology::default() };
        check_host(&topology).unwrap();
    }
}
