//! The specification of the search for capacities: the server's storage, the table, and the steps for each kind of load.

use std::time::Duration;

use fathom_explain::Need;
use fathom_load::search_rates::SearchRates;
use fathom_probe::Pace;
use fathom_record::capacity::CapacityLoad;
use fathom_stats::Slo;
use fathom_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::LocalStorage;

/// Connections, the maximum number of operations in flight.
const CONNECTIONS: u32 = 64;
/// Bytes of a record of YCSB's default shape.
const RECORD_BYTES: u64 = 1000;
/// The table is this many times as large as the engine's cache.
const TABLE_BYTES_PER_CACHE_BYTE: u64 = 4;
/// The records that journaled writes change: the first of the table, which share about eight pages. With more of them the writes would measure pages besides
/// the journal. WiredTiger evicts changed pages once they fill a twentieth of the cache (`eviction_dirty_target`) or the changes alone fill half of that
/// (`eviction_updates_target`): with 10,000 records in a cache of 16 MiB, each write cost one page write, and every third write a page read. And a
/// checkpoint writes each changed page: with 1,048 records under a cap of 300 requests a second it stopped the journal for up to 100 ms of each 10 s, so that
/// about 1 % of the writes were slow at any rate.
const JOURNALED_RECORDS: u64 = 256;
/// The interval between checkpoints. A step of writes covers whole cycles: a shorter step would judge a rate by the presence of a
/// checkpoint.
const CYCLE: Duration = Duration::from_secs(10);
/// A quick search runs without checkpoints, for the same reason.
const NO_CHECKPOINT: Duration = Duration::from_secs(3600);
/// The part of a quick search's cache that changes may fill, percent. By default it is 5, half of it for the changes alone: 420 KB of 16 MiB.
/// WiredTiger 11.3.1 counts up to 600 KB of changes that are no longer on a page (`bytes allocated for updates` without a dirty leaf page, in a
/// quarter of the servers that loaded a table); beyond its limit it writes each changed page again and again: 22 KB for each journaled write in place
/// of 2.8.
const QUICK_DIRTY_TARGET_PCT: u8 = 20;
/// The operations of a step: with fewer, the 99th percentile rests on three or four.
const MIN_OPERATIONS: f64 = 400.0;
/// The kernel writes dirty pages and ext4 commits its journal every 5 s (`vm.dirty_writeback_centisecs`, the mount option `commit`). One stall of 40 ms
/// is 2 % of a short step and decides its p99, so a quick search tries a rate that broke a second time over a whole cycle.
const WRITEBACK_CYCLE: Duration = Duration::from_secs(5);
/// The closed loop, in which the limit is read. The layers of an operation's time need three seconds, and the first and the last second of a load
/// do not count.
const CLOSED_LOOP_TIME: Duration = Duration::from_secs(5);
/// A step of the first pass of a load that checkpoints do not affect.
const SHORT_STEP: Duration = Duration::from_secs(2);

/// The capacities of a server, searched one after another on the same records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CapacitySpec {
    /// The objective of each.
    pub slo: Slo,
    /// Records of the table, which is larger than memory.
    pub records: u64,
    /// The time limit of loading them.
    pub load_time: Duration,
    /// Connections, each with one operation in flight.
    pub connections: u32,
    /// The seed of all random streams.
    pub seed: u64,
    /// The loads, in their order.
    pub searches: Vec<CapacitySearch>,
    /// The need that the capacities should cover.
    pub need: Option<Need>,
}

/// The search for the capacity of one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CapacitySearch {
    pub load: CapacityLoad,
    /// The steps of the search.
    pub steps: SearchSteps,
}

/// The steps of a search for the highest rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchSteps {
    /// The length of the closed loop before the first step.
    pub closed: Duration,
    /// The length of each step of the first pass.
    pub step: Duration,
    /// The length of each step of the second pass, and of a step that is tried once more.
    pub confirmation: Duration,
    /// Operations that a step should have: at a lower rate it is longer, up to four times.
    pub min_operations: f64,
    /// The time at the start of each that is not counted.
    pub warmup: Duration,
    pub rates: SearchRates,
}

impl CapacitySpec {
    /// The search of a checkup: reads that miss memory and journaled writes, and at full pace also a mix of both over whole checkpoint cycles.
    pub fn new(pace: Pace, slo: Slo, seed: u64) -> CapacitySpec {
        let searches = match pace {
            Pace::Quick => vec![
                CapacitySearch::new(pace, CapacityLoad::Reads, SHORT_STEP, WRITEBACK_CYCLE),
                CapacitySearch::new(pace, CapacityLoad::JournaledWrites, SHORT_STEP, WRITEBACK_CYCLE),
            ],
            Pace::Full => vec![
                CapacitySearch::new(pace, CapacityLoad::Reads, SHORT_STEP, CYCLE),
                CapacitySearch::new(pace, CapacityLoad::JournaledWrites, CYCLE, CYCLE),
                CapacitySearch::new(pace, CapacityLoad::Mix, CYCLE, 2 * CYCLE),
            ],
        };
        CapacitySpec {
            slo,
            records: TABLE_BYTES_PER_CACHE_BYTE * cache(pace).get() / RECORD_BYTES,
            // With a smaller table the cache would hold a larger part, and a rate of reads would show less of the device.
            load_time: Duration::from_secs(if pace == Pace::Quick { 60 } else { 180 }),
            connections: CONNECTIONS,
            seed,
            searches,
            need: None,
        }
    }

    /// The number of records that journaled writes change.
    pub fn journaled_records(&self) -> u64 {
        self.records.min(JOURNALED_RECORDS)
    }

    /// The storage of the server that is measured: a small cache, so that the table is loaded in seconds; frequent checkpoints, so that a
    /// step covers whole cycles, or none; and data files that bypass the page cache.
    pub fn storage(pace: Pace) -> LocalStorage {
        let interval = if pace == Pace::Quick { NO_CHECKPOINT } else { CYCLE };
        LocalStorage {
            cache: Some(cache(pace)),
            checkpoint_interval_s: Some(interval.as_secs()),
            dirty_target_pct: (pace == Pace::Quick).then_some(QUICK_DIRTY_TARGET_PCT),
            is_direct: true,
        }
    }
}

fn cache(pace: Pace) -> Bytes {
    Bytes::mib(if pace == Pace::Quick { 16 } else { 64 })
}

impl CapacitySearch {
    fn new(pace: Pace, load: CapacityLoad, step: Duration, confirmation: Duration) -> CapacitySearch {
        let rates = match (pace, load) {
            (Pace::Quick, _) => SearchRates::coarse(),
            // A step of the mix is long, and the answer has to come within minutes.
            (Pace::Full, CapacityLoad::Mix) => {
                SearchRates { confirmations: 5, ..SearchRates::confirmed(1.2) }
            }
            (Pace::Full, _) => SearchRates::confirmed(1.1),
        };
        let steps = SearchSteps {
            closed: CLOSED_LOOP_TIME,
            step,
            confirmation,
            min_operations: MIN_OPERATIONS,
            // A throttle admits a burst after an idle time, which must not count.
            warmup: Duration::from_secs(1),
            rates,
        };
        CapacitySearch { load, steps }
    }
}
