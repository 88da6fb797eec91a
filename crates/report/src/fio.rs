//! fio's json+ document, for fio-plot and other programs that read it (axboe/fio:stat.c).
//!
//! There is one job per step and stream, in the order in which they ran. All differences from fio are corrections: the document
//! is always valid (a figure that does not exist is 0 as in fio, never `nan`), the stream contains nothing else,
//! `sync.total_ios` counts the syncs, and a percentile is never above `max`.

use fathom_record::disk::{Step, Stream};
use fathom_stats::Histogram;
use fathom_units::Bytes;
use serde_json::{Map, Value, json};

/// The percentiles fio prints by default.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// One stream of a step with its whole distributions.
pub struct FioStep {
    pub step: Step,
    /// The index of the stream within the step.
    pub stream: usize,
    pub reads: Histogram,
    pub writes: Histogram,
    pub syncs: Histogram,
}

/// The whole document. `directory` and `size_bytes` become global options; `unix_ms` is the time of its end.
pub fn fio_json(steps: &[FioStep], version: &str, directory: &str, size_bytes: u64, unix_ms: u64) -> Value {
    let jobs: Vec<Value> = steps.iter().enumerate().filter_map(|(group, step)| job(group, step)).collect();
    let disks = steps.last().map_or_else(Vec::new, |last| disk_util(&last.step));
    json!({
        "fio version": format!("fathom-{version}"),
        "timestamp": unix_ms / 1000,
        "timestamp_ms": unix_ms,
        "time": "",
        "global options": { "directory": directory, "size": size_bytes.to_string() },
        "jobs": jobs,
        "disk_util": disks,
    })
}

fn job(group: usize, step: &FioStep) -> Option<Value> {
    let stream = step.step.streams.get(step.stream)?;
    let runtime_ms = (step.step.end_ns - step.step.begin_ns) / 1_000_000;
    let name = format!("{}-{}-{}", step.step.phase.replace(' ', "-"), stream.pattern, stream.depth);
    let empty = Histogram::new();
    let busy = step.step.generator_busy_pct.unwrap_or(0.0);
    Some(json!({
        "jobname": name,
        "groupid": group,
        "error": 0,
        "eta": 0,
        "elapsed": runtime_ms.div_ceil(1000),
        "job options": options(stream, runtime_ms),
        "read": direction(&step.reads, stream, runtime_ms),
        "write": direction(&step.writes, stream, runtime_ms),
        "trim": direction(&empty, stream, runtime_ms),
        "sync": { "total_ios": step.syncs.len(), "lat_ns": latency(&step.syncs, true) },
        "job_runtime": runtime_ms,
        "usr_cpu": busy,
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": depth_level(stream.depth),
        "latency_depth": stream.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    }))
}

fn options(stream: &Stream, runtime_ms: u64) -> Value {
    let mut options = Map::new();
    let mut put = |key: &str, value: String| options.insert(key.to_owned(), Value::String(value));
    let rw = match stream.pattern.as_str() {
        "append" => "write",
        "checkpoint" => "randwrite",
        other => other,
    };
    put("rw", rw.to_owned());
    put("bs", format!("{}k", stream.block_bytes / 1024));
    put("ioengine", stream.engine.clone());
    put("iodepth", stream.depth.to_string());
    put("runtime", (runtime_ms.div_ceil(1000)).to_string());
    match stream.durable.as_str() {
        "fdatasync" => put("fdatasync", "1".to_owned()),
        "dsync" => put("sync", "dsync".to_owned()),
        _ => None,
    };
    if let Some(rate) = stream.rate_per_s {
        put("rate_iops", format!("{rate:.0}"));
        put("rate_process", "poisson".to_owned());
    }
    Value::Object(options)
}

fn direction(histogram: &Histogram, stream: &Stream, runtime_ms: u64) -> Value {
    let seconds = runtime_ms.max(1) as f64 / 1000.0;
    let bytes = histogram.len() * stream.block_bytes;
    let (bandwidth, iops) = (bytes as f64 / seconds, histogram.len() as f64 / seconds);
    json!({
        "io_bytes": bytes,
        "io_kbytes": Bytes(bytes).get() / 1024,
        "bw_bytes": bandwidth as u64,
        "bw": (bandwidth / 1024.0) as u64,
        "iops": iops,
        "runtime": runtime_ms,
        "total_ios": histogram.len(),
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&Histogram::new(), false),
        "clat_ns": latency(histogram, true),
        "lat_ns": latency(histogram, false),
        "bw_min": 0, "bw_max": 0, "bw_agg": 0.0, "bw_mean": bandwidth / 1024.0, "bw_dev": 0.0, "bw_samples": 0,
        "iops_min": 0, "iops_max": 0, "iops_mean": iops, "iops_stddev": 0.0, "iops_samples": 0,
    })
}

/// fio's latency object; `whole` adds percentiles and bins, as json+ does.
fn latency(histogram: &Histogram, whole: bool) -> Value {
    let mut object = json!({
        "min": histogram.min_ns().unwrap_or(0),
        "max": histogram.max_ns().unwrap_or(0),
        "mean": histogram.mean_ns().unwrap_or(0.0),
        "stddev": histogram.stddev_ns().unwrap_or(0.0),
        "N": histogram.len(),
    });
    if whole && !histogram.is_empty() {
        let percentile = |p: &f64| (format!("{p:.6}"), json!(histogram.quantile_ns(p / 100.0).unwrap_or(0)));
        object["percentile"] = Value::Object(PERCENTILES.iter().map(percentile).collect());
        object["bins"] =
            Value::Object(histogram.buckets().map(|(ns, n)| (ns.to_string(), json!(n))).collect());
    }
    object
}

/// fio's shares of submissions by depth; a step of Fathom has a constant depth.
fn depth_level(depth: u32) -> Value {
    let bucket = |low: u32, high: u32| if (low..=high).contains(&depth) { 100.0 } else { 0.0 };
    json!({
        "1": bucket(1, 1), "2": bucket(2, 3), "4": bucket(4, 7), "8": bucket(8, 15), "16": bucket(16, 31),
        "32": bucket(32, 63), ">=64": bucket(64, u32::MAX),
    })
}

fn disk_util(step: &Step) -> Vec<Value> {
    let seconds = (step.end_ns - step.begin_ns) as f64 / 1e9;
    let ios = |per_s: f64| (per_s * seconds) as u64;
    let disk = |device: &fathom_record::disk::DeviceView| {
        json!({
            "name": device.name,
            "read_ios": ios(device.reads_per_s),
            "write_ios": ios(device.writes_per_s),
            "read_ticks": (device.r_await_ms.unwrap_or(0.0) * device.reads_per_s * seconds) as u64,
            "write_ticks": (device.w_await_ms.unwrap_or(0.0) * device.writes_per_s * seconds) as u64,
            "in_queue": (device.aqu_sz * seconds * 1000.0) as u64,
            "util": device.util_pct,
        })
    };
    step.devices.iter().map(disk).collect()
}
