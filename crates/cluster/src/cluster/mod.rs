//! A cluster on this machine: opened from its folder, started, stopped, looked at, destroyed.
//!
//! One call at a time works on a cluster. Every process that it starts belongs to the ledger until all is well, so that whatever
//! goes wrong, also a signal or a kill, leaves none behind.

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

pub use make::{HeldCluster, Wish};
pub use start::Overrides;
pub use stop::Stopping;

use crate::contact::Contact;
use crate::launch::Launcher;
use crate::layout::{Node, layout};
use crate::mlaunch::MLAUNCH_FILE;
use crate::server_process::{Mark, is_paused};
use crate::set_config::connection_string;
use crate::state::{Lock, Phase, Server, State};
use crate::tags::{Live, Selection};
use crate::topology::{ReplicaSet, Topology};

/// What work on clusters needs of this process.
pub struct Tools<'a> {
    /// Where things are written down before they are made.
    pub ledger: Ledger,
    /// How this program is called to become a server.
    pub launcher: Launcher,
    /// The signals that this process gets.
    pub signals: Signals,
    /// How long servers may take to be ready, or to stop.
    pub timeout: Duration,
    /// Who hears how far it has come.
    pub tell: &'a (dyn Fn(&str) + Sync),
}

impl fmt::Debug for Tools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// A cluster that is there, with nobody else at work on it.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
    state: State,
    /// Whether mlaunch made it: then its processes are found by their command lines.
    is_mlaunch: bool,
    _lock: Option<Lock>,
}

impl Cluster {
    /// Opens the cluster in a folder for work on it, with nobody else at work. `own` is this program, of which the built-in servers
    /// are made.
    pub fn open(folder: &Path, own: &Path) -> Result<Cluster> {
        Cluster::read(folder, own, true)
    }

    /// Opens the cluster in a folder to look at it, whoever is at work on it.
    pub fn look(folder: &Path, own: &Path) -> Result<Cluster> {
        Cluster::read(folder, own, false)
    }

    fn read(folder: &Path, own: &Path, for_work: bool) -> Result<Cluster> {
        let none = || {
            let what = format!("there is no cluster in {}", folder.display());
            Error::new(Kind::NotFound, what)
                .advise("make one with 'fathom cluster init', or name its folder with --dir")
        };
        let folder = folder.canonicalize().map_err(|_| none())?;
        let lock = for_work.then(|| Lock::take(&folder)).transpose()?;
        let (state, is_mlaunch) = match State::read(&folder)? {
            Some(state) => (state, folder.join(MLAUNCH_FILE).exists()),
            None => (servers::imported(&folder, own)?.ok_or_else(none)?, true),
        };
        let nodes = layout(&state.topology, &folder)?;
        if nodes.len() != state.servers.len() {
            let what = format!("the state in {} does not fit its servers", folder.display());
            return Err(Error::new(Kind::Malformed, what));
        }
        Ok(Cluster { folder, nodes, state, is_mlaunch, _lock: lock })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it is.
    pub fn topology(&self) -> &Topology {
        &self.state.topology
    }

    /// Its servers, by port.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How its servers were started last, in the same order.
    pub fn servers(&self) -> &[Server] {
        &self.state.servers
    }

    /// Whether its making was broken off.
    pub fn is_unfinished(&self) -> bool {
        self.state.phase == Phase::Making
    }

    /// What clients connect with; empty without a router that stays.
    pub fn connection_string(&self) -> String {
        connection_string(&self.state.topology, &self.nodes)
    }

    /// The processes of its servers, those that run.
    pub fn processes(&self) -> Vec<Option<ProcessId>> {
        self.state.servers.iter().map(|server| self.process(server)).collect()
    }

    fn process(&self, server: &Server) -> Option<ProcessId> {
        let mark = Mark::of(&server.arguments);
        let recorded = server.process.filter(|id| mark.is_of(*id));
        recorded.or_else(|| self.is_mlaunch.then(|| mark.search()).flatten())
    }

    /// What its servers are now; with roles, those that run are asked.
    pub fn live(&self, with_roles: bool) -> Result<Vec<Live>> {
        let processes = self.processes();
        let mut live: Vec<Live> = processes
            .iter()
            .map(|id| Live { runs: id.is_some(), paused: id.is_some_and(is_paused), role: None })
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

    /// The places of the servers that are meant, among those that run (or do not).
    pub fn select(&self, selection: &Selection, running: bool) -> Result<Vec<usize>> {
        let live = self.live(selection.needs_roles())?;
        let mut chosen = selection.choose(&self.nodes, &live)?;
        chosen.retain(|at| live.get(*at).is_some_and(|one| one.runs == running));
        Ok(chosen)
    }

    /// The sets that have a majority of their voting members among the servers that run.
    fn capable_sets(&self, live: &[Live]) -> Vec<&ReplicaSet> {
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

    fn running_members(&self, set: &ReplicaSet, live: &[Live]) -> Vec<&Node> {
        let of_set = self.nodes.iter().zip(live).filter(|(node, _)| node.set.as_ref() == Some(&set.name));
        of_set.filter(|(_, live)| live.runs && !live.paused).map(|(node, _)| node).collect()
    }

    fn contact(&self) -> Result<Contact> {
        let key_file = self.key_file();
        // Without it we cannot log in, but hello needs nobody.
        Contact::new(&self.state.topology, key_file.as_deref().filter(|path| path.exists()))
    }

    fn key_file(&self) -> Option<PathBuf> {
        servers::key_file(&self.state.topology, &self.folder)
    }

    fn write(&self) -> Result<()> {
        self.state.write(&self.folder)
    }
}
