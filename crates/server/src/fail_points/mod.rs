//! Failures on demand, for the tests of drivers (`configureFailPoint` with `enableTestCommands=1`).
//!
//! There is one fail point, `failCommand`; any other name is refused. While none is set, a command costs one look at a flag.

mod fail_command;
mod mode;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};
use parking_lot::Mutex;

use crate::Result;
use crate::commands::Reply;
use crate::config::Config;
use crate::dispatch::{CLOSE_CONNECTION, Request};
use crate::operation::Operation;
use fail_command::FailCommand;
use mode::Mode;

pub(crate) use fail_command::Injected;

/// How long a blocked command sleeps between two looks at whether it is to stop.
const NAP: Duration = Duration::from_millis(10);

/// The fail points that are set.
#[derive(Debug)]
pub(crate) struct FailPoints {
    /// Whether the server was started for tests at all.
    allowed: bool,
    set: AtomicBool,
    fail_command: Mutex<Option<FailPoint>>,
}

#[derive(Debug)]
struct FailPoint {
    mode: Mode,
    data: FailCommand,
    /// How often it struck.
    count: i64,
}

impl FailPoints {
    /// None set, as a server starts.
    pub(crate) fn new(config: &Config) -> FailPoints {
        let given = config.set_parameters.get("enableTestCommands").map(|text| text.trim());
        FailPoints {
            allowed: matches!(given, Some("1" | "true")),
            set: AtomicBool::new(false),
            fail_command: Mutex::new(None),
        }
    }

    /// Whether the server was started with `enableTestCommands=1`.
    pub(crate) fn are_allowed(&self) -> bool {
        self.allowed
    }

    /// Sets a fail point; how often it struck before.
    pub(crate) fn configure(&self, name: &str, mode: RawBsonRef<'_>, data: &RawDocument) -> Result<i64> {
        if name != "failCommand" {
            let what = format!("fail point not found: {name} not found; this server has failCommand only");
            return Err(Failure::new(Code::FailPointSetFailed, what));
        }
        let mode = Mode::parse(mode)?;
        let data = FailCommand::parse(data)?;
        let mut held = self.fail_command.lock();
        let count = held.as_ref().map_or(0, |one| one.count);
        self.set.store(mode != Mode::Off, Ordering::Relaxed);
        *held = Some(FailPoint { mode, data, count });
        Ok(count)
    }

    /// Fails, waits or closes the connection as the fail points say, before a command runs.
    #[inline]
    pub(crate) fn before(&self, op: &Operation<'_>, request: &Request<'_>) -> Result<Option<Injected>> {
        if self.set.load(Ordering::Relaxed) { self.strike(op, request) } else { Ok(None) }
    }

    #[cold]
    fn strike(&self, op: &Operation<'_>, request: &Request<'_>) -> Result<Option<Injected>> {
        if request.command.name == "configureFailPoint" {
            return Ok(None);
        }
        let data = {
            let mut held = self.fail_command.lock();
            let Some(point) = held.as_mut() else { return Ok(None) };
            if !point.data.concerns(op, request) || !point.mode.strikes() {
                return Ok(None);
            }
            point.count += 1;
            if point.mode == Mode::Off {
                self.set.store(false, Ordering::Relaxed);
            }
            point.data.clone()
        };
        if let Some(block) = data.block {
            wait(op, block)?;
        }
        if data.close_connection {
            let what = "Failing command via 'failCommand' failpoint";
            return Err(Failure::new(Code::HostUnreachable, what).labelled(CLOSE_CONNECTION));
        }
        match data.failure() {
            Some(failure) => Err(failure),
            None => Ok(data.injected()),
        }
    }
}

fn wait(op: &Operation<'_>, block: Duration) -> Result<()> {
    let until = std::time::Instant::now() + block;
    loop {
        op.check_interrupt()?;
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(NAP));
    }
}

impl Injected {
    /// Adds the write concern error that was asked for.
    pub(crate) fn after(&self, reply: &mut Reply<'_>) {
        reply.extend(&self.fields);
    }
}
