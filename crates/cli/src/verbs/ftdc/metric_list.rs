//! `fathom ftdc metrics`: lists the metrics of recordings, with the lowest and the highest value of each.

use std::collections::HashMap;

use anyhow::Result;
use clap::Args;
use fathom_ftdc::{SampleBlock, visit_samples};
use fathom_report::printable;
use serde_json::{Value, json};

use crate::outcome::VerbOutcome;
use crate::output;
use crate::recording_arguments::{RecordingArgs, SelectionArgs, matches, note_problems};

/// The version of the JSON document.
const SCHEMA: u32 = 1;

#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The values of a metric in all samples.
#[derive(Clone, Copy, Debug)]
struct MetricRange {
    least: i64,
    most: i64,
    samples: usize,
}

/// The ranges of all metrics, in the order in which they were recorded.
#[derive(Debug, Default)]
struct MetricRanges {
    ranges: Vec<(String, MetricRange)>,
    /// The number of each metric by its path.
    numbers: HashMap<String, usize>,
    /// The numbers of the last block's metrics. The next one has mostly the same.
    last: Vec<usize>,
}

impl MetricRanges {
    fn add(&mut self, block: &SampleBlock<'_>) {
        self.last.resize(block.metrics.len(), usize::MAX);
        for ((metric, column), number) in block.metrics.iter().zip(block.columns).zip(&mut self.last) {
            if self.ranges.get(*number).is_none_or(|(path, _)| *path != metric.path) {
                *number = *self.numbers.entry(metric.path.clone()).or_insert(self.ranges.len());
            }
            let least_and_most =
                |(least, most): (i64, i64), value: &i64| (least.min(*value), most.max(*value));
            let (least, most) = column.iter().fold((i64::MAX, i64::MIN), least_and_most);
            match self.ranges.get_mut(*number) {
                Some((_, known)) => {
                    known.least = known.least.min(least);
                    known.most = known.most.max(most);
                    known.samples += column.len();
                }
                None => {
                    let range = MetricRange { least, most, samples: column.len() };
                    self.ranges.push((metric.path.clone(), range));
                }
            }
        }
    }
}

/// Lists metrics in the order in which they were recorded.
pub(super) fn run(args: &MetricsArgs) -> Result<VerbOutcome> {
    let patterns = args.selection.patterns();
    let filter = args.selection.filter(&args.recording.zone())?;
    let mut ranges = MetricRanges::default();
    let is_wanted = |path: &str| matches(&patterns, path);
    let problems = visit_samples(&args.recording.paths, filter, &is_wanted, &mut |block| {
        ranges.add(&block);
        Ok(())
    })?;
    let ranges = ranges.ranges;
    if ranges.is_empty() {
        return Err(args.selection.nothing_found(problems).into());
    }
    if args.json {
        let metric = |(path, range): &(String, MetricRange)| json!({ "metric": path, "least": range.least, "most": range.most, "samples": range.samples });
        let metrics: Vec<Value> = ranges.iter().map(metric).collect();
        output::line(&serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "metrics": metrics }))?)?;
    } else {
        let mut lines = vec![format!("{:>20} {:>20}  metric", "min", "max")];
        lines.extend(
            ranges
                .iter()
                .map(|(path, range)| format!("{:>20} {:>20}  {}", range.least, range.most, printable(path))),
        );
        output::line(&lines.join("\n"))?;
    }
    note_problems(&problems);
    Ok(VerbOutcome::Clean)
}
