//! The hold-out: a third of the cells, whose scores were not looked at while the rules were written, until they were scored once on 2026-11-26
//! (docs/journal/2026-11-26-verdicts.md).
//!
//! They are drawn with the hash of the commit that first held all cells. Cells whose verdicts were seen before are never among them.

use fathom_stats::SeededRandom;

use super::cell::Cell;
use super::cells::CELLS;

/// The first sixteen digits of that commit's hash.
const DRAW: u64 = 0xbc68_bff1_4df3_ea9b;

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

/// Whether a cell was held out.
pub(crate) fn holds(cell: &Cell) -> bool {
    let table = || CELLS.iter().map(|cell| cell.name).filter(|name| !LATER.contains(name));
    let count = table().count() / 3;
    let mut names: Vec<&str> = table().filter(|name| !SEEN.contains(name)).collect();
    // The draw must not depend on the order of the table.
    names.sort_unstable();
    SeededRandom::from_seed(DRAW).shuffle(&mut names);
    names.iter().take(count).any(|name| *name == cell.name)
}
