//! Table: the compared figures, their computation from the counters, and the figures of a real mongod 4.0.3.
//!
//! The reference is one run of mongod each: its figures hold within 10 to 15 %.

use bson::RawDocumentBuf;

use crate::lab::{DeviceTotals, number};

/// The counters' differences over one load.
pub(super) struct LoadPhase {
    pub(super) seconds: f64,
    /// Inserts and updates together.
    pub(super) writes: f64,
    pub(super) disk: DeviceTotals,
    pub(super) process_written_bytes: u64,
    pub(super) before: RawDocumentBuf,
    pub(super) after: RawDocumentBuf,
}

impl LoadPhase {
    /// The difference of a counter of `serverStatus`.
    fn counter(&self, path: &[&str]) -> Option<f64> {
        Some(number(&self.after, path)? - number(&self.before, path)?)
    }

    fn per_write(&self, path: &[&str]) -> Option<f64> {
        Some(self.counter(path)? / self.writes)
    }

    fn per_second(&self, count: f64) -> f64 {
        count / self.seconds
    }
}

pub(super) struct FidelityRow {
    pub(super) name: &'static str,
    pub(super) value: fn(&LoadPhase) -> Option<f64>,
    /// Mongod's figures, under the load and under workload A; `None` if the model has none.
    pub(super) reference: [Option<f64>; 2],
    /// Decimal places in the printed table.
    pub(super) places: usize,
}

const fn row(
    name: &'static str,
    places: usize,
    reference: [f64; 2],
    value: fn(&LoadPhase) -> Option<f64>,
) -> FidelityRow {
    let [load, update] = reference;
    FidelityRow { name, value, reference: [Some(load), Some(update)], places }
}

const fn ours(name: &'static str, places: usize, value: fn(&LoadPhase) -> Option<f64>) -> FidelityRow {
    FidelityRow { name, value, reference: [None, None], places }
}

const KIB: f64 = 1024.0;
/// WiredTiger's section names, as mongod shows them.
const LOG: &str = "log";
const BLOCKS: &str = "block-manager";

macro_rules! wt {
    ($phase:ident, $section:expr, $name:literal) => {
        $phase.counter(&["wiredTiger", $section, $name])
    };
}

pub(super) static ROWS: &[FidelityRow] = &[
    row("device KiB per write", 2, [1.25, 10.1], |p| Some(p.disk.written_bytes as f64 / KIB / p.writes)),
    row("device writes per write", 4, [0.003, 0.080], |p| Some(p.disk.writes as f64 / p.writes)),
    row("device flushes per second", 2, [20.7, 19.9], |p| Some(p.per_second(p.disk.flushes as f64))),
    row("device reads", 0, [0.0, 35.0], |p| Some(p.disk.reads as f64)),
    row("journal bytes per write", 0, [1280.0, 256.0], |p| {
        p.per_write(&["wiredTiger", LOG, "log bytes written"])
    }),
    row("journal payload per write", 0, [1231.0, 167.0], |p| {
        p.per_write(&["wiredTiger", LOG, "log bytes of payload data"])
    }),
    row("journal records per write", 3, [1.0, 1.0], |p| {
        p.per_write(&["wiredTiger", LOG, "log write operations"])
    }),
    row("journal syncs per second", 2, [9.8, 9.8], |p| {
        Some(p.per_second(wt!(p, LOG, "log sync operations")?))
    }),
    row("engine bytes per write", 0, [1073.0, 24_257.0], |p| {
        p.per_write(&["wiredTiger", BLOCKS, "bytes written"])
    }),
    row("blocks written per write", 3, [0.038, 0.849], |p| {
        p.per_write(&["wiredTiger", BLOCKS, "blocks written"])
    }),
    row("pages written from cache per write", 3, [0.038, 0.849], |p| {
        p.per_write(&["wiredTiger", "cache", "pages written from cache"])
    }),
    row("modified pages evicted per write", 4, [0.0002, 0.812], |p| {
        p.per_write(&["wiredTiger", "cache", "modified pages evicted"])
    }),
    row("checkpoints", 0, [0.0, 2.0], |p| wt!(p, "transaction", "transaction checkpoints")),
    row("checkpoint bytes per write", 0, [0.0, 847.0], |p| {
        p.per_write(&["wiredTiger", BLOCKS, "bytes written for checkpoint"])
    }),
    ours("checkpoints took, ms", 0, |p| wt!(p, "transaction", "transaction checkpoint total time (msecs)")),
    ours("a journal sync took, ms", 1, |p| {
        Some(wt!(p, LOG, "log sync time duration (usecs)")? / 1000.0 / wt!(p, LOG, "log sync operations")?)
    }),
    ours("syncs by our own tick, per second", 2, |p| {
        Some(p.per_second(p.counter(&["fathom", "journal", "syncs"])?))
    }),
    ours("process written KiB per write", 2, |p| Some(p.process_written_bytes as f64 / KIB / p.writes)),
    ours("writes per second", 0, |p| Some(p.per_second(p.writes))),
];
