//! The threads that keep a server's data safe and tidy: the journal's tick, checkpoints, counts, cursors that time out. (What
//! TTL indexes let expire is removed in `ttl`.)
//!
//! Each sleeps on one bell, so that a changed interval or the end of the server is heard at once. mongod 4.0 reads
//! `syncdelay` once and never again (SERVER-75162); here a change counts from the moment it is made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_errors::Error;

use crate::instance::Instance;

/// How often the counts are written down, as mongod's sizeStorer.
const COUNTS_SECONDS: u64 = 60;

/// Starts the threads.
pub(crate) fn start(instance: &Arc<Instance>) -> Result<Vec<std::thread::JoinHandle<()>>, Error> {
    let spawn = |name: &str, run: fn(&Arc<Instance>)| {
        let instance = Arc::clone(instance);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&instance)).map_err(|error| {
            Error::new(fathom_errors::Kind::Io, format!("cannot start the thread {name}")).because(error)
        })
    };
    Ok(vec![
        spawn("JournalFlusher", flush_journal)?,
        spawn("Checkpointer", make_checkpoints)?,
        spawn("Housekeeping", keep_house)?,
        spawn("TTLMonitor", super::ttl::watch)?,
    ])
}

fn flush_journal(instance: &Arc<Instance>) {
    let mut next = Instant::now();
    loop {
        let heard = instance.bell.rings();
        if instance.is_stopping() {
            return;
        }
        let interval = Duration::from_millis(instance.parameters.journal_commit_interval_ms());
        next = (next + interval).max(Instant::now());
        instance.bell.sleep_since(heard, Some(next));
        if instance.is_stopping() {
            return;
        }
        // The bell may have rung for somebody else.
        if Instant::now() < next {
            next -= interval;
            continue;
        }
        if !instance.config.storage.journal {
            continue;
        }
        if let Err(error) = instance.journal.wait_until_durable() {
            instance.die("the journal could not be synced", &error);
        }
    }
}

fn make_checkpoints(instance: &Arc<Instance>) {
    let mut last = Instant::now();
    loop {
        let heard = instance.bell.rings();
        if instance.is_stopping() {
            return;
        }
        let seconds = instance.parameters.sync_delay_seconds();
        // 0 switches checkpoints off.
        let due = (seconds > 0.0).then(|| last + Duration::from_secs_f64(seconds));
        if due.is_none_or(|due| Instant::now() < due) {
            instance.bell.sleep_since(heard, due);
            continue;
        }
        last = Instant::now();
        if let Err(error) = instance.checkpoint() {
            instance.die("the checkpoint failed", &error);
        }
    }
}

fn keep_house(instance: &Arc<Instance>) {
    let mut counted = Instant::now();
    while !instance.is_stopping() {
        let begun = Instant::now();
        // Asked anew after each bell: somebody may have changed it.
        loop {
            let heard = instance.bell.rings();
            let until = begun + Duration::from_secs(instance.parameters.cursor_monitor_secs());
            if Instant::now() >= until || instance.is_stopping() {
                break;
            }
            instance.bell.sleep_since(heard, Some(until));
        }
        instance.cursors.expire(Duration::from_millis(instance.parameters.cursor_timeout_ms()));
        instance.catalog.drop_pending();
        if counted.elapsed() >= Duration::from_secs(COUNTS_SECONDS) {
            counted = Instant::now();
            if let Err(failure) = instance.catalog.flush_sizes(false) {
                instance.log.warning(
                    "STORAGE",
                    22430,
                    "Housekeeping",
                    "the counts could not be written",
                    doc! {
                        "error": failure.message(),
                    },
                );
            }
        }
    }
}
