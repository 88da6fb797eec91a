//! Makes recordings with the traps of real ones that may not be copied into this project, each in a file of our own encoder.
//!
//! A server serves 900 reads and 100 writes a second for a quarter of an hour. In some traps its storage is slow for one minute of that.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use bson::{DateTime, Document, doc};
use fathom_errors::Result;

use crate::recording::{RECORDING_BEGIN_MS, RecordingWriter};

const SECONDS: i64 = 900;
/// The seconds in which storage is slow, or the file system full.
const BAD: Range<i64> = 600..660;
/// The second before which a gap begins.
const GAP_AT: i64 = 300;
/// The first of January 2100 in UTC.
const FAR_AHEAD_MS: i64 = 4_102_444_800_000;

/// A trap of real recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingTrap {
    /// A build whose data are on other hosts; its syncs are slow for a minute.
    DisaggregatedStorage,
    /// The counters of Windows, named rates; syncs on the only disk are slow for a minute.
    WindowsDisks,
    /// An interim file and the one that is to replace it: 700 samples, 150 of them in two files.
    InterimTemp,
    /// An hour in which nothing was counted.
    SuspendedHost,
    /// Another program reads 100 MB a second from a disk that is not the database's.
    BusyForeignDisk,
    /// No free byte for a minute.
    FullFileSystem,
    /// Half a minute of samples whose times begin in 1970.
    ClockFromZero,
    /// Half a minute of samples from 2100.
    ClockFarAhead,
    /// A clock that is set back by 100.5 s.
    ClockSetBack,
    /// A stop of 4 s, after which clients send most of what they owe before the next sample.
    StopWithBacklog,
    /// A sample that takes 3.9 s while operations continue.
    LongSample,
}

/// The counters of a server and its host.
#[derive(Clone, Copy, Debug, Default)]
struct TrapCounters {
    reads: i64,
    writes: i64,
    write_us: i64,
    syncs: i64,
    sync_us: i64,
    engine_bytes: i64,
    disk_writes: i64,
    disk_ms: i64,
    foreign_bytes: i64,
    processor_ms: i64,
}

impl TrapCounters {
    /// Adds a second with slow or with fast storage.
    fn add_second(&mut self, is_slow: bool) {
        let (write_us, syncs, sync_us, request_ms) =
            if is_slow { (60_000, 5, 150_000, 100) } else { (1000, 10, 2000, 1) };
        self.reads += 900;
        self.writes += 100;
        self.write_us += 100 * write_us;
        self.syncs += syncs;
        self.sync_us += syncs * sync_us;
        self.engine_bytes += 2_000_000;
        self.disk_writes += 100;
        self.disk_ms += 100 * request_ms;
        self.foreign_bytes += 100_000_000;
        self.processor_ms += 4000;
    }

    fn sample(&self, trap: RecordingTrap, start_ms: i64, uptime_ms: i64, is_full: bool) -> Document {
        let time = DateTime::from_millis(start_ms);
        let is_windows = trap == RecordingTrap::WindowsDisks;
        let took_ms = if trap == RecordingTrap::LongSample && uptime_ms == GAP_AT * 1000 { 3900 } else { 3 };
        let process = if is_windows { "C:\\Program Files\\acme\\mongod.exe" } else { "mongod" };
        let status = doc! {
            "start": time, "host": "db1.example.net:27017", "version": "7.0.12", "process": process, "pid": 4711_i64,
            "uptimeMillis": uptime_ms,
            "opLatencies": {
                "reads": { "latency": 200 * self.reads, "ops": self.reads },
                "writes": { "latency": self.write_us, "ops": self.writes },
            },
            "storageEngine": { "name": "wiredTiger" },
            "wiredTiger": {
                "block-manager": { "bytes read": 0_i64, "bytes written": self.engine_bytes },
                "log": {
                    "log bytes written": self.engine_bytes / 2, "log sync operations": self.syncs,
                    "log sync time duration (usecs)": self.sync_us,
                },
            },
        };
        doc! {
            "start": time, "serverStatus": status,
            "systemMetrics": if is_windows { self.windows() } else { self.linux(trap, is_full) },
            "end": DateTime::from_millis(start_ms + took_ms),
        }
    }

    fn linux(&self, trap: RecordingTrap, is_full: bool) -> Document {
        let mut disks = doc! {
            "sda": {
                "reads": 0_i64, "read_sectors": 0_i64, "read_time_ms": 0_i64, "writes": self.disk_writes,
                "write_sectors": self.engine_bytes * 8 / 5 / 512, "write_time_ms": self.disk_ms,
                "io_time_ms": self.disk_ms.min(self.processor_ms / 4),
            },
        };
        if trap == RecordingTrap::BusyForeignDisk {
            let requests = self.foreign_bytes / 131_072;
            let foreign = doc! {
                "reads": requests, "read_sectors": self.foreign_bytes / 512, "read_time_ms": requests,
                "writes": 0_i64, "write_sectors": 0_i64, "write_time_ms": 0_i64, "io_time_ms": requests * 9 / 10,
            };
            disks.insert("sdb", foreign);
        }
        let available = if is_full { 0_i64 } else { 50_000_000_000 };
        doc! {
            "cpu": { "num_cpus": 4_i64, "user_ms": self.processor_ms / 10, "idle_ms": self.processor_ms * 9 / 10 },
            "disks": disks,
            "mounts": { "/data/db": { "capacity": 100_000_000_000_i64, "available": available } },
        }
    }

    /// Running totals, times in units of 100 ns.
    fn windows(&self) -> Document {
        doc! {
            "cpu": {
                "\\Processor\\% Idle Time": self.processor_ms * 9000, "\\Processor\\% User Time": self.processor_ms * 1000,
                "\\Processor\\% Privileged Time": 0_i64,
            },
            "disks": {
                "0 C: D:": {
                    "\\PhysicalDisk\\% Disk Read Time": 0_i64, "\\PhysicalDisk\\Disk Reads/sec": 0_i64,
                    "\\PhysicalDisk\\Disk Read Bytes/sec": 0_i64,
                    "\\PhysicalDisk\\% Disk Write Time": self.disk_ms * 10_000,
                    "\\PhysicalDisk\\Disk Writes/sec": self.disk_writes,
                    "\\PhysicalDisk\\Disk Write Bytes/sec": self.engine_bytes * 8 / 5,
                },
            },
        }
    }
}

/// The samples of a trap with the times at which they begin.
fn samples(trap: RecordingTrap) -> Vec<(i64, Document)> {
    use RecordingTrap::{
        ClockFarAhead, ClockFromZero, ClockSetBack, DisaggregatedStorage, FullFileSystem, LongSample,
        StopWithBacklog, SuspendedHost, WindowsDisks,
    };
    let mut counters = TrapCounters::default();
    let mut samples = Vec::new();
    for second in 0..SECONDS {
        let is_bad = BAD.contains(&second);
        counters.add_second(is_bad && matches!(trap, DisaggregatedStorage | WindowsDisks));
        let in_gap = (GAP_AT + 1..GAP_AT + 4).contains(&second);
        // Times of the process, which the clock does not change.
        let uptime_ms = second * 1000;
        let clock_ms = match trap {
            ClockFromZero if second < 30 => second * 1000 + 5000,
            ClockFarAhead if (GAP_AT..GAP_AT + 30).contains(&second) => FAR_AHEAD_MS + second * 1000,
            ClockSetBack if second >= GAP_AT => RECORDING_BEGIN_MS + uptime_ms - 100_500,
            SuspendedHost if second > GAP_AT => RECORDING_BEGIN_MS + uptime_ms + 3_600_000,
            _ => RECORDING_BEGIN_MS + uptime_ms,
        };
        let mut shown = counters;
        match trap {
            LongSample | StopWithBacklog if in_gap => continue,
            // One operation in four of those that arrived meanwhile is still to come.
            StopWithBacklog if second == GAP_AT + 4 => {
                shown.reads -= 900;
                shown.writes -= 100;
                shown.write_us -= 100_000;
            }
            _ => {}
        }
        samples.push((clock_ms, shown.sample(trap, clock_ms, uptime_ms, is_bad && trap == FullFileSystem)));
    }
    samples
}

/// Writes a `diagnostic.data` folder with a trap.
///
/// # Errors
/// When a file cannot be written.
pub fn write_trap(directory: &Path, trap: RecordingTrap) -> io::Result<()> {
    let file = |samples: &[(i64, Document)]| -> Result<Vec<u8>> {
        let mut writer = RecordingWriter::default();
        if trap == RecordingTrap::DisaggregatedStorage {
            let parsed = doc! { "setParameter": { "disaggregatedStorageEnabled": "true" } };
            writer.metadata_of(RECORDING_BEGIN_MS, &doc! { "getCmdLineOpts": { "parsed": parsed } });
        } else {
            writer.metadata(RECORDING_BEGIN_MS);
        }
        for (start_ms, sample) in samples {
            writer.sample(*start_ms, sample)?;
        }
        writer.end_chunk()?;
        Ok(writer.into_bytes())
    };
    let samples = samples(trap);
    let files = match trap {
        RecordingTrap::InterimTemp => vec![
            ("metrics.2025-07-10T19-28-00Z-00000", 0..600),
            ("metrics.interim", 570..690),
            ("metrics.interim.temp", 570..700),
        ],
        _ => vec![("metrics.2025-07-10T19-28-00Z-00000", 0..samples.len())],
    };
    fs::create_dir_all(directory)?;
    for (name, part) in files {
        let contents = file(samples.get(part).unwrap_or_default()).map_err(io::Error::other)?;
        fs::write(directory.join(name), contents)?;
    }
    Ok(())
}
