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

/// Lists metrics in the order in which they were recorded.
pub(super) fn run(args: &MetricsArgs) -> Result<VerbOutcome> {
    let patterns = args.selection.patterns();
    let filter = args.selection.filter(&args.recording.zone())?;
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut ranges: Vec<(String, MetricRange)> = Vec::new();
    let is_wanted = |path: &str| matches(&patterns, path);
    let problems =
        visit_samples(&args.recording.paths, filter, &is_wanted, &mut |block: SampleBlock<'_>| {
            for (metric, column) in block.metrics.iter().zip(block.columns) {
                let (Some(least), Some(most)) = (column.iter().min(), column.iter().max()) else { continue };
                let range = MetricRange { least: *least, most: *most, samples: column.len() };
                match numbers.get(&metric.path).and_then(|number| ranges.get_mut(*number)) {
                    Some((_, known)) => {
                        known.least = known.least.min(range.least);
                        known.most = known.most.max(range.most);
                        known.samples += range.samples;
                    }
                    None => {
                        numbers.insert(metric.path.clone(), ranges.len());
                        ranges.push((metric.path.clone(), range));
                    }
                }
            }
            Ok(())
        })?;
    if ranges.is_empty() {
        return Err(args.selection.nothing_found().into());
    }
    if args.json {
        let metric = |(path, range): &(String, MetricRange)| json!({ "metric": path, "least": range.least, "most": range.most, "samples": range.samples });
        let metrics: Vec<Value> = ranges.iter().map(metric).collect();
        output::line(&serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "metrics": metrics }))?)?;
    } else {
        let mut lines = vec![format!("{:>20} {:>20}  metric", "least", "most")];
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
