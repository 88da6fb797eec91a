//! Signals to servers, and waiting until they have ended.

use fathom_errors::{Error, Kind, Result};
use fathom_process::ProcessId;
use rustix::process::Signal;

use super::{Cluster, Tools};
use crate::groups;
use crate::layout::Node;
use crate::server_process::{is_final, is_paused, wait_until_ended};

/// How servers are stopped.
#[derive(Clone, Copy, Debug)]
pub struct Stopping {
    /// The signal.
    pub signal: Signal,
    /// Whether it is waited until they have ended.
    pub wait: bool,
}

impl Stopping {
    /// With a signal, waiting if that is to end them.
    pub fn with(signal: Signal) -> Stopping {
        Stopping { signal, wait: is_final(signal) }
    }
}

impl Cluster {
    /// Sends a signal to servers and waits, if wished, until they have ended: routers first, so that they see no shard go. Tells how
    /// many got it.
    pub fn stop(&mut self, tools: &Tools<'_>, places: &[usize], how: Stopping) -> Result<usize> {
        let processes = self.processes();
        let (routers, mongods): (Vec<usize>, Vec<usize>) =
            places.iter().copied().partition(|at| self.nodes.get(*at).is_some_and(|node| !node.is_mongod()));
        let mut sent = 0;
        for round in [routers, mongods].into_iter().filter(|round| !round.is_empty()) {
            let ids: Vec<(usize, ProcessId)> =
                round.into_iter().filter_map(|at| Some((at, (*processes.get(at)?)?))).collect();
            for (_, id) in &ids {
                sent += usize::from(id.signal(how.signal)?);
                // One that is paused would not hear of it.
                if is_final(how.signal) && is_paused(*id) {
                    id.signal(Signal::CONT)?;
                }
            }
            if how.wait {
                let all = ids.iter().map(|(_, id)| *id).collect();
                self.await_end(tools, &ids, wait_until_ended(all, tools.timeout, &tools.signals))?;
            }
        }
        self.note_ended(tools)?;
        Ok(sent)
    }

    /// Stops servers in their tracks, or lets them go on (SIGSTOP, SIGCONT).
    pub fn pause(&self, places: &[usize], pause: bool) -> Result<usize> {
        let processes = self.processes();
        let signal = if pause { Signal::STOP } else { Signal::CONT };
        let ids = places.iter().filter_map(|at| *processes.get(*at)?);
        let mut changed = 0;
        for id in ids.filter(|id| is_paused(*id) != pause) {
            changed += usize::from(id.signal(signal)?);
        }
        Ok(changed)
    }

    fn await_end(&self, tools: &Tools<'_>, ids: &[(usize, ProcessId)], left: Vec<ProcessId>) -> Result<()> {
        let late = ids
            .iter()
            .find(|(_, id)| left.contains(id))
            .and_then(|(at, id)| Some((self.nodes.get(*at)?, id)));
        let Some((node, id)) = late else { return Ok(()) };
        if tools.signals.stopped() {
            return Err(crate::wait::interrupted());
        }
        let (title, seconds) = (Node::title(node), tools.timeout.as_secs());
        let what = format!("{title} (process {}) has not ended within {seconds} s", id.pid);
        Err(Error::new(Kind::Busy, what)
            .advise("wait longer with --timeout, or use 'fathom cluster kill --signal KILL'"))
    }

    /// Takes processes that have ended out of the state, and their control groups off the machine.
    pub(super) fn note_ended(&mut self, tools: &Tools<'_>) -> Result<()> {
        let processes = self.processes();
        for (server, process) in self.state.servers.iter_mut().zip(&processes) {
            if process.is_none() {
                server.process = None;
                groups::remove(&tools.ledger, &server.groups)?;
                server.groups.clear();
            }
        }
        if processes.iter().all(Option::is_none) {
            self.stop_proxy()?;
        }
        // Of an environment of mlaunch nothing is written before we start something in it.
        if self.is_mlaunch && !self.folder.join(crate::state::STATE_FILE).exists() {
            return Ok(());
        }
        self.write()
    }
}
