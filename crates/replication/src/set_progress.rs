//! Decides whether a write concern is satisfied by the progress of a set's members
//! (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp: haveNumNodesReachedOpTime, haveTaggedNodesReachedOpTime).
//!
//! It does not wait: the caller asks again whenever a member progresses, and enforces `wtimeout`.

use fathom_wire::{Code, Failure};

use crate::config::{Member, ReplicaSetConfig};
use crate::optime::OpTime;
use crate::write_concern::{Progress, Waits, WriteConcern};

/// The progress of a set, against which write concerns are checked.
#[derive(Clone, Copy, Debug)]
pub struct SetProgress<'a> {
    pub config: &'a ReplicaSetConfig,
    /// The progress of each member, in the order of the configuration; for this member, what it knows itself.
    pub progress: &'a [Progress],
    /// The progress of this member.
    pub own: Progress,
    /// The newest entry that majority reads see here.
    pub majority_snapshot: OpTime,
}

impl WriteConcern {
    /// Whether members count by their journaled entries. If `j` is unset, they do so only for `w: "majority"`, and only if the
    /// configuration says so.
    pub fn needs_journal(&self, config: &ReplicaSetConfig) -> bool {
        self.journal.unwrap_or(self.waits == Waits::Majority && config.majority_journals)
    }

    /// Whether all members together could satisfy it. Fails with UnsatisfiableWriteConcern (100; named CannotSatisfyWriteConcern
    /// before 4.2) if not, with UnknownReplWriteConcern (79) for an unknown mode.
    pub fn check_satisfiable(&self, config: &ReplicaSetConfig) -> Result<(), Failure> {
        match &self.waits {
            // A majority of the data-bearing members can always be reached eventually.
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

    /// Whether it is satisfied for the entry at `optime`, which this member wrote in the current term. Fails with
    /// UnknownReplWriteConcern if the configuration no longer has the mode.
    pub fn is_satisfied(&self, optime: OpTime, standing: &SetProgress<'_>) -> Result<bool, Failure> {
        let journal = self.needs_journal(standing.config);
        match &self.waits {
            Waits::Members(count) => {
                // Without our own entry, the entries of others satisfy nothing.
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

impl<'a> SetProgress<'a> {
    /// The members that have an entry of the current term. A member in another term may hold another history, whatever its timestamps.
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
