//! Controls the proxy in front of a cluster's servers: starts it before them, stops it after them, and sets its cuts and delays.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use rustix::process::Signal;

use super::{Cluster, Tools};
use crate::launch::{Launch, ServerGuard, last_words, launch};
use crate::network::Rules;
use crate::ports;
use crate::server_process::Mark;
use crate::wait::WaitLimit;

/// The time limit for the proxy to become ready, and to stop.
const PROXY_TIMEOUT: Duration = Duration::from_secs(20);

impl Cluster {
    /// The network faults in force.
    pub fn rules(&self) -> Result<Rules> {
        Rules::read(&self.folder)
    }

    /// Changes the network faults; a cluster without proxies has none.
    pub fn set_rules(&self, rules: &Rules) -> Result<()> {
        if !self.state.topology.proxied {
            let what = "this cluster has no proxies, which alone can cut and delay";
            return Err(
                Error::new(Kind::Unsupported, what).advise("make it with 'fathom cluster init --proxied'")
            );
        }
        rules.write(&self.folder)
    }

    fn proxy_mark(&self) -> Mark {
        Mark::between(&["proxy", "--dir", &self.folder.to_string_lossy()])
    }

    /// Starts the proxy, if the cluster has one and it is not running.
    pub(super) fn start_proxy(&mut self, tools: &Tools<'_>) -> Result<Option<ServerGuard>> {
        let mark = self.proxy_mark();
        if !self.state.topology.proxied || self.state.proxy.is_some_and(|id| mark.is_of(id)) {
            return Ok(None);
        }
        let ports: Vec<u16> = self.nodes.iter().map(|node| node.port).collect();
        ports::check_free(&ports)?;
        let folder = self.folder.to_string_lossy().into_owned();
        let arguments: Vec<String> = ["cluster", "proxy", "--dir", &folder].map(str::to_owned).to_vec();
        let console = self.console();
        let with = Launch {
            program: &tools.launcher.program,
            arguments: &arguments,
            console: &console,
            groups: &[],
        };
        let mut started = launch(&tools.launcher, &tools.ledger, with)?;
        self.state.proxy = Some(started.id);
        let patience = WaitLimit {
            what: "the proxy is not ready".to_owned(),
            until: Instant::now() + PROXY_TIMEOUT,
            signals: &tools.signals,
        };
        let mut has_ended = false;
        patience.until(|| {
            has_ended = started.has_ended();
            let listening = ports::listening(&View::live());
            let missing = ports.iter().find(|port| !listening.contains_key(port)).filter(|_| !has_ended);
            missing.map_or(Ok(()), |port| {
                Err(Error::new(Kind::Busy, format!("no program listens on port {port}")))
            })
        })?;
        if has_ended {
            let words = last_words(&console, &console);
            return Err(Error::new(Kind::Unsupported, "the proxy ended at once").because(words));
        }
        Ok(Some(started))
    }

    /// Stops the proxy, if it is running.
    pub(super) fn stop_proxy(&mut self) -> Result<()> {
        let mark = self.proxy_mark();
        let Some(id) = self.state.proxy.take().filter(|id| mark.is_of(*id)) else { return Ok(()) };
        id.signal(Signal::TERM)?;
        let until = Instant::now() + PROXY_TIMEOUT;
        while id.lives() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn console(&self) -> PathBuf {
        console(&self.folder)
    }
}

fn console(folder: &Path) -> PathBuf {
    folder.join("proxy.console")
}

/// The files of a cluster's proxy.
pub(super) fn proxy_files(folder: &Path) -> [PathBuf; 2] {
    [console(folder), Rules::path(folder)]
}
