//! How far this member is: said to those that read its oplog, to its coordinator, and to its sync source, the last together with how far those
//! are that follow it.
//!
//! As in mongod 4.0 the point up to which the oplog may be read follows a sync of the journal: whoever follows this oplog never has an
//! entry that this member could lose in a crash (server.md, 4.1). The price is the real one: with somebody following, each round costs a
//! sync, `j: true` or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_client::Connection;
use fathom_replication::Host;

use super::links::ask;
use crate::instance::Instance;
use crate::replica_set::ReplicaSet;

/// How often it looks whether the server stops.
const LOOK: Duration = Duration::from_millis(200);

/// Runs until the server stops.
pub(super) fn publish_all(instance: &Arc<Instance>) {
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

/// A report at least this often, so that the source knows that this member lives (`keepAliveInterval`: half an election timeout).
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);
const SOURCE_LOOK: Duration = Duration::from_millis(200);

/// Runs until the server stops.
pub(super) fn report(instance: &Arc<Instance>) {
    let Some(set) = &instance.set else { return };
    let mut connection: Option<(Host, Option<Connection>)> = None;
    let mut sent = (None, Instant::now());
    while !instance.is_stopping() {
        let seen = set.changes();
        let (source, update) = set.ask(|one| (one.sync_source().cloned(), one.update_position()));
        if let (Some(source), Some(update)) = (source, update) {
            let command = update.to_document();
            // What a primary knows of the set changes with each report; what it says of us and of those below does not.
            let said = (source.clone(), command.get_array("optimes").cloned().ok());
            if sent.0.as_ref() != Some(&said) || sent.1.elapsed() >= KEEP_ALIVE {
                let open = match &mut connection {
                    Some((host, open)) if *host == source => open,
                    other => &mut other.insert((source.clone(), None)).1,
                };
                if ask(instance, &source, open, &command, PATIENCE).is_ok() {
                    sent = (Some(said), Instant::now());
                    continue;
                }
                sent.0 = None;
                set.wait_for_change(set.changes(), Instant::now() + SOURCE_LOOK);
            }
        } else {
            connection = None;
        }
        set.wait_for_change(seen, Instant::now() + SOURCE_LOOK);
    }
}
