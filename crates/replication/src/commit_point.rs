//! The commit point: the newest entry that no later primary can lack (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp,
//! updateLastCommittedOpTime).
//! MongoDB sorts the optimes of all voters. This function counts only those of the primary's own term: a voter in a later term may
//! hold another history, and one in an earlier term has no entry that the primary wrote. Whenever MongoDB advances, this function
//! advances to the same entry.

use crate::config::ReplicaSetConfig;
use crate::optime::OpTime;
use crate::write_concern::Progress;

/// The newest entry of `term` that a majority of the data-bearing voters has, journaled or applied as the configuration says;
/// `None` if a majority has no entry of that term. `progress` is in the order of the configuration.
pub fn majority_optime(config: &ReplicaSetConfig, progress: &[Progress], term: i64) -> Option<OpTime> {
    let mut reached: Vec<u64> = config
        .members
        .iter()
        .zip(progress)
        .filter(|(member, _)| member.is_voter() && member.holds_data())
        .map(|(_, progress)| if config.majority_journals { progress.durable } else { progress.applied })
        .filter(|optime| optime.term == term && !optime.is_null())
        .map(|optime| optime.timestamp)
        .collect();
    reached.sort_unstable_by(|a, b| b.cmp(a));
    let needed = config.write_majority();
    let timestamp = *reached.get(needed.checked_sub(1)?)?;
    Some(OpTime::new(timestamp, term))
}
