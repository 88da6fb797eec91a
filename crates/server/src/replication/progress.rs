//! Reports this member's progress to the readers of its oplog, to its coordinator, and to its sync source, the last together with the progress
//! of its followers.
//!
//! As in mongod 4.0, the point up to which the oplog may be read follows a sync of the journal: a follower never has an entry that this member
//! could lose in a crash (docs/methods.md#the-oplog). The cost is the same as mongod's: with a follower, each round costs a sync, with or without
//! `j: true`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_client::Connection;
use fathom_replication::Host;

use super::links::ask;
use crate::instance::Instance;
use crate::replica_set::ReplicaSetState;

/// The interval at which it checks whether the server stops.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Publishes progress until the server stops.
pub(super) fn publish_all(instance: &Arc<Instance>) {
    let Some(set) = &instance.set else { return };
    let mut published = set.oplog().visible();
    while !instance.is_stopping() {
        let settled = set.oplog().clock().wait_settled(published, Instant::now() + CHECK_INTERVAL);
        // A rollback moves behind the published point, and reports that to the coordinator itself.
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

fn publish(instance: &Instance, set: &ReplicaSetState, settled: u64) -> Result<(), fathom_errors::Error> {
    let at = set.oplog().optime_of(settled);
    set.tell(|coordinator, now| coordinator.applied_advanced(now, at));
    if instance.config.storage.journal {
        instance.journal.wait_until_durable()?;
    }
    // A rollback may have cut the oplog meanwhile.
    if set.oplog().clock().settled() >= settled {
        set.oplog().publish(settled);
        set.tell(|coordinator, now| coordinator.durable_advanced(now, at));
    }
    Ok(())
}

/// The maximum time between two reports, so that the source knows that this member is alive (`keepAliveInterval`: half an election timeout).
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(5);
const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);
const SOURCE_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Sends reports until the server stops.
pub(super) fn report(instance: &Arc<Instance>) {
    let Some(set) = &instance.set else { return };
    let mut connection: Option<(Host, Option<Connection>)> = None;
    let mut sent = (None, Instant::now());
    while !instance.is_stopping() {
        let seen = set.changes();
        let (source, update) = set.ask(|one| (one.sync_source().cloned(), one.update_position()));
        if let (Some(source), Some(update)) = (source, update) {
            let command = update.to_document();
            // A primary's knowledge of the set changes with each report; the report on this member and its followers does not.
            let said = (source.clone(), command.get_array("optimes").cloned().ok());
            if sent.0.as_ref() != Some(&said) || sent.1.elapsed() >= MAX_REPORT_INTERVAL {
                let open = match &mut connection {
                    Some((host, open)) if *host == source => open,
                    other => &mut other.insert((source.clone(), None)).1,
                };
                if ask(instance, &source, open, &command, SOURCE_TIMEOUT).is_ok() {
                    sent = (Some(said), Instant::now());
                    continue;
                }
                sent.0 = None;
                set.wait_for_change(set.changes(), Instant::now() + SOURCE_CHECK_INTERVAL);
            }
        } else {
            connection = None;
        }
        set.wait_for_change(seen, Instant::now() + SOURCE_CHECK_INTERVAL);
    }
}
