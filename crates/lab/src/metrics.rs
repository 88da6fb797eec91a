//! The metrics of studies: the figures of a trial from its run folders, and the table of metrics that are read from them.
//!
//! A figure that a trial does not support (a percentile of too few operations, a missing counter) is absent, never zero.

use fathom_errors::{Error, Result};
use fathom_explain::{Evidence, judge, member_rows};
use fathom_record::Run;
use fathom_record::amplification::Amplification;
use fathom_record::disk::{Entry, Latency, Step};
use fathom_record::figure::BetterDirection;
use fathom_record::load::{Load, LoadOperation};
use fathom_record::members::MemberRow;
use fathom_record::study::StudyMetric;
use serde::{Deserialize, Serialize};

/// The measurement of a study's trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measures {
    Load,
    Probe,
}

/// A metric that studies measure.
#[derive(Debug)]
pub struct TrialMetric {
    /// Its name in a study's file.
    pub name: &'static str,
    pub unit: &'static str,
    /// The direction that is better.
    pub better: BetterDirection,
    /// The kinds of studies that have it.
    pub measures: Measures,
    /// Its description, in a few words.
    pub about: &'static str,
    pub(crate) read: fn(&MetricSources) -> Option<f64>,
}

macro_rules! metric {
    ($name:literal, $unit:literal, $better:ident, $measures:ident, $about:literal, $read:expr) => {
        TrialMetric {
            name: $name,
            unit: $unit,
            better: BetterDirection::$better,
            measures: Measures::$measures,
            about: $about,
            read: $read,
        }
    };
}

/// Table: all of them.
pub static METRICS: &[TrialMetric] = &[
    metric!("throughput", "1/s", Higher, Load, "operations a second of the run", |f| Some(
        f.run.as_ref()?.per_s
    )),
    metric!("load_throughput", "1/s", Higher, Load, "inserts a second while the records are loaded", |f| {
        Some(f.load.as_ref()?.per_s)
    }),
    metric!("latency", "ns", Lower, Load, "mean response time of all operations of the run", |f| mean(
        f.run.as_ref()?
    )),
    metric!("latency_p99", "ns", Lower, Load, "99th percentile of the slowest kind of operation", |f| {
        slowest(f.run.as_ref()?, |latency| latency.p99_ns)
    }),
    metric!("read_latency", "ns", Lower, Load, "mean response time of reads", |f| operation(
        f,
        "READ",
        |latency| Some(latency.mean_ns)
    )),
    metric!("read_p99", "ns", Lower, Load, "99th percentile of reads", |f| operation(f, "READ", |latency| {
        latency.p99_ns.map(|ns| ns as f64)
    })),
    metric!("update_latency", "ns", Lower, Load, "mean response time of updates", |f| operation(
        f,
        "UPDATE",
        |latency| Some(latency.mean_ns)
    )),
    metric!("update_p99", "ns", Lower, Load, "99th percentile of updates", |f| operation(
        f,
        "UPDATE",
        |latency| latency.p99_ns.map(|ns| ns as f64)
    )),
    metric!("insert_latency", "ns", Lower, Load, "mean response time of inserts of the run", |f| operation(
        f,
        "INSERT",
        |latency| Some(latency.mean_ns)
    )),
    metric!("insert_p99", "ns", Lower, Load, "99th percentile of inserts of the run", |f| operation(
        f,
        "INSERT",
        |latency| latency.p99_ns.map(|ns| ns as f64)
    )),
    metric!("worst_stall", "ns", Lower, Load, "the longest that any operation of the run took", |f| slowest(
        f.run.as_ref()?,
        |latency| Some(latency.max_ns)
    )),
    metric!(
        "device_written_per_operation",
        "bytes",
        Lower,
        Load,
        "bytes that the devices of all members wrote for each operation",
        |f| f.per_operation(|row| row.written_per_operation_bytes)
    ),
    metric!(
        "device_read_per_operation",
        "bytes",
        Lower,
        Load,
        "bytes that the devices of all members read for each operation",
        |f| f.per_operation(|row| row.read_per_operation_bytes)
    ),
    metric!(
        "device_ios_per_operation",
        "1",
        Lower,
        Load,
        "reads and writes of all devices for each operation",
        MetricSources::device_ios_per_operation
    ),
    metric!(
        "engine_written_per_operation",
        "bytes",
        Lower,
        Load,
        "bytes that the engines of all members wrote for each operation",
        |f| f.per_operation(|row| row.engine_written_per_operation_bytes)
    ),
    metric!(
        "server_cpu_per_operation",
        "us",
        Lower,
        Load,
        "processor time of all servers for each operation",
        MetricSources::cpu_per_operation
    ),
    metric!(
        "device_write_latency",
        "ns",
        Lower,
        Load,
        "mean time of a device write, of the slowest member",
        |f| f.slowest_member(|row| row.device_write_us)
    ),
    metric!(
        "device_read_latency",
        "ns",
        Lower,
        Load,
        "mean time of a device read, of the slowest member",
        |f| f.slowest_member(|row| row.device_read_us)
    ),
    metric!(
        "write_amplification",
        "1",
        Lower,
        Load,
        "bytes written to devices for each byte of a user, of the first member",
        |f| f.amplifications.first()?.whole()
    ),
    metric!(
        "space",
        "1",
        Lower,
        Load,
        "bytes on the disk for each byte of a user, of the first member",
        |f| f.amplifications.first()?.space
    ),
    metric!("iops", "1/s", Higher, Probe, "requests of the probe a second", |f| Some(
        f.step.as_ref()?.per_s()
    )),
    metric!("bandwidth", "MiB/s", Higher, Probe, "MiB of the probe a second", |f| Some(
        f.step.as_ref()?.mib_per_s()
    )),
    metric!("request_latency", "ns", Lower, Probe, "mean latency of a request", |f| f
        .step
        .as_ref()?
        .mean_latency_ns()),
    metric!("request_p99", "ns", Lower, Probe, "99th percentile of the slowest kind of request", |f| {
        slowest_request(f.step.as_ref()?, |latency| latency.p99_ns)
    }),
    metric!("request_worst", "ns", Lower, Probe, "the longest that any request took", |f| slowest_request(
        f.step.as_ref()?,
        |latency| Some(latency.max_ns)
    )),
    metric!("cpu_per_request", "us", Lower, Probe, "processor time of the probe for each request", |f| f
        .step
        .as_ref()?
        .cpu_us_per_operation),
];

impl TrialMetric {
    /// The metric of this name; an unknown one is refused with what is nearest to it.
    pub fn named(name: &str) -> Result<&'static TrialMetric> {
        METRICS.iter().find(|metric| metric.name == name).ok_or_else(|| {
            let near = METRICS.iter().max_by(|a, b| {
                strsim::jaro_winkler(a.name, name).total_cmp(&strsim::jaro_winkler(b.name, name))
            });
            let near = near.filter(|metric| strsim::jaro_winkler(metric.name, name) > 0.8);
            let hint = near.map_or_else(String::new, |metric| format!(", did you mean '{}'?", metric.name));
            Error::usage(format!("there is no metric '{name}'{hint}"))
                .advise("'fathom compare --factors' lists all of them too")
        })
    }

    /// Converts it to the form in a study's record.
    pub(crate) fn record(&self, primary: bool) -> StudyMetric {
        StudyMetric { name: self.name.to_owned(), unit: self.unit.to_owned(), better: self.better, primary }
    }
}

/// The latency from the time at which an operation was due, if it had one; this is a user's wait.
fn latency(operation: &LoadOperation) -> Option<&Latency> {
    operation.response.as_ref().or(operation.service.as_ref())
}

fn operation(figures: &MetricSources, name: &str, of: fn(&Latency) -> Option<f64>) -> Option<f64> {
    let run = figures.run.as_ref()?;
    of(latency(run.by_operation.iter().find(|operation| operation.name == name)?)?)
}

fn mean(load: &Load) -> Option<f64> {
    let parts = load.by_operation.iter().filter_map(|one| Some((one.count as f64, latency(one)?.mean_ns)));
    let (count, sum) = parts.fold((0.0, 0.0), |(count, sum), (n, mean)| (count + n, sum + n * mean));
    (count > 0.0).then(|| sum / count)
}

fn slowest(load: &Load, of: fn(&Latency) -> Option<u64>) -> Option<f64> {
    load.by_operation.iter().filter_map(|one| of(latency(one)?)).max().map(|ns| ns as f64)
}

fn slowest_request(step: &Step, of: fn(&Latency) -> Option<u64>) -> Option<f64> {
    let kinds = step.streams.iter().flat_map(fathom_record::disk::Stream::headline);
    kinds.filter_map(|one| of(&one.latency)).max().map(|ns| ns as f64)
}

/// The figures that metrics are read from.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricSources {
    /// The loading of the records.
    pub load: Option<Load>,
    pub run: Option<Load>,
    pub step: Option<Step>,
    /// The bytes written for each byte of a user, by server.
    pub amplifications: Vec<Amplification>,
    /// The requests of each server to its devices, for each operation of the run.
    pub members: Vec<MemberRow>,
    /// Processor time of all servers during the run, in microseconds.
    pub servers_cpu_us: Option<f64>,
}

/// The load in a run folder.
pub(crate) fn load_of(run: &Run) -> Result<Option<Load>> {
    let mut loads = run.results()?.into_iter().filter_map(|entry| match entry {
        Entry::Load(load) => Some(load),
        _ => None,
    });
    Ok(loads.next_back())
}

/// The figures of a watched run from its folder.
pub(crate) fn figures_of(run: &Run) -> Result<MetricSources> {
    let evidence = Evidence::from_run(run)?;
    let amplifications = judge(&evidence).amplifications;
    let members = member_rows(&evidence);
    let cpu = evidence
        .members()
        .iter()
        .filter_map(|member| evidence.sum(&format!("server.{member}.process.cpu_us")))
        .reduce(|a, b| a + b);
    Ok(MetricSources {
        run: load_of(run)?,
        amplifications,
        members,
        servers_cpu_us: cpu,
        ..MetricSources::default()
    })
}

impl MetricSources {
    /// The sum over servers of a figure for each operation; devices that servers share count once.
    pub(crate) fn per_operation(&self, of: fn(&MemberRow) -> Option<f64>) -> Option<f64> {
        self.summed(of)
    }

    /// Reads and writes of all devices for each operation of the run.
    pub(crate) fn device_ios_per_operation(&self) -> Option<f64> {
        let per_s = self.run.as_ref()?.per_s;
        let ios =
            self.summed(|row| Some(row.device_reads_per_s.unwrap_or(0.0) + row.device_writes_per_s?))?;
        (per_s > 0.0).then(|| ios / per_s)
    }

    /// Processor time of all servers for each operation of the run, in microseconds.
    pub(crate) fn cpu_per_operation(&self) -> Option<f64> {
        let operations = self.run.as_ref()?.operations;
        (operations > 0).then_some(self.servers_cpu_us? / operations as f64)
    }

    /// The worst of the devices' mean times, given in microseconds, in nanoseconds.
    pub(crate) fn slowest_member(&self, of: fn(&MemberRow) -> Option<f64>) -> Option<f64> {
        self.members.iter().filter_map(of).reduce(f64::max).map(|us| us * 1e3)
    }

    fn summed(&self, of: impl Fn(&MemberRow) -> Option<f64>) -> Option<f64> {
        let mut counted: Vec<&String> = Vec::new();
        let mut sum = None;
        for row in &self.members {
            if row.shared_devices.iter().any(|device| counted.contains(&device)) {
                continue;
            }
            counted.extend(&row.shared_devices);
            sum = of(row).map(|value| sum.unwrap_or(0.0) + value).or(sum);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use fathom_stats::Histogram;

    use super::*;

    fn run() -> Load {
        let mut quick = Histogram::new();
        (0..3000).for_each(|step| quick.record(100_000 + step));
        let mut slow = Histogram::new();
        (0..1000).for_each(|_| slow.record(500_000));
        Load {
            server: "s".to_owned(),
            workload: "a".to_owned(),
            connections: 4,
            seconds: 2.0,
            operations: 4000,
            per_s: 2000.0,
            offered_per_s: None,
            by_operation: vec![
                LoadOperation::new("READ", 3000, 0, &quick, &quick),
                LoadOperation::new("UPDATE", 1000, 0, &slow, &slow),
            ],
            client_cpu_share: 0.1,
            client_limited: false,
        }
    }

    #[test]
    fn figures_are_found_in_a_trial_and_absent_ones_stay_absent() {
        let figures = MetricSources { run: Some(run()), ..MetricSources::default() };
        let read = |name: &str| (TrialMetric::named(name).unwrap().read)(&figures);
        assert_eq!(read("throughput"), Some(2000.0));
        let mean = read("latency").unwrap();
        assert!((mean - 0.75 * 101_500.0 - 0.25 * 500_000.0).abs() < 2000.0, "{mean}");
        assert!(read("update_p99").unwrap() >= 499_000.0 && read("read_p99").unwrap() < 110_000.0);
        assert_eq!(read("latency_p99"), read("update_p99"));
        for absent in ["insert_p99", "load_throughput", "iops", "write_amplification", "device_write_latency"]
        {
            assert_eq!(read(absent), None, "{absent}");
        }
    }

    #[test]
    fn an_unknown_metric_is_answered() {
        assert!(
            TrialMetric::named("thruput").unwrap_err().to_string().contains("did you mean 'throughput'?")
        );
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }

    fn row(written: f64, shared: &[&str]) -> MemberRow {
        MemberRow {
            written_per_operation_bytes: Some(written),
            shared_devices: shared.iter().map(|name| (*name).to_owned()).collect(),
            ..MemberRow::default()
        }
    }

    #[test]
    fn a_shared_device_counts_once() {
        let members = vec![row(10.0, &["vda"]), row(10.0, &["vda"]), row(4.0, &[]), MemberRow::default()];
        let figures = MetricSources { members, ..MetricSources::default() };
        assert_eq!(figures.per_operation(|row| row.written_per_operation_bytes), Some(14.0));
        assert_eq!(figures.per_operation(|row| row.read_per_operation_bytes), None);
    }
}
