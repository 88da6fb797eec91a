//! The hold-out: a third of the cells, whose scores were not looked at while the rules were written, until they were scored once on 2026-11-26
//! (docs/journal/2026-11-26-verdicts.md).
//!
//! They are drawn with the hash of the commit that first held all cells. Cells whose verdicts were seen before are never among them. A third of the
//! cells with the work of other clients, which came later, is held out too: it was drawn with the hash of the commit before them, when none had
//! been recorded.

use fathom_stats::SeededRandom;

use super::cell::Cell;
use super::cells::CELLS;

/// The first sixteen digits of that commit's hash.
const DRAW: u64 = 0xbc68_bff1_4df3_ea9b;

/// The same of the last commit without the work of other clients.
const WORK_DRAW: u64 = 0x5054_92ec_1609_b5b0;

/// Cells that were seen before the draw.
const SEEN: [&str; 8] = [
    "slow-reads-target",
    "slow-syncs-20",
    "read-cap-target",
    "write-cap-target",
    "delay-target",
    "stop-mixed",
    "control-light",
    "control-memory",
];

/// Cells that were added after the draw.
const LATER: [&str; 3] = ["host-pause", "clock-step", "one-connection-cache"];

/// The cells with the work of other clients.
const WORK: [&str; 16] = [
    "scans-large",
    "scans-small",
    "scans-updates",
    "sorts",
    "scans-harmless",
    "index-build-target",
    "index-build-closed",
    "index-build-idle",
    "import-small-cache",
    "import-large-cache",
    "import-slow-device",
    "import-with-room",
    "one-client-past-cache",
    "cap-not-reached",
    "rocks-scans",
    "rocks-import",
];

/// Whether a cell was held out.
pub(crate) fn holds(cell: &Cell) -> bool {
    if WORK.contains(&cell.name) {
        return drawn(WORK.to_vec(), WORK.len() / 3, WORK_DRAW).contains(&cell.name);
    }
    let table =
        || CELLS.iter().map(|cell| cell.name).filter(|name| !LATER.contains(name) && !WORK.contains(name));
    let names = table().filter(|name| !SEEN.contains(name)).collect();
    drawn(names, table().count() / 3, DRAW).contains(&cell.name)
}

/// So many of the names, drawn with a seed.
fn drawn(mut names: Vec<&'static str>, count: usize, seed: u64) -> Vec<&'static str> {
    // The draw must not depend on the order of the table.
    names.sort_unstable();
    SeededRandom::from_seed(seed).shuffle(&mut names);
    names.truncate(count);
    names
}
