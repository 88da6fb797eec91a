//! Values as OpenMetrics text, which `promtool tsdb create-blocks-from openmetrics` reads.
//!
//! The format keeps all values of a metric together, so they are collected first.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fathom_errors::{Error, Result};
use fathom_ftdc::SampleBlock;

/// The most values that are collected: 640 MB.
const MAX_VALUES: usize = 40_000_000;

/// The values of one metric of one server, with their times in milliseconds since 1970 in UTC.
type MetricValues = Vec<(i64, i64)>;

/// Values by family, server and path.
#[derive(Debug, Default)]
pub(super) struct OpenMetrics {
    families: BTreeMap<String, BTreeMap<(String, String), MetricValues>>,
    values: usize,
}

impl OpenMetrics {
    /// Adds the values of a block.
    pub(super) fn add(&mut self, block: &SampleBlock<'_>) -> Result<()> {
        self.values += block.metrics.len() * block.starts_ms.len();
        if self.values > MAX_VALUES {
            return Err(Error::usage(
                "OpenMetrics keeps a metric's values together, and these are too many to collect",
            )
            .advise("choose metrics with --metric or a time with --from and --to, or use --format parquet"));
        }
        for (metric, column) in block.metrics.iter().zip(block.columns) {
            let key = (block.directory.to_owned(), metric.path.clone());
            let series = self.families.entry(family(&metric.path)).or_default().entry(key).or_default();
            series.extend(block.starts_ms.iter().copied().zip(column.iter().copied()));
        }
        Ok(())
    }

    /// Writes all values. Times rise within a series.
    pub(super) fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for (family, series) in &mut self.families {
            writeln!(out, "# TYPE {family} unknown")?;
            for ((server, path), values) in series {
                values.sort_unstable();
                // A path that occurs twice in a sample has two values at one time.
                values.dedup_by_key(|(start_ms, _)| *start_ms);
                let labels = format!("server=\"{}\",path=\"{}\"", escaped(server), escaped(path));
                for (start_ms, value) in values {
                    let (seconds, ms) = (start_ms.div_euclid(1000), start_ms.rem_euclid(1000));
                    writeln!(out, "{family}{{{labels}}} {value} {seconds}.{ms:03}")?;
                }
            }
        }
        writeln!(out, "# EOF")
    }
}

/// The name of a path: letters, digits and underscores.
fn family(path: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    format!("mongodb_{}", path.chars().map(clean).collect::<String>())
}

/// The text of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use fathom_ftdc::{Metric, MetricKind};

    use super::*;

    #[test]
    fn the_values_of_a_metric_stand_together_in_the_order_of_time() {
        let metric = |path: &str| Metric { path: path.to_owned(), kind: MetricKind::Int64, first: 0 };
        let (reads, log) = (metric("disks.sda.reads"), metric("log \"sync\" operations"));
        let mut metrics = OpenMetrics::default();
        for starts_ms in [[2000, 3050], [500, 1000]] {
            let columns = [vec![7, 8], vec![-1, 0]];
            let block = SampleBlock {
                directory: "db1",
                file: "metrics.interim",
                facts: &fathom_ftdc::ServerFacts::default(),
                reference: &bson::RawDocumentBuf::new(),
                starts_ms: &starts_ms,
                metrics: &[&reads, &log],
                columns: &columns,
            };
            metrics.add(&block).unwrap();
        }
        let mut text = Vec::new();
        metrics.write(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "# TYPE mongodb_disks_sda_reads unknown\n\
             mongodb_disks_sda_reads{server=\"db1\",path=\"disks.sda.reads\"} 7 0.500\n\
             mongodb_disks_sda_reads{server=\"db1\",path=\"disks.sda.reads\"} 8 1.000\n\
             mongodb_disks_sda_reads{server=\"db1\",path=\"disks.sda.reads\"} 7 2.000\n\
             mongodb_disks_sda_reads{server=\"db1\",path=\"disks.sda.reads\"} 8 3.050\n\
             # TYPE mongodb_log__sync__operations unknown\n\
             mongodb_log__sync__operations{server=\"db1\",path=\"log \\\"sync\\\" operations\"} -1 0.500\n\
             mongodb_log__sync__operations{server=\"db1\",path=\"log \\\"sync\\\" operations\"} 0 1.000\n\
             mongodb_log__sync__operations{server=\"db1\",path=\"log \\\"sync\\\" operations\"} -1 2.000\n\
             mongodb_log__sync__operations{server=\"db1\",path=\"log \\\"sync\\\" operations\"} 0 3.050\n\
             # EOF\n"
        );
    }
}
