//! Tells the sync source how far this member is, and those that follow it, whenever that changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_client::Connection;
use fathom_replication::Host;

use super::links::ask;
use crate::instance::Instance;

/// A report at least this often, so that the source knows that this member lives (`keepAliveInterval`: half an election timeout).
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// Runs until the server stops.
pub(super) fn run(instance: &Arc<Instance>) {
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
                set.wait_for_change(set.changes(), Instant::now() + LOOK);
            }
        } else {
            connection = None;
        }
        set.wait_for_change(seen, Instant::now() + LOOK);
    }
}
