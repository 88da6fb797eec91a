//! Failures on demand, for the tests of drivers (`configureFailPoint` with `enableTestCommands=1`).

use crate::Result;
use crate::commands::Reply;
use crate::dispatch::Request;
use crate::operation::Operation;

/// The fail points that are set.
#[derive(Debug, Default)]
pub(crate) struct FailPoints {}

/// What a fail point adds to a reply that succeeded.
#[derive(Debug)]
pub(crate) struct Injected {}

impl FailPoints {
    /// Fails, waits or closes the connection as the fail points say, before a command runs.
    pub(crate) fn before(&self, _op: &Operation<'_>, _request: &Request<'_>) -> Result<Option<Injected>> {
        Ok(None)
    }
}

impl Injected {
    /// Adds the write concern error that was asked for.
    pub(crate) fn after(&self, _reply: &mut Reply<'_>) {}
}
