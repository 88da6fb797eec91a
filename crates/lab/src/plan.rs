//! The trials of a study and their order: every cell once in each block, in random order, so that a drift over time affects all
//! cells alike (docs/methods.md#blocks-and-pairs).
//!
//! The order depends on the seed alone, so that an interrupted study continues with the same plan.

use fathom_errors::Result;
use fathom_stats::experiment::{self, block_orders, combinations};

use crate::Study;

/// One trial: a cell in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its number, from 0.
    pub number: usize,
    /// The block, from 0.
    pub block: usize,
    /// The cell, an index into [`TrialPlan::cells`].
    pub cell: usize,
    /// True if it repeats the first cell, to measure the difference between equal runs.
    pub is_twin: bool,
}

/// All trials of a study, in their order.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    /// The level of each factor, for each cell.
    pub cells: Vec<Vec<usize>>,
    pub trials: Vec<Trial>,
}

impl TrialPlan {
    /// The plan of a study.
    pub fn new(study: &Study) -> Result<TrialPlan> {
        let mut cells = combinations(&study.shape());
        if study.design.fraction > 0 {
            let kept = fraction(study)?;
            cells.retain(|cell| kept.contains(cell));
        }
        let twins = usize::from(study.design.twin);
        let orders = block_orders(cells.len() + twins, study.design.blocks, study.design.seed);
        let mut trials = Vec::new();
        for (block, order) in orders.into_iter().enumerate() {
            for place in order {
                let is_twin = place == cells.len();
                trials.push(Trial {
                    number: trials.len(),
                    block,
                    cell: if is_twin { 0 } else { place },
                    is_twin,
                });
            }
        }
        Ok(TrialPlan { cells, trials })
    }

    /// The labels of the levels of a cell.
    pub fn labels(&self, study: &Study, cell: usize) -> Vec<String> {
        self.cells.get(cell).map(|levels| study.labels(levels)).unwrap_or_default()
    }

    /// Returns whether the trial at this place is the first of its block.
    pub(crate) fn begins_block(&self, at: usize) -> bool {
        let block = |at: usize| self.trials.get(at).map(|trial| trial.block);
        at > 0 && block(at) != block(at - 1)
    }
}

/// The cells of a fraction of the full factorial.
fn fraction(study: &Study) -> Result<Vec<Vec<usize>>> {
    let found = experiment::fraction(&study.shape(), study.design.fraction);
    found.map(|fraction| fraction.cells).map_err(|error| study.refuse("fraction", &error.to_string()))
}
