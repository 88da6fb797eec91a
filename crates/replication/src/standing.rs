//! Whether the members of a set have done what a write waits for (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp:
//! haveNumNodesReachedOpTime, haveTaggedNodesReachedOpTime).
//!
//! It does not wait: the caller asks again whenever a member got further, and keeps the time of `wtimeout`.

use fathom_wire::{Code, Failure};

use crate::config::{Member, ReplicaSetConfig};
use crate::optime::OpTime;
use crate::write_concern::{Progress, Waits, WriteConcern};

/// What is known of a set when somebody asks whether a write concern is fulfilled.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The configuration.
    pub config: &'a ReplicaSetConfig,
    /// How far each member is, in the order of the configuration; for this one what it knows itself.
    pub progress: &'a [Progress],
    /// How far this member is.
    pub own: Progress,
    /// The newest entry that majority reads see here.
    pub majority_snapshot: OpTime,
}

impl WriteConcern {
    /// Whether members count by what is in their journal. `j` unset means the journal for `w: "majority"` where the configuration
    /// says so, else none.
    pub fn needs_journal(&self, config: &ReplicaSetConfig) -> bool {
        self.journal.unwrap_or(self.waits == Waits::Majority && config.majority_journals)
    }

    /// Whether all members together could fulfil it: UnsatisfiableWriteConcern (100; named CannotSatisfyWriteConcern before 4.2) if
    /// not, UnknownReplWriteConcern (79) for a mode that there is not.
    pub fn check_satisfiable(&self, config: &ReplicaSetConfig) -> Result<(), Failure> {
        match &self.waits {
            // A majority of the members with data can always be reached some day.
            Waits::Majority => Ok(()),
            Waits::Members(count) => {
                let data = config.members.iter().filter(|member| member.holds_data()).count();
                if usize::try_from(*count).is_ok_and(|count| count <= data) {
                    return Ok(());
                }
                Err(Failure::new(Code::UnsatisfiableWriteConcern, "Not enough data-bearing nodes"))
            }
            Waits::Mode(mode) => {
                if config.mode(mode)?.is_matched_by(config.members.iter()) {
                    return Ok(());
                }
                let what = format!("Not enough nodes match write concern mode \"{mode}\"");
                Err(Failure::new(Code::UnsatisfiableWriteConcern, what))
            }
        }
    }

    /// Whether it is fulfilled for the entry at `optime`, which this member wrote in the present term. UnknownReplWriteConcern where
    /// the configuration has lost the mode.
    pub fn is_satisfied(&self, optime: OpTime, standing: &Standing<'_>) -> Result<bool, Failure> {
        let journal = self.needs_journal(standing.config);
        match &self.waits {
            Waits::Members(count) => {
                // What others have, and we have not, fulfils nothing.
                if at(&standing.own, journal) < optime {
                    return Ok(false);
                }
                let members = standing.having(optime, journal).filter(|member| member.holds_data()).count();
                Ok(usize::try_from(*count).is_ok_and(|count| count <= members))
            }
            Waits::Majority => {
                if standing.majority_snapshot < optime {
                    return Ok(false);
                }
                let voters = standing
                    .having(optime, journal)
                    .filter(|member| member.is_voter() && member.holds_data())
                    .count();
                Ok(voters >= standing.config.write_majority())
            }
            Waits::Mode(mode) => {
                let pattern = standing.config.mode(mode)?;
                Ok(pattern.is_matched_by(standing.having(optime, journal)))
            }
        }
    }
}

impl<'a> Standing<'a> {
    /// The members that have an entry of the present term. One that is in another term may hold another history, whatever its time.
    pub(crate) fn having(&self, optime: OpTime, journal: bool) -> impl Iterator<Item = &'a Member> {
        self.config.members.iter().zip(self.progress).filter_map(move |(member, progress)| {
            let reached = at(progress, journal);
            (reached.term == optime.term && reached.timestamp >= optime.timestamp).then_some(member)
        })
    }
}

fn at(progress: &Progress, journal: bool) -> OpTime {
    if journal { progress.durable } else { progress.applied }
}
