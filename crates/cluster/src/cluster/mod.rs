//! A cluster on this machine: opens it from its folder, starts, stops, inspects and destroys it.
//!
//! Only one call at a time works on a cluster. Every process that it starts belongs to the ledger until the start has succeeded, so
//! that no error, signal or kill leaves one behind.

mod collect;
mod faults;
mod make;
mod servers;
mod start;
mod stop;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Ledger, ProcessId, Signals};

pub use make::{ClusterPlan, HeldCluster};
pub use start::Overrides;
pub use stop::StopOptions;

use crate::contact::Contact;
use crate::launch::Launcher;
use crate::layout::{Node, layout};
use crate::mlaunch::MLAUNCH_FILE;
use crate::server_process::{Mark, is_paused};
use crate::set_config::{connection_string, connection_strings};
use crate::state::{ClusterState, CreationPhase, Lock, ServerState};
use crate::tags::{ServerCondition, TagSelection};
use crate::topology::{ReplicaSet, Topology};

/// The services of this process for work on clusters.
pub struct Tools<'a> {
    /// The record of things to create, written before they are created.
    pub ledger: Ledger,
    /// The way to start this program as a server.
    pub launcher: Launcher,
    /// The signals that this process receives.
    pub signals: Signals,
    /// The time limit for servers to become ready, or to stop.
    pub timeout: Duration,
    /// The receiver of progress messages.
    pub tell: &'a (dyn Fn(&str) + Sync),
}

impl fmt::Debug for Tools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// An existing cluster, locked for this process.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
    state: ClusterState,
    /// Whether mlaunch created it: then its processes are found by their command lines.
    is_mlaunch: bool,
    _lock: Option<Lock>,
}

impl Cluster {
    /// Opens the cluster in a folder for exclusive work on it. `own` is this program, which provides the built-in servers.
    pub fn open(folder: &Path, own: &Path) -> Result<Cluster> {
        Cluster::read(folder, own, true)
    }

    /// Opens the cluster in a folder for reading, even while another process has its lock.
    pub fn look(folder: &Path, own: &Path) -> Result<Cluster> {
        Cluster::read(folder, own, false)
    }

    fn read(folder: &Path, own: &Path, for_work: bool) -> Result<Cluster> {
        let none = || {
            let what = format!("there is no cluster in {}", folder.display());
            Error::new(Kind::NotFound, what)
                .with_id("no-cluster")
                .advise("make one with 'fathom cluster init', or name its folder with --dir")
        };
        let folder = folder.canonicalize().map_err(|_| none())?;
        let lock = for_work.then(|| Lock::take(&folder)).transpose()?;
        let (state, is_mlaunch) = match ClusterState::read(&folder)? {
            Some(state) => {
                let is_mlaunch = state.made_by_mlaunch;
                (state, is_mlaunch.unwrap_or_else(|| folder.join(MLAUNCH_FILE).exists()))
            }
            None => (servers::imported(&folder, own)?.ok_or_else(none)?, true),
        };
        let nodes = layout(&state.topology, &folder)?;
        if nodes.len() != state.servers.len() {
            let what = format!("the state in {} does not match its servers", folder.display());
            return Err(Error::new(Kind::Malformed, what));
        }
        Ok(Cluster { folder, nodes, state, is_mlaunch, _lock: lock })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn topology(&self) -> &Topology {
        &self.state.topology
    }

    /// Its servers, by port.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The last command lines of its servers, in the same order.
    pub fn servers(&self) -> &[ServerState] {
        &self.state.servers
    }

    /// Whether its creation was interrupted.
    pub fn is_unfinished(&self) -> bool {
        self.state.phase == CreationPhase::Making
    }

    /// The connection string for clients; empty without a permanent router.
    pub fn connection_string(&self) -> String {
        connection_string(&self.state.topology, &self.nodes)
    }

    /// The connection strings of the chosen servers, each of its own server alone; that of the cluster for all of them.
    pub fn connection_strings(&self, chosen: &[usize]) -> Vec<String> {
        connection_strings(&self.state.topology, &self.nodes, chosen)
    }

    /// The processes of its servers; `None` for one that is not running.
    pub fn processes(&self) -> Vec<Option<ProcessId>> {
        self.state.servers.iter().map(|server| self.process(server)).collect()
    }

    fn process(&self, server: &ServerState) -> Option<ProcessId> {
        let mark = Mark::new(&server.arguments);
        let recorded = server.process.filter(|id| mark.is_of(*id));
        recorded.or_else(|| self.is_mlaunch.then(|| mark.search()).flatten())
    }

    /// The current state of its servers; with roles, the running servers are asked for them.
    pub fn live(&self, with_roles: bool) -> Result<Vec<ServerCondition>> {
        let processes = self.processes();
        let mut live: Vec<ServerCondition> = processes
            .iter()
            .map(|id| ServerCondition { runs: id.is_some(), paused: id.is_some_and(is_paused), role: None })
            .collect();
        if with_roles {
            let contact = self.contact()?;
            let asked: Vec<usize> =
                (0..live.len()).filter(|at| live[*at].runs && !live[*at].paused).collect();
            let nodes: Vec<&Node> = asked.iter().filter_map(|at| self.nodes.get(*at)).collect();
            for (at, hello) in asked.into_iter().zip(contact.hellos(&nodes)) {
                if let Some(one) = live.get_mut(at) {
                    one.role = hello.map(|hello| hello.role);
                }
            }
        }
        Ok(live)
    }

    /// The indexes of the selected servers that run (or do not run).
    pub fn select(&self, selection: &TagSelection, running: bool) -> Result<Vec<usize>> {
        let live = self.live(selection.needs_roles())?;
        let mut chosen = selection.choose(&self.nodes, &live)?;
        chosen.retain(|at| live.get(*at).is_some_and(|one| one.runs == running));
        Ok(chosen)
    }

    /// The sets with a majority of their voting members among the running servers.
    fn capable_sets(&self, live: &[ServerCondition]) -> Vec<&ReplicaSet> {
        let runs = |port: u16| {
            self.nodes.iter().zip(live).any(|(node, live)| node.port == port && live.runs && !live.paused)
        };
        let is_capable = |set: &&ReplicaSet| {
            let members: Vec<_> =
                self.nodes.iter().filter(|node| node.set.as_ref() == Some(&set.name)).collect();
            let voters = || set.members.iter().zip(&members).filter(|(member, _)| member.votes != Some(0));
            let up = voters().filter(|(_, node)| runs(node.port)).count();
            2 * up > voters().count()
        };
        self.state.topology.sets().into_iter().filter(is_capable).collect()
    }

    fn running_members(&self, set: &ReplicaSet, live: &[ServerCondition]) -> Vec<&Node> {
        let of_set = self.nodes.iter().zip(live).filter(|(node, _)| node.set.as_ref() == Some(&set.name));
        of_set.filter(|(_, live)| live.runs && !live.paused).map(|(node, _)| node).collect()
    }

    fn contact(&self) -> Result<Contact> {
        let key_file = self.key_file();
        // Without the key file we cannot log in, but hello needs no user.
        Contact::new(&self.state.topology, key_file.as_deref().filter(|path| path.exists()))
    }

    fn key_file(&self) -> Option<PathBuf> {
        servers::key_file(&self.state.topology, &self.folder)
    }

    fn write(&self) -> Result<()> {
        self.state.write(&self.folder)
    }
}
