//! The cause of an incident: the figures that differ from the recording's own calm (docs/methods.md#the-cause-of-an-incident).
//!
//! The first rule that fits names it. The first rules are for causes that explain others (a neighbour's I/O makes syncs slow), and the last ones
//! only name the wait of operations.

use fathom_record::Confidence;
use fathom_record::verdict::Domain;
use fathom_units::{Bytes, decimal};

use super::database_disk::DatabaseDisk;
use super::signals::CHECKPOINT;
use super::stretch::{Stretch, WaitLayer};
use crate::queue::time;

/// The least rate of other programs on the database's disk, and their least share of its bytes (as in `neighbour.rs`).
const MIN_OTHERS_BYTES_PER_S: f64 = 32.0 * 1_048_576.0;
const MIN_OTHERS_SHARE: f64 = 0.5;
/// The least factor by which this rate exceeds that in calm stretches.
const MIN_OTHERS_GROWTH: f64 = 2.0;
/// A layer is the cause if its growth is at least this share of the time by which operations took longer.
const MIN_GROWTH_SHARE: f64 = 0.3;
/// Syncs and reads of pages are slow if they take this many times as long as usual, and at least this long.
const MIN_SLOW_RATIO: f64 = 2.0;
const MIN_SLOW_SYNC_US: f64 = 5000.0;
const MIN_SLOW_PAGE_US: f64 = 2000.0;
/// The disk is idle if the wait for pages is this many times as long as a request of the disk, or if the disk has no requests.
const MIN_RATIO_TO_DISK: f64 = 3.0;
/// Processors are short below this idle time, or with this many tasks for each.
const MAX_SHORT_IDLE_PCT: f64 = 10.0;
const MIN_SHORT_RUNNABLE: f64 = 2.0;
/// Checkpoints are slow if they take this long.
const MIN_SLOW_CHECKPOINT_US: f64 = 1e7;
/// The least factor by which clients ask for more than usual, and the fewest more operations a second.
const MIN_LOAD_RATIO: f64 = 2.0;
const MIN_EXTRA_PER_S: f64 = 100.0;
/// The fewest pages of swap a second that count as a cause.
const MIN_SWAP_PER_S: f64 = 100.0;

/// The id of an unknown cause.
pub(super) const UNKNOWN: &str = "unknown";

/// The cause of an incident, with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IncidentCause {
    pub(super) id: &'static str,
    pub(super) domain: Option<Domain>,
    pub(super) confidence: Confidence,
    pub(super) sentence: String,
    pub(super) evidence: Vec<String>,
    pub(super) against: Vec<String>,
    pub(super) next: Option<String>,
}

/// An incident and the calm around it.
pub(super) struct IncidentComparison<'c> {
    pub(super) now: &'c Stretch,
    pub(super) calm: &'c Stretch,
    pub(super) disk: &'c DatabaseDisk,
}

fn per_s(bytes: f64) -> String {
    format!("{} a second", Bytes(bytes.max(0.0) as u64))
}

impl IncidentComparison<'_> {
    /// The cause by the first rule that fits.
    pub(super) fn cause(&self) -> IncidentCause {
        let found = self
            .neighbour()
            .or_else(|| self.swapping())
            .or_else(|| self.page_reads())
            .or_else(|| self.journal())
            .or_else(|| self.client())
            .or_else(|| self.counted_wait())
            .or_else(|| self.processors())
            .or_else(|| self.checkpoint());
        let mut cause = found.unwrap_or_else(|| self.unknown());
        self.add_figures(&mut cause);
        cause
    }

    fn growth_us(&self) -> f64 {
        (self.now.operation_us - self.calm.operation_us).max(0.0)
    }

    /// The growth of the mean operation's wait in a layer, as a share of the time by which the operation took longer.
    fn grown_share(&self, layer: WaitLayer) -> f64 {
        let (Some(now), calm) = (self.now.wait_us(layer), self.calm.wait_us(layer).unwrap_or(0.0)) else {
            return 0.0;
        };
        let growth = self.growth_us();
        if growth > 0.0 { (now - calm).max(0.0) / growth } else { 0.0 }
    }

    /// The mean of a signal now and usually, if it is slow.
    fn slow(&self, words: &str, min_us: f64) -> Option<(f64, f64)> {
        let at = super::signals::SIGNALS.iter().position(|signal| signal.words == words)?;
        let now = self.now.signals_us.get(at).copied().flatten()?;
        let calm = self.calm.signals_us.get(at).copied().flatten().unwrap_or(0.0);
        (now >= min_us && now >= MIN_SLOW_RATIO * calm).then_some((now, calm))
    }

    fn slow_sync(&self) -> Option<(f64, f64)> {
        self.slow("a sync of the journal", MIN_SLOW_SYNC_US)
    }

    fn slow_page(&self) -> Option<(f64, f64)> {
        self.slow("a read of a page", MIN_SLOW_PAGE_US)
    }

    fn storage(&self, id: &'static str, confidence: Confidence, sentence: String) -> IncidentCause {
        IncidentCause {
            id,
            domain: Some(Domain::Storage),
            confidence,
            sentence,
            evidence: Vec::new(),
            against: Vec::new(),
            next: None,
        }
    }

    fn neighbour(&self) -> Option<IncidentCause> {
        let disk = self.disk.name()?;
        let now = self.now.disk?;
        let calm = self.calm.disk.unwrap_or_default();
        let is_busy = now.others_bytes_per_s >= MIN_OTHERS_BYTES_PER_S
            && now.others_bytes_per_s >= MIN_OTHERS_SHARE * now.bytes_per_s
            && now.others_bytes_per_s >= MIN_OTHERS_GROWTH * calm.others_bytes_per_s;
        if !is_busy {
            return None;
        }
        let waits: Vec<String> = [("a journal sync", self.slow_sync()), ("a page read", self.slow_page())]
            .into_iter()
            .filter_map(|(what, slow)| {
                slow.map(|(now, calm)| format!("{what} took {} (usually {})", time(now), time(calm)))
            })
            .chain((self.growth_us() > 0.0).then(|| {
                format!(
                    "an operation took {} (usually {})",
                    time(self.now.operation_us),
                    time(self.calm.operation_us)
                )
            }))
            .collect();
        let sentence = format!("Another process kept {disk} busy, and mongod waited: {}.", waits.join(", "));
        let mut cause = self.storage("neighbour-io", Confidence::Likely, sentence);
        cause.evidence.push(format!(
            "{disk} transferred {}; {} of that were not mongod's (usually {}).",
            per_s(now.bytes_per_s),
            per_s(now.others_bytes_per_s),
            per_s(calm.others_bytes_per_s)
        ));
        cause.next = Some(
            "Find the process with 'pidstat -d 5' when it happens again, and move or limit it.".to_owned(),
        );
        Some(cause)
    }

    fn swapping(&self) -> Option<IncidentCause> {
        let (now, calm) = (self.now.swap_per_s?, self.calm.swap_per_s.unwrap_or(0.0));
        (now >= MIN_SWAP_PER_S && now >= MIN_SLOW_RATIO * calm).then(|| IncidentCause {
            id: "swapping",
            domain: None,
            confidence: Confidence::Likely,
            sentence: format!("The host was short of memory and swapped {} pages a second.", decimal(now)),
            evidence: vec![format!("Usually it swaps {} pages a second.", decimal(calm))],
            against: Vec::new(),
            next: Some("Find the process that took the memory: mongod with its cache, another program, or a limit of the control group.".to_owned()),
        })
    }

    fn page_reads(&self) -> Option<IncidentCause> {
        let share = self.grown_share(WaitLayer::PageRead);
        let (now, calm) = self.slow_page()?;
        let is_known = self.now.operation_us > 0.0;
        if is_known && share < MIN_GROWTH_SHARE {
            return None;
        }
        let sentence = |where_: &str| {
            format!(
                "Storage, through reads: a page read took {} (usually {}){where_}.",
                time(now),
                time(calm)
            )
        };
        let mut cause = match (self.disk, self.now.disk) {
            (DatabaseDisk::Known(disk), Some(figures)) => {
                let is_above = now >= MIN_RATIO_TO_DISK * figures.await_us || figures.in_flight < 0.5;
                let found = if is_above {
                    format!(
                        ", and waited above {disk}, which had {} requests in flight: a limit in front of the disk (of a control group or of the volume), or a device that is not recorded",
                        decimal(figures.in_flight)
                    )
                } else {
                    format!(" on {disk}, where a request took {}", time(figures.await_us))
                };
                self.storage("storage-reads", Confidence::Likely, sentence(&found))
            }
            (DatabaseDisk::Unlisted, _) => self.storage(
                "storage-reads",
                Confidence::Likely,
                sentence(" on a device that is not among the recorded disks"),
            ),
            _ => self.storage("storage-reads", Confidence::Likely, sentence("")),
        };
        if is_known {
            cause
                .evidence
                .push(format!("Waits for pages make up {:.0} % of the added time.", 100.0 * share.min(1.0)));
        } else {
            cause.confidence = Confidence::CannotTell;
            cause.against.push("The times of operations were not recorded.".to_owned());
        }
        cause.next = Some(
            "Check whether the volume's provisioned rate or io.max of the service's control group is the limit; 'fathom disk' measures the device."
                .to_owned(),
        );
        Some(cause)
    }

    fn journal(&self) -> Option<IncidentCause> {
        let (now, calm) = self.slow_sync()?;
        let waits = self.grown_share(WaitLayer::Journal) + self.grown_share(WaitLayer::Rest);
        let hurt = self.growth_us() > 0.0 && waits >= MIN_GROWTH_SHARE;
        let is_on_disk = self.now.disk.is_some_and(|figures| figures.await_us * MIN_RATIO_TO_DISK >= now);
        let where_ = match self.disk {
            DatabaseDisk::Known(disk) if is_on_disk => format!(" on {disk}"),
            DatabaseDisk::Known(disk) => format!(", most of it above {disk}"),
            DatabaseDisk::Unlisted => " on a device that is not among the recorded disks".to_owned(),
            _ => String::new(),
        };
        let unhurt = if hurt { "" } else { "; no operation is known to have waited for it" };
        let sentence = format!(
            "Storage, through the journal: a sync took {} (usually {}){where_}{unhurt}.",
            time(now),
            time(calm)
        );
        let confidence = if hurt { Confidence::Likely } else { Confidence::CannotTell };
        let mut cause = self.storage("storage-journal", confidence, sentence);
        if hurt {
            cause.evidence.push(format!(
                "An operation took {} ({} while syncs were short).",
                time(self.now.operation_us),
                time(self.calm.operation_us)
            ));
        } else {
            cause.against.push("Operations did not take longer while syncs did.".to_owned());
        }
        cause.next = Some(
            "Find out what else wrote to the disk then: a checkpoint, a backup, another program.".to_owned(),
        );
        Some(cause)
    }

    /// Clients that ask for more than usual, and what became short by it.
    fn client(&self) -> Option<IncidentCause> {
        let (now, calm) = (self.now.operations_per_s, self.calm.operations_per_s);
        let is_more = now >= MIN_LOAD_RATIO * calm && now - calm >= MIN_EXTRA_PER_S && calm > 0.0;
        let queued = self.grown_share(WaitLayer::Ticket);
        let short = match () {
            () if !is_more || self.growth_us() <= 0.0 => return None,
            () if queued >= MIN_GROWTH_SHARE => "tickets were short",
            () if self.is_short_of_processors() => "the processors were busy",
            () => return None,
        };
        let connections = self.now.connections.map_or_else(String::new, |connections| {
            let usually = self.calm.connections.unwrap_or(0.0);
            format!(" over {} connections ({})", decimal(connections), decimal(usually))
        });
        Some(IncidentCause {
            id: "client-load",
            domain: Some(Domain::Client),
            confidence: Confidence::Likely,
            sentence: format!(
                "Clients asked for more: {} operations a second (usually {}){connections}, and {short}.",
                decimal(now),
                decimal(calm)
            ),
            evidence: vec![format!(
                "An operation took {} (usually {}), and neither page reads nor journal syncs were slow.",
                time(self.now.operation_us),
                time(self.calm.operation_us)
            )],
            against: Vec::new(),
            next: Some(
                "Find the program that sends more in the log of that time: its name and address are in slow operations and new connections."
                    .to_owned(),
            ),
        })
    }

    /// A checkpoint that took long. Operations do not wait for it, so it explains them only by what it writes.
    fn checkpoint(&self) -> Option<IncidentCause> {
        let (now, calm) = self.slow(CHECKPOINT, MIN_SLOW_CHECKPOINT_US)?;
        let sentence = format!("A checkpoint took {} (usually {}).", time(now), time(calm));
        let mut cause = self.storage("long-checkpoint", Confidence::CannotTell, sentence);
        cause.against.push("No counter shows that operations waited for it.".to_owned());
        cause.next = Some(
            "Compare the writes of the disk with those of other times: more dirty data, or a slower disk."
                .to_owned(),
        );
        Some(cause)
    }

    /// A wait that the server counts.
    fn counted_wait(&self) -> Option<IncidentCause> {
        let table = [
            (WaitLayer::Cache, "cache", Domain::Cache, "room in the engine's cache"),
            (WaitLayer::Ticket, "tickets", Domain::Server, "a ticket"),
            (WaitLayer::Lock, "locks", Domain::Server, "a lock"),
            (WaitLayer::FlowControl, "flow-control", Domain::Members, "flow control"),
            (WaitLayer::Replication, "replication", Domain::Members, "other members of the set"),
            (WaitLayer::Journal, "storage-journal", Domain::Storage, "the journal"),
            (
                WaitLayer::PageRead,
                "storage-reads",
                Domain::Storage,
                "pages, of which each took as long as usual",
            ),
        ];
        let share = |row: &(WaitLayer, &str, Domain, &str)| self.grown_share(row.0);
        let (layer, id, domain, what) =
            table.into_iter().max_by(|one, other| share(one).total_cmp(&share(other)))?;
        let share = self.grown_share(layer);
        if share < MIN_GROWTH_SHARE {
            return None;
        }
        // More pages for each operation are due to the cache and to the queries, not to the disk.
        let (id, domain) =
            if layer == WaitLayer::PageRead { ("more-pages", Domain::Cache) } else { (id, domain) };
        Some(IncidentCause {
            id,
            domain: Some(domain),
            confidence: Confidence::Likely,
            sentence: format!(
                "Operations waited for {what}: {} of the mean one's {} (usually {}).",
                time(self.now.wait_us(layer).unwrap_or(0.0)),
                time(self.now.operation_us),
                time(self.calm.wait_us(layer).unwrap_or(0.0))
            ),
            evidence: vec![format!("That wait makes up {:.0} % of the added time.", 100.0 * share.min(1.0))],
            against: Vec::new(),
            next: None,
        })
    }

    fn is_short_of_processors(&self) -> bool {
        self.now.idle_pct.is_some_and(|idle| {
            idle < MAX_SHORT_IDLE_PCT || self.now.runnable.is_some_and(|tasks| tasks >= MIN_SHORT_RUNNABLE)
        })
    }

    fn processors(&self) -> Option<IncidentCause> {
        let idle = self.now.idle_pct?;
        self.is_short_of_processors().then(|| IncidentCause {
            id: "processors",
            domain: Some(Domain::Processors),
            confidence: Confidence::Likely,
            sentence: format!(
                "The processors were busy: {idle:.0} % idle{}.",
                self.calm.idle_pct.map_or_else(String::new, |calm| format!(" ({calm:.0} % usually)"))
            ),
            evidence: vec!["No counter of the engine has the wait.".to_owned()],
            against: Vec::new(),
            next: None,
        })
    }

    fn unknown(&self) -> IncidentCause {
        let sentence = format!(
            "Cannot tell why: an operation took {} (usually {}), and no counter explains it. Other queries are possible, or a wait that mongod does not count.",
            time(self.now.operation_us),
            time(self.calm.operation_us)
        );
        IncidentCause {
            id: UNKNOWN,
            domain: None,
            confidence: Confidence::CannotTell,
            sentence,
            evidence: Vec::new(),
            against: Vec::new(),
            next: Some("Look in the log of that time for slow operations: their shapes, and how many documents each examined.".to_owned()),
        }
    }

    /// Adds the figures of processors and of the disk, for or against the cause.
    fn add_figures(&self, cause: &mut IncidentCause) {
        let is_storage = cause.domain == Some(Domain::Storage);
        if let Some(idle) = self.now.idle_pct.filter(|_| cause.id != "processors") {
            let line = format!("The processors were {idle:.0} % idle.");
            if idle >= MAX_SHORT_IDLE_PCT { cause.evidence.push(line) } else { cause.against.push(line) }
        }
        if let (DatabaseDisk::Known(disk), Some(figures)) = (self.disk, self.now.disk)
            && cause.id != "neighbour-io"
        {
            let line = format!(
                "{disk} served {} requests a second in {} each.",
                decimal(figures.requests_per_s),
                time(figures.await_us)
            );
            if is_storage { cause.evidence.push(line) } else { cause.against.push(line) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::signals::SIGNALS;
    use super::*;

    fn cause(now: &Stretch, calm: &Stretch) -> IncidentCause {
        IncidentComparison { now, calm, disk: &DatabaseDisk::Unknown }.cause()
    }

    fn stretch(operations_per_s: f64, operation_us: f64, idle_pct: f64) -> Stretch {
        Stretch {
            operations_per_s,
            operation_us,
            idle_pct: Some(idle_pct),
            connections: Some(operations_per_s / 10.0),
            signals_us: vec![None; SIGNALS.len()],
            ..Stretch::default()
        }
    }

    #[test]
    fn clients_that_ask_for_more_are_named_if_something_became_short() {
        let calm = stretch(1000.0, 500.0, 70.0);
        let found = cause(&stretch(2500.0, 900.0, 4.0), &calm);
        assert_eq!((found.id, found.domain), ("client-load", Some(Domain::Client)));
        assert!(found.sentence.contains("2,500 operations a second (usually 1,000)"), "{}", found.sentence);
        let mut queued = stretch(2500.0, 900.0, 60.0);
        queued.waits_us = vec![(WaitLayer::Ticket, 300.0)];
        assert_eq!(cause(&queued, &calm).id, "client-load");
        // As many operations as usual: what became short is the cause.
        queued.operations_per_s = 1100.0;
        assert_eq!(cause(&queued, &calm).id, "tickets");
        assert_eq!(cause(&stretch(1100.0, 900.0, 4.0), &calm).id, "processors");
        // More operations, and nothing is short.
        assert_eq!(cause(&stretch(2500.0, 900.0, 60.0), &calm).id, UNKNOWN);
    }

    #[test]
    fn a_long_checkpoint_is_stated_without_a_claim_on_operations() {
        let of_checkpoint = |seconds: f64| {
            let mut stretch = stretch(1000.0, 500.0, 70.0);
            let number = SIGNALS.iter().position(|signal| signal.words == CHECKPOINT).unwrap();
            stretch.signals_us[number] = Some(1e6 * seconds);
            stretch
        };
        let found = cause(&of_checkpoint(45.0), &of_checkpoint(3.0));
        assert_eq!((found.id, found.confidence), ("long-checkpoint", Confidence::CannotTell));
        assert!(found.sentence.contains("45"), "{}", found.sentence);
        assert_eq!(cause(&of_checkpoint(5.0), &of_checkpoint(1.0)).id, UNKNOWN);
    }
}
