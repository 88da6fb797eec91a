//! Fail points, which cause failures on demand for the tests of drivers (`configureFailPoint` with `enableTestCommands=1`).
//!
//! The fail points are mongod's `failCommand`, `onPrimaryTransactionalWrite` and `hangAfterStartingIndexBuild`, and `holdTransaction`; any
//! other name is refused. While none is set, a command only checks one flag for each.
//!
//! Where mongod fails each statement, this server fails the command. `failBeforeCommitExceptionCode` is refused: `failCommand` with an
//! `errorCode` makes a write fail before it is executed.

mod fail_command;
mod hold_transaction;
mod point;

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::client::Client;
use crate::config::Config;
use crate::parse;
use crate::request::{CLOSE_CONNECTION, OperationClass, Reply, Request};

use fail_command::FailCommand;
pub(crate) use fail_command::ReplyAdditions;
use hold_transaction::HoldTransaction;
pub(crate) use hold_transaction::IdleTransactions;
use point::{FailPoint, FailPointMode};

/// The interval at which a blocked command checks whether it must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The fail points of a server.
#[derive(Debug)]
pub(crate) struct FailPoints {
    /// Whether the server was started for tests.
    allowed: bool,
    command: FailPoint<FailCommand>,
    write: FailPoint<TransactionalWrite>,
    index_build: FailPoint<()>,
    transaction: FailPoint<HoldTransaction>,
    idle_transactions: IdleTransactions,
}

impl FailPoints {
    /// All fail points off, as at a server's start.
    pub(crate) fn new(config: &Config) -> FailPoints {
        let given = config.set_parameters.get("enableTestCommands").map(|text| text.trim());
        FailPoints {
            allowed: matches!(given, Some("1" | "true")),
            command: FailPoint::default(),
            write: FailPoint::default(),
            index_build: FailPoint::default(),
            transaction: FailPoint::default(),
            idle_transactions: IdleTransactions::default(),
        }
    }

    /// Whether the server was started with `enableTestCommands=1`.
    pub(crate) fn are_allowed(&self) -> bool {
        self.allowed
    }

    /// Sets a fail point; returns how often it was triggered before.
    pub(crate) fn configure(&self, name: &str, mode: RawBsonRef<'_>, data: &RawDocument) -> Result<i64> {
        match name {
            "failCommand" => {
                Ok(self.command.configure(FailPointMode::parse(mode)?, FailCommand::parse(data)?))
            }
            "onPrimaryTransactionalWrite" => {
                Ok(self.write.configure(FailPointMode::parse(mode)?, TransactionalWrite::parse(data)?))
            }
            "hangAfterStartingIndexBuild" => Ok(self.index_build.configure(FailPointMode::parse(mode)?, ())),
            "holdTransaction" if matches!(mode, RawBsonRef::String("off")) => {
                Ok(self.transaction.switch_off())
            }
            "holdTransaction" => {
                Ok(self.transaction.configure(FailPointMode::parse(mode)?, HoldTransaction::parse(data)?))
            }
            _ => {
                let what = format!(
                    "fail point not found: {name} not found; this server has failCommand, hangAfterStartingIndexBuild, holdTransaction and onPrimaryTransactionalWrite only"
                );
                Err(Failure::new(Code::FailPointSetFailed, what))
            }
        }
    }

    /// Fails, delays or closes the connection as the fail points require, before a command runs.
    #[inline]
    pub(crate) fn before(
        &self,
        client: &Client,
        request: &Request<'_>,
        check_interrupt: impl Fn() -> Result<()>,
    ) -> Result<Option<ReplyAdditions>> {
        if self.command.is_set() { self.strike_command(client, request, check_interrupt) } else { Ok(None) }
    }

    /// Closes the connection of a retryable write after it was executed and before it is answered.
    #[inline]
    pub(crate) fn after_write(&self, request: &Request<'_>, wrote: bool) -> Result<()> {
        if self.write.is_set() { self.strike_write(request, wrote) } else { Ok(()) }
    }

    /// Holds an index build that has scanned the collection, until the fail point is off or the build must stop.
    #[inline]
    pub(crate) fn after_scan(&self, check_interrupt: impl Fn() -> Result<()>) -> Result<()> {
        while self.index_build.is_set() && self.index_build.strike(|()| true).is_some() {
            check_interrupt()?;
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(())
    }

    /// Holds a write before its commit, until the fail point is off or the write must stop.
    #[inline]
    pub(crate) fn before_commit(
        &self,
        client: &Client,
        check_interrupt: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if self.transaction.is_set() { self.strike_transaction(client, check_interrupt) } else { Ok(()) }
    }

    /// The transactions that the fail point holds open.
    pub(crate) fn idle_transactions(&self) -> &IdleTransactions {
        &self.idle_transactions
    }

    #[cold]
    fn strike_transaction(&self, client: &Client, check_interrupt: impl Fn() -> Result<()>) -> Result<()> {
        let mut held = None;
        while self.transaction.is_set() && self.transaction.strike(|data| data.concerns(client)).is_some() {
            held.get_or_insert_with(|| self.idle_transactions.begin(client));
            check_interrupt()?;
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(())
    }

    #[cold]
    fn strike_command(
        &self,
        client: &Client,
        request: &Request<'_>,
        check_interrupt: impl Fn() -> Result<()>,
    ) -> Result<Option<ReplyAdditions>> {
        if request.command.name == "configureFailPoint" {
            return Ok(None);
        }
        let Some(data) = self.command.strike(|data| data.concerns(client, request)) else { return Ok(None) };
        if let Some(block) = data.block {
            wait(block, check_interrupt)?;
        }
        if data.close_connection {
            return Err(closing("failCommand"));
        }
        match data.failure() {
            Some(failure) => Err(failure),
            None => Ok(data.injected()),
        }
    }

    #[cold]
    fn strike_write(&self, request: &Request<'_>, wrote: bool) -> Result<()> {
        let wrote =
            request.command.kind == OperationClass::Write && request.generic.transaction.is_some() && wrote;
        match self.write.strike(|_| wrote) {
            Some(data) if data.close_connection => Err(closing("onPrimaryTransactionalWrite")),
            _ => Ok(()),
        }
    }
}

/// The failure that closes the connection instead of sending a reply.
fn closing(name: &str) -> Failure {
    let what = format!("Failing command via '{name}' failpoint");
    Failure::new(Code::HostUnreachable, what).labelled(CLOSE_CONNECTION)
}

fn wait(block: Duration, check_interrupt: impl Fn() -> Result<()>) -> Result<()> {
    let until = std::time::Instant::now() + block;
    loop {
        check_interrupt()?;
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(CHECK_INTERVAL));
    }
}

impl ReplyAdditions {
    /// Adds the requested write concern error.
    pub(crate) fn after(&self, reply: &mut Reply<'_>) {
        reply.extend(&self.fields);
    }
}

/// `data` of `onPrimaryTransactionalWrite`: its effect on a retryable write that was executed but not yet answered
/// (mongodb/mongo@v4.0:src/mongo/db/session.cpp).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TransactionalWrite {
    close_connection: bool,
}

impl TransactionalWrite {
    /// Reads the data; an unknown field is refused.
    fn parse(data: &RawDocument) -> Result<TransactionalWrite> {
        let mut point = TransactionalWrite { close_connection: true };
        for element in data {
            let (name, value) = element.map_err(|error| parse::malformed(&error))?;
            match name.as_str() {
                "closeConnection" => point.close_connection = parse::truth_of(value),
                other => {
                    let what =
                        format!("the data of onPrimaryTransactionalWrite has an unknown field '{other}'");
                    return Err(Failure::new(Code::InvalidOptions, what));
                }
            }
        }
        Ok(point)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn it_closes_connections_unless_told_otherwise() {
        assert!(TransactionalWrite::parse(&rawdoc! {}).unwrap().close_connection);
        assert!(!TransactionalWrite::parse(&rawdoc! { "closeConnection": false }).unwrap().close_connection);
        let refused = TransactionalWrite::parse(&rawdoc! { "failBeforeCommitExceptionCode": 1 });
        assert_eq!(refused.unwrap_err().code(), Code::InvalidOptions);
    }
}
