//! Moves the point up to which the oplog may be read, and tells the coordinator how far this member is.
//!
//! As in mongod 4.0 the point follows a sync of the journal: whoever follows this oplog never has an entry that this member could
//! lose in a crash (server.md, 4.1). The price is the real one: with somebody following, each round costs a sync, `j: true` or
//! not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::set::ReplicaSet;
use crate::instance::Instance;

/// How often it looks whether the server stops.
const LOOK: Duration = Duration::from_millis(200);

/// Runs until the server stops.
pub(super) fn run(instance: &Arc<Instance>) {
    let Some(set) = &instance.set else { return };
    let mut published = set.oplog().visible();
    while !instance.is_stopping() {
        let settled = set.oplog().clock().wait_settled(published, Instant::now() + LOOK);
        // A rollback goes behind what was published, and tells the coordinator itself.
        if settled < published {
            published = settled;
        }
        if settled > published {
            if let Err(error) = publish(instance, set, settled) {
                instance.die("the journal could not be synced", &error);
                return;
            }
            published = settled;
        }
    }
}

fn publish(instance: &Instance, set: &ReplicaSet, settled: u64) -> Result<(), fathom_errors::Error> {
    let at = set.oplog().optime_of(settled);
    set.tell(|coordinator, now| coordinator.applied_advanced(now, at));
    if instance.config.storage.journal {
        instance.journal.wait_until_durable()?;
    }
    // A rollback may have cut the log meanwhile.
    if set.oplog().clock().settled() >= settled {
        set.oplog().publish(settled);
        set.tell(|coordinator, now| coordinator.durable_advanced(now, at));
    }
    Ok(())
}
