//! Starts servers: all at once, waits until each answers, and ends them again if one does not.

use std::time::Instant;

use fathom_errors::{Error, Kind, Result};

use super::{Cluster, Tools, servers};
use crate::arguments::{Maker, TypedOption};
use crate::groups::{self, ControlGroups};
use crate::launch::{Launch, ServerGuard, last_words, launch};
use crate::layout::{Node, Purpose};
use crate::ports;
use crate::programs::{OWN, Programs};
use crate::setup::ClusterSetup;
use crate::state::ServerState;
use crate::version::Version;
use crate::wait::{WaitLimit, interrupted};

/// The options that differ for this start only.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Further options for all servers that accept them.
    pub pass_through: Vec<String>,
    /// Binaries other than those of the first start.
    pub binaries: Option<String>,
}

/// Servers that were started and still belong to this process.
#[derive(Debug, Default)]
pub(super) struct StartedServers {
    started: Vec<(usize, ServerGuard, ControlGroups)>,
    proxy: Option<ServerGuard>,
}

impl StartedServers {
    /// Releases all of them, so that they outlive this process.
    pub(super) fn let_go(self) -> Result<()> {
        for (_, started, groups) in self.started {
            started.let_go()?;
            groups.let_go()?;
        }
        self.proxy.map_or(Ok(()), ServerGuard::let_go)
    }
}

impl Cluster {
    /// Starts stopped servers, and waits until they answer and their sets have a primary. An empty selection is an error.
    pub fn start(&mut self, tools: &Tools<'_>, places: &[usize], overrides: &Overrides) -> Result<()> {
        if places.is_empty() {
            return Err(Error::new(Kind::NotFound, "no server that is down matches")
                .advise("see 'fathom cluster list'"));
        }
        self.check_ports(places)?;
        let before = self.state.clone();
        let as_started = self.overridden(tools, overrides)?;
        let mut batch = StartedServers::default();
        let until = Instant::now() + tools.timeout;
        let result = self.start_all(tools, places, as_started.as_deref(), until, &mut batch).and_then(|()| {
            let live = self.live(false)?;
            let contact = self.contact()?;
            let versions = self.versions();
            let setup = self.setup(tools, &versions, &contact, until);
            let sets = self.capable_sets(&live).into_iter().filter(|_| !self.is_unfinished());
            let mut sets = sets.map(|set| (set, self.running_members(set, &live)));
            sets.try_for_each(|(set, members)| setup.settle(set, &members))
        });
        if let Err(error) = result {
            drop(batch);
            self.state = before;
            self.write()?;
            return Err(error);
        }
        batch.let_go()
    }

    /// Starts mongods, then routers, and waits until each answers. The state file records each process as it starts.
    pub(super) fn start_all(
        &mut self,
        tools: &Tools<'_>,
        places: &[usize],
        as_started: Option<&[ServerState]>,
        until: Instant,
        batch: &mut StartedServers,
    ) -> Result<()> {
        let is_router = |at: &usize| self.nodes.get(*at).is_some_and(|node| node.purpose == Purpose::Router);
        let (routers, mongods): (Vec<usize>, Vec<usize>) = places.iter().copied().partition(is_router);
        for round in [mongods, routers].into_iter().filter(|round| !round.is_empty()) {
            self.start_round(tools, &round, as_started, batch)?;
            self.await_answers(tools, &round, until, batch)?;
        }
        Ok(())
    }

    pub(super) fn start_round(
        &mut self,
        tools: &Tools<'_>,
        places: &[usize],
        as_started: Option<&[ServerState]>,
        batch: &mut StartedServers,
    ) -> Result<()> {
        if let Some(proxy) = self.start_proxy(tools)? {
            batch.proxy = Some(proxy);
        }
        for &at in places {
            if tools.signals.stopped() {
                return Err(interrupted());
            }
            let (Some(node), Some(server)) = (self.nodes.get(at), self.state.servers.get_mut(at)) else {
                continue;
            };
            let with = as_started.and_then(|servers| servers.get(at)).unwrap_or(server);
            // The built-in program may have moved or been replaced since.
            let program = if with.maker == Maker::Fathom { &tools.launcher.program } else { &with.program };
            let groups = groups::make(&tools.ledger, &node.options.limits, node.db_path.as_deref())?;
            let console = node.console_path();
            let launch_with =
                Launch { program, arguments: &with.arguments, console: &console, groups: &groups.folders };
            let started = launch(&tools.launcher, &tools.ledger, launch_with)?;
            server.process = Some(started.id);
            server.groups.clone_from(&groups.folders);
            batch.started.push((at, started, groups));
        }
        self.write()
    }

    /// Waits until every server of the round answers; an error quotes the last lines of one that ends instead.
    pub(super) fn await_answers(
        &self,
        tools: &Tools<'_>,
        places: &[usize],
        until: Instant,
        batch: &mut StartedServers,
    ) -> Result<()> {
        let contact = self.contact()?;
        let mut waiting: Vec<usize> = places.to_vec();
        let mut ended = None;
        let first = waiting.first().and_then(|at| self.nodes.get(*at)).map(Node::title).unwrap_or_default();
        let patience = WaitLimit { what: format!("{first} does not answer"), until, signals: &tools.signals };
        let result = patience.until(|| {
            for (at, started, _) in batch.started.iter_mut().filter(|(at, ..)| waiting.contains(at)) {
                if started.has_ended() {
                    ended = Some(*at);
                    return Ok(());
                }
            }
            let nodes: Vec<&Node> = waiting.iter().filter_map(|at| self.nodes.get(*at)).collect();
            let hellos = contact.hellos(&nodes);
            let mut hellos = hellos.iter();
            waiting.retain(|_| !hellos.next().is_some_and(Option::is_some));
            let late = waiting.first().and_then(|at| self.nodes.get(*at));
            late.map_or(Ok(()), |node| Err(Error::new(Kind::Busy, format!("{} is silent", node.title()))))
        });
        match ended.and_then(|at| self.nodes.get(at)) {
            Some(node) => {
                let words = last_words(&node.console_path(), &node.log_path);
                Err(Error::new(Kind::Unsupported, format!("{} ended at once", node.title())).because(words))
            }
            None => result,
        }
    }

    /// The command lines of this one start, if they differ from the recorded ones.
    fn overridden(&self, tools: &Tools<'_>, overrides: &Overrides) -> Result<Option<Vec<ServerState>>> {
        let has_moved = self
            .state
            .servers
            .iter()
            .any(|server| server.maker == Maker::MongoDb && !self.is_mlaunch && !server.program.exists());
        if overrides.pass_through.is_empty() && overrides.binaries.is_none() && !has_moved {
            return Ok(None);
        }
        let mut topology = self.state.topology.clone();
        topology.pass_through = TypedOption::over(&topology.pass_through, &overrides.pass_through)?;
        if let Some(binaries) = &overrides.binaries {
            topology.binaries = Some(binaries.clone());
        } else if self.state.servers.iter().all(|server| server.maker == Maker::Fathom) {
            topology.binaries = Some(OWN.to_owned());
        }
        let mut programs = Programs::new(tools.launcher.program.clone());
        programs.find(&self.nodes, topology.binaries.as_deref())?;
        let mut tell = |text: &str| (tools.tell)(text);
        servers::servers(&topology, &self.nodes, &programs, &self.folder, &mut tell).map(Some)
    }

    /// Refuses ports that are in use.
    pub(super) fn check_ports(&self, places: &[usize]) -> Result<()> {
        let nodes = places.iter().filter_map(|at| self.nodes.get(*at));
        let ports: Vec<u16> = nodes.map(|node| node.own_port).collect();
        ports::check_free(&ports)
    }

    pub(super) fn versions(&self) -> Vec<Version> {
        self.state.servers.iter().map(|server| server.version.unwrap_or(Version::release(4, 4))).collect()
    }

    pub(super) fn setup<'a>(
        &'a self,
        tools: &'a Tools<'_>,
        versions: &'a [Version],
        contact: &'a crate::contact::Contact,
        until: Instant,
    ) -> ClusterSetup<'a> {
        let (topology, nodes) = (&self.state.topology, self.nodes.as_slice());
        ClusterSetup { topology, nodes, versions, contact, until, signals: &tools.signals }
    }
}
