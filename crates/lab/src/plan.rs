//! Which trials there are, and in which order: every cell once in each block, in random order, so that what drifts with time touches
//! all of them alike (analysis.md A7).
//!
//! The order depends on the seed alone, so that a study that was broken off goes on with the same plan.

use fathom_errors::Result;
use fathom_stats::experiment::block_orders;

use crate::Study;

/// One trial: a cell in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its number, from 0.
    pub number: usize,
    /// The block, from 0.
    pub block: usize,
    /// The cell, an index into [`Plan::cells`].
    pub cell: usize,
    /// Whether it repeats the first cell, to see how far equal runs lie apart.
    pub is_twin: bool,
}

/// All trials of a study, in their order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The level of each factor, for each cell.
    pub cells: Vec<Vec<usize>>,
    /// The trials.
    pub trials: Vec<Trial>,
}

/// Every combination of levels, the last factor counting fastest.
pub(crate) fn combinations(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |cells, levels| {
        let more = |cell: Vec<usize>| (0..*levels).map(move |level| [cell.clone(), vec![level]].concat());
        cells.into_iter().flat_map(more).collect()
    })
}

impl Plan {
    /// The plan of a study.
    pub fn of(study: &Study) -> Result<Plan> {
        let mut cells = combinations(&study.shape());
        if study.design.fraction > 0 {
            let kept = crate::answer::fraction(study)?;
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
        Ok(Plan { cells, trials })
    }

    /// Whether the trial at this place is the first of its block.
    pub(crate) fn begins_block(&self, at: usize) -> bool {
        let block = |at: usize| self.trials.get(at).map(|trial| trial.block);
        at > 0 && block(at) != block(at - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_all_of_them_once() {
        assert_eq!(combinations(&[2, 3]).len(), 6);
        assert_eq!(combinations(&[2, 3])[1], [0, 1]);
        assert_eq!(combinations(&[1]), [[0]]);
    }
}
