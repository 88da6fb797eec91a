//! How elections and step-downs of this member ended.

use fathom_query::Failure;
use fathom_replication::coordinator::ElectionOutcome;

/// How the last election and the last step-down of this member ended, for the commands that wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) elections: u64,
    pub(crate) election: Option<ElectionOutcome>,
    pub(crate) step_downs: u64,
    pub(crate) refused: Option<Failure>,
}
