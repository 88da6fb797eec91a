//! Starting servers: all at once, watched until each answers, and ended again if one does not.

use std::time::Instant;

use fathom_errors::{Error, Kind, Result};

use super::{Cluster, Tools, servers};
use crate::arguments::{Given, Maker};
use crate::groups::{self, Groups};
use crate::launch::{Launch, Started, last_words, launch};
use crate::layout::{Node, Purpose};
use crate::ports;
use crate::programs::{OWN, Programs};
use crate::setup::Setup;
use crate::state::Server;
use crate::version::Version;
use crate::wait::{Patience, interrupted};

/// What is different for one start only.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Further options for all servers that have them.
    pub pass_through: Vec<String>,
    /// Other binaries.
    pub binaries: Option<String>,
}

/// Servers that were started and are not let go yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    started: Vec<(usize, Started, Groups)>,
    proxy: Option<Started>,
}

impl Batch {
    /// Lets all of them run on without us.
    pub(super) fn let_go(self) -> Result<()> {
        for (_, started, groups) in self.started {
            started.let_go()?;
            groups.let_go()?;
        }
        self.proxy.map_or(Ok(()), Started::let_go)
    }
}

impl Cluster {
    /// Starts servers that are down, and waits until they answer and their sets have a primary. Without any place it is an error.
    pub fn start(&mut self, tools: &Tools<'_>, places: &[usize], overrides: &Overrides) -> Result<()> {
        if places.is_empty() {
            return Err(Error::new(Kind::NotFound, "no server that is down is meant")
                .advise("see 'fathom cluster list'"));
        }
        self.check_ports(places)?;
        let before = self.state.clone();
        let as_started = self.overridden(tools, overrides)?;
        let mut batch = Batch::default();
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

    /// Starts mongods, then routers, and waits until each answers. The state is written as processes begin.
    pub(super) fn start_all(
        &mut self,
        tools: &Tools<'_>,
        places: &[usize],
        as_started: Option<&[Server]>,
        until: Instant,
        batch: &mut Batch,
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
        as_started: Option<&[Server]>,
        batch: &mut Batch,
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
            // Our own program may have moved or been replaced since.
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

    /// Waits until every server of the round answers; one that ends instead is told with its last words.
    pub(super) fn await_answers(
        &self,
        tools: &Tools<'_>,
        places: &[usize],
        until: Instant,
        batch: &mut Batch,
    ) -> Result<()> {
        let contact = self.contact()?;
        let mut waiting: Vec<usize> = places.to_vec();
        let mut ended = None;
        let first = waiting.first().and_then(|at| self.nodes.get(*at)).map(Node::title).unwrap_or_default();
        let patience = Patience { what: format!("{first} does not answer"), until, signals: &tools.signals };
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

    /// The servers as they are started this once, if anything is different.
    fn overridden(&self, tools: &Tools<'_>, overrides: &Overrides) -> Result<Option<Vec<Server>>> {
        let has_moved = self
            .state
            .servers
            .iter()
            .any(|server| server.maker == Maker::MongoDb && !self.is_mlaunch && !server.program.exists());
        if overrides.pass_through.is_empty() && overrides.binaries.is_none() && !has_moved {
            return Ok(None);
        }
        let mut topology = self.state.topology.clone();
        topology.pass_through = Given::over(&topology.pass_through, &overrides.pass_through)?;
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

    /// Refuses ports that somebody has.
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
    ) -> Setup<'a> {
        let (topology, nodes) = (&self.state.topology, self.nodes.as_slice());
        Setup { topology, nodes, versions, contact, until, signals: &tools.signals }
    }
}
