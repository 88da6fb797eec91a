//! Values by metric, cell and block.

use crate::journal::{TrialRecord, TrialResult};
use crate::{Study, TrialPlan};

/// The measurements of a study.
#[derive(Debug)]
pub(super) struct MeasurementTable {
    /// Values by metric, cell and block.
    values: Vec<Vec<Vec<Option<f64>>>>,
    /// Values of the first cell's twin, by metric and block.
    twins: Vec<Vec<Option<f64>>>,
    broken: Vec<usize>,
    blocks_complete: usize,
}

impl MeasurementTable {
    pub(super) fn new(study: &Study, plan: &TrialPlan, records: &[TrialRecord]) -> MeasurementTable {
        let blocks = study.design.blocks;
        let metrics = study.metrics.len();
        let mut table = MeasurementTable {
            values: vec![vec![vec![None; blocks]; plan.cells.len()]; metrics],
            twins: vec![vec![None; blocks]; metrics],
            broken: Vec::new(),
            blocks_complete: 0,
        };
        let mut ended = vec![0; blocks];
        for record in records {
            let Some(trial) = plan.trials.get(record.number) else { continue };
            if let Some(count) = ended.get_mut(trial.block) {
                *count += 1;
            }
            let TrialResult::Measured { values, .. } = &record.result else {
                table.broken.push(record.number);
                continue;
            };
            for (at, (metric, _)) in study.metrics.iter().enumerate() {
                let place = if trial.is_twin {
                    table.twins.get_mut(at).and_then(|row| row.get_mut(trial.block))
                } else {
                    table
                        .values
                        .get_mut(at)
                        .and_then(|cells| cells.get_mut(trial.cell))
                        .and_then(|row| row.get_mut(trial.block))
                };
                if let Some(place) = place {
                    *place = values.get(metric.name).copied();
                }
            }
        }
        let planned = |block: usize| plan.trials.iter().filter(|trial| trial.block == block).count();
        table.blocks_complete =
            ended.iter().enumerate().filter(|(block, count)| **count == planned(*block)).count();
        table
    }

    /// The number of blocks whose trials have all ended.
    pub(super) fn blocks_complete(&self) -> usize {
        self.blocks_complete
    }

    /// Returns whether a trial broke.
    pub(super) fn is_broken(&self, number: usize) -> bool {
        self.broken.contains(&number)
    }

    /// The values of a cell, by block.
    pub(super) fn row(&self, metric: usize, cell: usize) -> Vec<Option<f64>> {
        self.values.get(metric).and_then(|cells| cells.get(cell)).cloned().unwrap_or_default()
    }

    /// The logarithms of all values of a metric, by cell and block; a value not above 0 has none.
    pub(super) fn logs(&self, metric: usize) -> Vec<Vec<Option<f64>>> {
        let log = |value: &Option<f64>| value.filter(|value| *value > 0.0).map(f64::ln);
        let cells = self.values.get(metric).map(Vec::as_slice).unwrap_or_default();
        cells.iter().map(|row| row.iter().map(log).collect()).collect()
    }

    /// The log ratio of the first cell's twin to the first cell, by block.
    pub(super) fn twins(&self, metric: usize) -> Vec<(usize, f64)> {
        let twins = self.twins.get(metric).map(Vec::as_slice).unwrap_or_default();
        let ratio = |(block, (twin, first)): (usize, (&Option<f64>, Option<f64>))| {
            let ratio = (*twin)? / first?;
            (ratio > 0.0 && ratio.is_finite()).then(|| (block, ratio.ln()))
        };
        twins.iter().zip(self.row(metric, 0)).enumerate().filter_map(ratio).collect()
    }
}
