//! The hold-out: a third of the cells, whose scores are not looked at while rules are written.
//!
//! They are drawn with the hash of the commit that first held all cells. Cells whose verdicts were seen before are never among them.

use fathom_stats::Seeded;

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

/// Whether a cell is held out.
pub(crate) fn holds(cell: &Cell) -> bool {
    let mut names: Vec<&str> =
        CELLS.iter().map(|cell| cell.name).filter(|name| !SEEN.contains(name)).collect();
    // The draw must not depend on the order of the table.
    names.sort_unstable();
    Seeded::from_seed(DRAW).shuffle(&mut names);
    names.iter().take(CELLS.len() / 3).any(|name| *name == cell.name)
}
