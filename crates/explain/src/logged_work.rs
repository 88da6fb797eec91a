//! Sums up the slow operations that ended in an incident of a recording, by their action and their collection.

use std::collections::BTreeMap;

use fathom_record::SlowOperation;

use crate::held_lock::{is_lock_holder, waited_for_lock};
use crate::logged_operations::namespace_of;
use crate::work_users::{WorkAction, WorkUser};

/// The runs of a command that are kept with their times.
const MAX_RUNS: usize = 100;
/// The most users that are counted in one incident.
const MAX_USERS: usize = 1000;

/// The slow operations of one user in one incident.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoggedUse {
    pub(crate) user: WorkUser,
    /// The command's name, as the log has it.
    pub(crate) operation: String,
    pub(crate) count: u64,
    pub(crate) time_s: f64,
    /// Their waits for locks.
    pub(crate) lock_wait_s: f64,
    pub(crate) documents_examined: u64,
    /// The lengths of runs that held a lock, in milliseconds. Runs that waited for one are left out.
    pub(crate) held_ms: Vec<u64>,
}

/// The slow operations of each incident of a recording, in the order of its incidents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedWork {
    by_incident: Vec<BTreeMap<WorkUser, LoggedUse>>,
}

impl LoggedWork {
    /// No operation for so many incidents.
    pub(crate) fn new(incidents: usize) -> LoggedWork {
        LoggedWork { by_incident: vec![BTreeMap::new(); incidents] }
    }

    /// Adds an operation to the incident with this number.
    pub(crate) fn add(&mut self, incident: usize, operation: &SlowOperation) {
        let Some(uses) = self.by_incident.get_mut(incident) else { return };
        let action = WorkAction::of(&operation.operation, operation.plan.as_deref());
        let user = WorkUser { action, namespace: namespace_of(operation) };
        if uses.len() >= MAX_USERS && !uses.contains_key(&user) {
            return;
        }
        let one = uses.entry(user).or_insert_with_key(|user| LoggedUse {
            user: user.clone(),
            operation: operation.operation.clone(),
            count: 0,
            time_s: 0.0,
            lock_wait_s: 0.0,
            documents_examined: 0,
            held_ms: Vec::new(),
        });
        one.count += 1;
        one.time_s += operation.duration_ms as f64 / 1e3;
        one.lock_wait_s += operation.lock_wait_us.unwrap_or(0) as f64 / 1e6;
        let examined = operation.documents_examined.unwrap_or(0);
        one.documents_examined = one.documents_examined.saturating_add(examined);
        let holds = is_lock_holder(&operation.operation) && !waited_for_lock(operation);
        if holds && one.held_ms.len() < MAX_RUNS {
            one.held_ms.push(operation.duration_ms);
        }
    }

    /// The users of an incident, those with the longest time first.
    pub(crate) fn of_incident(&self, incident: usize) -> Vec<&LoggedUse> {
        let uses = self.by_incident.get(incident);
        let mut uses: Vec<&LoggedUse> = uses.into_iter().flat_map(BTreeMap::values).collect();
        uses.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
        uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(operation: &str, plan: Option<&str>, duration_ms: u64, lock_wait_us: u64) -> SlowOperation {
        SlowOperation {
            namespace: "a.$cmd".to_owned(),
            operation: operation.to_owned(),
            plan: plan.map(str::to_owned),
            duration_ms,
            lock_wait_us: Some(lock_wait_us),
            line: format!("command a.$cmd command: {operation} {{ {operation}: \"t\" }}"),
            ..SlowOperation::default()
        }
    }

    #[test]
    fn operations_of_one_action_and_collection_are_one_user() {
        let mut work = LoggedWork::new(2);
        for operation in [
            slow("find", Some("COLLSCAN"), 200, 0),
            slow("aggregate", Some("COLLSCAN"), 300, 0),
            slow("find", Some("IDHACK"), 100, 90_000),
            slow("createIndexes", None, 400, 0),
            slow("createIndexes", None, 400, 390_000),
        ] {
            work.add(1, &operation);
        }
        work.add(2, &slow("find", None, 1, 0));
        assert_eq!(work.of_incident(0), Vec::<&LoggedUse>::new());
        let found: Vec<(String, u64, Vec<u64>)> = work
            .of_incident(1)
            .into_iter()
            .map(|one| (one.user.words(), one.count, one.held_ms.clone()))
            .collect();
        let expected = [
            ("index builds on a.t".to_owned(), 2, vec![400]),
            ("scans of a.t without an index".to_owned(), 2, vec![]),
            ("queries of a.t".to_owned(), 1, vec![]),
        ];
        assert_eq!(found, expected);
    }
}
