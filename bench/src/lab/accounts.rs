//! The kernel's accounts of a process and of a device (proc(5), `Documentation/admin-guide/iostats.rst`).

use std::fs;

use anyhow::{Context, Result};

/// Clock ticks per second of proc_pid_stat(5); the same on every Linux that Rust runs on.
const TICKS_PER_S: f64 = 100.0;
const SECTOR_BYTES: u64 = 512;

/// Counters of a block device since it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceTotals {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) flushes: u64,
}

impl DeviceTotals {
    /// The counters of `loop0` or `sda` now.
    pub(crate) fn read(name: &str) -> Result<DeviceTotals> {
        let text = fs::read_to_string("/proc/diskstats").context("cannot read /proc/diskstats")?;
        DeviceTotals::parse(&text, name)
            .with_context(|| format!("/proc/diskstats does not have {name} with flushes"))
    }

    fn parse(text: &str, name: &str) -> Option<DeviceTotals> {
        let fields: Vec<&str> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|f| f.get(2) == Some(&name))?;
        let field = |number: usize| fields.get(number)?.parse::<u64>().ok();
        Some(DeviceTotals {
            reads: field(3)?,
            writes: field(7)?,
            written_bytes: field(9)? * SECTOR_BYTES,
            flushes: field(18)?,
        })
    }

    /// The growth since `before`.
    pub(crate) fn since(self, before: DeviceTotals) -> DeviceTotals {
        DeviceTotals {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

/// Bytes that a process handed to system calls and to storage (proc_pid_io(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessBytes {
    /// `write_bytes`: pages that it made dirty, and direct writes.
    pub(crate) written_bytes: u64,
}

impl ProcessBytes {
    /// The account of a process now.
    pub(crate) fn read(pid: u32) -> Result<ProcessBytes> {
        let path = format!("/proc/{pid}/io");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        let written_bytes =
            line.and_then(|n| n.trim().parse().ok()).with_context(|| format!("no bytes in {path}"))?;
        Ok(ProcessBytes { written_bytes })
    }
}

/// Processor time that a process has used, its ended threads included, seconds.
pub(crate) fn cpu_s(pid: u32) -> Result<f64> {
    ticks(&format!("/proc/{pid}/stat"), 14)
}

/// Processor time of the children of this process that ended and were waited for, seconds.
pub(crate) fn cpu_of_children_s() -> Result<f64> {
    ticks("/proc/self/stat", 16)
}

/// The sum of a field of a `stat` file and the next one: user and system time.
fn ticks(path: &str, first: usize) -> Result<f64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    parse_ticks(&text, first).with_context(|| format!("cannot make sense of {path}"))
}

fn parse_ticks(text: &str, first: usize) -> Option<f64> {
    // The name in parentheses may hold anything; the third field follows it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some((field(first)? + field(first + 1)?) / TICKS_PER_S)
}

/// Memory that a process holds now (`VmRSS`), bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("no VmRSS in {path}"))? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_whole_name() {
        let text = "   7       1 loop1 9 0 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n\
                    \x20  7       0 loop0 3 0 24 1 100 5 2048 7 0 8 9 0 0 0 0 42 6\n";
        let device = DeviceTotals::parse(text, "loop0").unwrap();
        assert_eq!(device, DeviceTotals { reads: 3, writes: 100, written_bytes: 2048 * 512, flushes: 42 });
        assert_eq!(DeviceTotals::parse(text, "loop"), None);
        let older = "7 0 loop0 3 0 24 1 100 5 2048 7 0 8 9";
        assert_eq!(DeviceTotals::parse(older, "loop0"), None);
    }

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 9 9 9 9 100 20 3 4 20 0 1 0 5 6 7";
        assert_eq!((parse_ticks(stat, 14), parse_ticks(stat, 16)), (Some(1.2), Some(0.07)));
    }
}
