//! Reads the block layer's counters of the watched devices and the counters of the file systems' journals on them, each
//! second.
//!
//! Flushes of a volatile cache distort the write counters in two ways. An empty flush (fdatasync of an overwrite) also
//! counts as a write of no data. A flush that a file system's journal requests with a commit does not, and a device
//! without FUA takes two of those for each commit. The kernel does not distinguish the two kinds, but the journals'
//! commits do: measured on a loop device under ext4, 797 commits came with 1594 flushes, and the 2392 writes included
//! none of these. The time of a flush is in field 8 in both cases, and is subtracted: the rest was 82.6 us a request,
//! while tracepoints measured 76.0 from issue to completion.
//!
//! A device whose requests the kernel does not count shows zeros that mean nothing: they are left out, with a note, never
//! written.
//!
//! ext4 reports the time of a commit only as a moving average of the last few, so the time of a window is an estimate: its
//! commits times that average. The estimate is right while commits are alike, and lags by a few commits after a change.

use std::collections::HashMap;

use fathom_errors::{Error, Kind, Result};
use fathom_host::diskstats::{DiskSampler, SECTOR_BYTES, Sample, no_counters_of};
use fathom_host::file_system_journal::{self, JournalCounters, read};
use fathom_host::rates::Delta;
use fathom_host::{BlockTree, DeviceKind, View};

use super::{Edge, WatchedDevice, is_silent};
use crate::sampler::Notes;
use crate::{Batch, Sampler};

/// Reads the counters once for all watched devices.
pub(crate) struct DeviceCounters {
    view: View,
    tree: BlockTree,
    targets: Vec<WatchedDevice>,
    sampler: Option<DiskSampler>,
    last: Option<DeviceReading>,
    notes: Notes,
}

/// The counters at one moment.
struct DeviceReading {
    at_ns: u64,
    sample: Sample,
    /// Commits of every journal, by its device.
    commits: HashMap<String, u64>,
}

impl DeviceCounters {
    pub(crate) fn new(view: &View, targets: &[WatchedDevice]) -> DeviceCounters {
        DeviceCounters {
            view: view.clone(),
            tree: BlockTree::read(view),
            targets: targets.to_vec(),
            sampler: None,
            last: None,
            notes: Notes::default(),
        }
    }
}

impl Sampler for DeviceCounters {
    fn name(&self) -> String {
        "devices".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let mut sampler = match self.sampler.take() {
            Some(sampler) => sampler,
            None => {
                let sampler = DiskSampler::open(&self.view)?;
                batch.notes.extend(sampler.note());
                sampler
            }
        };
        let begin_ns = batch.clock.now_ns();
        let sample = sampler.sample()?;
        // The middle of the read, as the sample's own time stamp has it.
        let at_ns = begin_ns.midpoint(batch.clock.now_ns());
        self.sampler = Some(sampler);
        let journals = file_system_journal::read(&self.view).into_iter();
        let commits = journals.map(|(device, counters)| (device, counters.commits)).collect();
        let now = DeviceReading { at_ns, sample, commits };
        // Hidden paths of NVMe have no number of their own on older kernels.
        let gone = |target: &&WatchedDevice| now.sample.by_name(&target.name).is_none();
        let missing: Vec<&str> =
            self.targets.iter().filter(gone).map(|target| target.name.as_str()).collect();
        let missing = (!missing.is_empty()).then(|| no_counters_of(&missing));
        if let Some(last) = self.last.as_ref().filter(|last| last.at_ns < at_ns) {
            for target in &self.targets {
                if is_silent(&self.view, &self.tree, target, |name| now.sample.by_name(name)) {
                    self.notes.once(batch, silence(&self.view, &self.tree, target));
                } else {
                    put(batch, target, last, &now);
                }
            }
        }
        self.last = Some(now);
        missing.map_or(Ok(()), |missing| Err(Error::new(Kind::NotFound, missing)))
    }
}

/// The note on a device whose requests are not counted.
fn silence(view: &View, tree: &BlockTree, target: &WatchedDevice) -> String {
    let name = &target.name;
    let device = tree.by_name(name);
    if device.is_some_and(|device| device.is_frozen(view)) {
        let queue = &target.queue;
        return format!(
            "What {name} does is not known: /{queue}/iostats is 0, so the kernel does not count its requests."
        );
    }
    let below: Vec<&str> = tree.leaves(device).into_iter().map(|leaf| leaf.name.as_str()).collect();
    format!("What {name} does is not known: the kernel counts its requests only at {}.", below.join(", "))
}

/// The flushes that journals above a device requested with their commits.
fn journal_flushes(target: &WatchedDevice, before: &DeviceReading, after: &DeviceReading) -> u64 {
    let commits = target
        .above
        .iter()
        .filter_map(|name| Some(after.commits.get(name)?.saturating_sub(*before.commits.get(name)?)));
    let per_commit = if target.has_fua { 1 } else { 2 };
    commits.fold(0, u64::saturating_add).saturating_mul(per_commit)
}

fn put(batch: &mut Batch, target: &WatchedDevice, before: &DeviceReading, after: &DeviceReading) {
    let of = |reading: &DeviceReading| reading.sample.by_name(&target.name).copied();
    let (Some(then), Some(now)) = (of(before), of(after)) else { return };
    let delta = Delta::between(&then, &now);
    if delta.was_reset() {
        return;
    }
    let window_ns = (before.at_ns, after.at_ns);
    let (reads, writes) = (delta.reads(), delta.writes());
    // A partition always shows zeros for flushes: it has no counter.
    let flushes = delta.flushes().filter(|_| target.kind != DeviceKind::Partition);
    let apart = flushes.filter(|_| target.volatile_cache).unwrap_or_default();
    let empty = apart.requests.saturating_sub(journal_flushes(target, before, after));
    let mut add = |what: &str, unit: &str, value: u64| {
        batch.put(format!("device.{}.{what}", target.name), unit, window_ns, value as f64);
    };
    add("reads", "1", reads.requests);
    add("read_bytes", "bytes", reads.sectors.saturating_mul(SECTOR_BYTES));
    add("read_ms", "ms", reads.ms);
    add("writes", "1", writes.requests.saturating_sub(empty));
    add("written_bytes", "bytes", writes.sectors.saturating_mul(SECTOR_BYTES));
    add("write_ms", "ms", writes.ms.saturating_sub(apart.ms));
    if let Some(flushes) = flushes {
        add("flushes", "1", flushes.requests);
        add("flush_ms", "ms", flushes.ms);
    }
}

pub(crate) struct Journals {
    view: View,
    names: Vec<String>,
    edge: Edge,
    last: HashMap<String, JournalCounters>,
}

impl Journals {
    pub(crate) fn new(view: &View, targets: &[WatchedDevice]) -> Journals {
        let names = targets.iter().map(|target| target.name.clone()).collect();
        Journals { view: view.clone(), names, edge: Edge::default(), last: HashMap::new() }
    }
}

impl Sampler for Journals {
    fn name(&self) -> String {
        "journal".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let now: HashMap<String, JournalCounters> =
            read(&self.view).into_iter().filter(|(name, _)| self.names.contains(name)).collect();
        let Some(window_ns) = self.edge.window_to(batch.clock.now_ns()) else {
            self.last = now;
            return Ok(());
        };
        for (name, counters) in &now {
            // A fall means that the file system was mounted again.
            let before = self.last.get(name).map(|before| before.commits);
            let Some(commits) = before.and_then(|before| counters.commits.checked_sub(before)) else {
                continue;
            };
            batch.put(format!("host.journal.{name}.commits"), "1", window_ns, commits as f64);
            if let Some(recent_us) = counters.recent_commit_us {
                let spent_us = commits.saturating_mul(recent_us);
                batch.put(format!("host.journal.{name}.commit_us"), "us", window_ns, spent_us as f64);
            }
        }
        self.last = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::{machine, run_twice};

    const LATER: &str = "8 0 sda 10 0 80 20 30 0 160 90 2 1 1 0 0 0 0 12 40\n8 1 sda1 9 0 72 18 20 0 160 90 2 1 1 0 0 0 0 0 0\n";

    #[test]
    fn flushes_are_taken_off_where_the_cache_is_volatile() {
        let (folder, view) = machine(&[
            (
                "proc/diskstats",
                "8 0 sda 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n8 1 sda1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
            ),
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/sda1/dev", "8:1"),
            ("sys/block/sda/queue/write_cache", "write back\n"),
        ]);
        let targets = crate::host::Devices::Named(vec!["sda1".into()]).find(&view).unwrap();
        let mut sampler = DeviceCounters::new(&view, &targets);
        let values =
            run_twice(&mut sampler, || std::fs::write(folder.path().join("proc/diskstats"), LATER).unwrap());
        let value = |name: &str| values.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        assert_eq!((value("device.sda.writes"), value("device.sda.write_ms")), (Some(18.0), Some(50.0)));
        assert_eq!((value("device.sda.flushes"), value("device.sda.flush_ms")), (Some(12.0), Some(40.0)));
        assert_eq!((value("device.sda1.writes"), value("device.sda1.flushes")), (Some(20.0), None));
        assert_eq!(
            (value("device.sda.read_bytes"), value("device.sda.written_bytes")),
            (Some(40_960.0), Some(81_920.0))
        );
    }

    #[test]
    fn flushes_of_a_journal_are_no_writes() {
        let (folder, view) = machine(&[
            ("proc/diskstats", "8 0 sda 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"),
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/sda1/dev", "8:1"),
            ("sys/block/sda/queue/write_cache", "write back\n"),
            ("sys/block/sda/queue/fua", "0\n"),
            ("proc/fs/jbd2/sda1-8/info", "100 transactions (9 requested)\n"),
        ]);
        let targets = crate::host::Devices::All.find(&view).unwrap();
        let values = run_twice(&mut DeviceCounters::new(&view, &targets), || {
            std::fs::write(folder.path().join("proc/diskstats"), LATER).unwrap();
            let info = folder.path().join("proc/fs/jbd2/sda1-8/info");
            std::fs::write(info, "105 transactions (9 requested)\n").unwrap();
        });
        // Of 30 writes and 12 flushes, five commits took ten flushes, so two were empty.
        assert!(values.contains(&("device.sda.writes".to_owned(), 28.0)), "{values:?}");
    }

    #[test]
    fn a_device_that_is_gone_is_an_error_and_comes_back() {
        let line = "8 0 sda 1 0 8 1 0 0 0 0 0 0 0\n";
        let (folder, view) = machine(&[("proc/diskstats", line), ("sys/block/sda/dev", "8:0")]);
        let targets = crate::host::Devices::All.find(&view).unwrap();
        let mut sampler = DeviceCounters::new(&view, &targets);
        let mut batch = Batch::new(crate::Clock::since(std::time::Instant::now()));
        sampler.sample(&mut batch).unwrap();
        std::fs::write(folder.path().join("proc/diskstats"), "").unwrap();
        assert!(sampler.sample(&mut batch).unwrap_err().to_string().contains("sda"));
        std::fs::write(folder.path().join("proc/diskstats"), line).unwrap();
        sampler.sample(&mut batch).unwrap();
        assert!(batch.readings.is_empty(), "what happened while it was away is not known");
    }

    #[test]
    fn a_device_that_proc_hides_is_read_from_sysfs() {
        let stat = |reads: u64| format!("{reads} 0 80 1 0 0 0 0 0 0 0\n");
        let (folder, view) = machine(&[
            ("proc/diskstats", ""),
            ("sys/block/vda/dev", "254:0"),
            ("sys/block/vda/stat", &stat(10)),
        ]);
        let targets = crate::host::Devices::All.find(&view).unwrap();
        let mut sampler = DeviceCounters::new(&view, &targets);
        let clock = crate::Clock::simulated(&[]);
        let mut batch = Batch::new(clock);
        sampler.sample(&mut batch).unwrap();
        assert!(batch.notes.iter().any(|note| note.contains("does not list vda")), "{:?}", batch.notes);
        std::fs::write(folder.path().join("sys/block/vda/stat"), stat(17)).unwrap();
        clock.pass(std::time::Duration::from_millis(1));
        sampler.sample(&mut batch).unwrap();
        let reads = batch.readings.iter().find(|reading| reading.name == "device.vda.reads");
        assert_eq!(reads.map(|reading| reading.value), Some(7.0));
        assert_eq!(batch.notes.len(), 1, "the note is made once");
    }

    #[test]
    fn a_silent_device_is_left_out_with_a_note_and_its_paths_are_read() {
        let counters = |reads: u64| {
            format!(
                "0 0 nvme0c0n1 {reads} 0 8 1 0 0 0 0 0 0 0\n0 0 nvme0c1n1 {} 0 8 1 0 0 0 0 0 0 0\n\
                 259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n259 1 nvme0n1p1 0 0 0 0 0 0 0 0 0 0 0\n",
                10 * reads
            )
        };
        let (folder, view) = machine(&[
            ("proc/diskstats", &counters(1)),
            ("proc/self/mountinfo", "22 1 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n"),
            ("sys/block/nvme0n1/dev", "259:0"),
            ("sys/block/nvme0n1/nvme0n1p1/dev", "259:1"),
            ("sys/block/nvme0c0n1/size", "9"),
            ("sys/block/nvme0c1n1/size", "9"),
        ]);
        let targets = crate::host::Devices::Under("/".into()).find(&view).unwrap();
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["nvme0n1p1", "nvme0c0n1", "nvme0c1n1"]);
        let mut sampler = DeviceCounters::new(&view, &targets);
        let clock = crate::Clock::simulated(&[]);
        let mut batch = Batch::new(clock);
        for reads in [1, 4, 4] {
            std::fs::write(folder.path().join("proc/diskstats"), counters(reads)).unwrap();
            clock.pass(std::time::Duration::from_millis(1));
            sampler.sample(&mut batch).unwrap();
        }
        let named = |ending: &str| {
            let named = batch.readings.iter().filter(|reading| reading.name.ends_with(ending));
            named.map(|reading| (reading.name.as_str(), reading.value)).collect::<Vec<_>>()
        };
        let (first, second) = ("device.nvme0c0n1.reads", "device.nvme0c1n1.reads");
        assert_eq!(named(".reads"), [(first, 3.0), (second, 30.0), (first, 0.0), (second, 0.0)]);
        let [note] = batch.notes.as_slice() else { panic!("{:?}", batch.notes) };
        assert!(note.contains("nvme0n1p1") && note.ends_with("at nvme0c0n1, nvme0c1n1."), "{note}");
    }

    #[test]
    fn a_device_whose_counters_are_off_is_not_idle() {
        let line = "8 0 sda 5 0 40 5 0 0 0 0 0 0 0\n";
        let files =
            [("proc/diskstats", line), ("sys/block/sda/dev", "8:0"), ("sys/block/sda/queue/iostats", "0")];
        let (folder, view) = machine(&files);
        let targets = crate::host::Devices::All.find(&view).unwrap();
        let mut sampler = DeviceCounters::new(&view, &targets);
        assert_eq!(run_twice(&mut sampler, || {}), []);
        let clock = crate::Clock::simulated(&[]);
        std::fs::write(folder.path().join("sys/block/sda/queue/iostats"), "1").unwrap();
        sampler.last = None;
        let mut batch = Batch::new(clock);
        sampler.sample(&mut batch).unwrap();
        clock.pass(std::time::Duration::from_millis(1));
        sampler.sample(&mut batch).unwrap();
        assert!(batch.readings.iter().any(|reading| reading.name == "device.sda.reads"), "they are on again");
    }

    #[test]
    fn btrfs_is_watched_on_all_its_devices() {
        let (_folder, view) = machine(&[
            ("proc/self/mountinfo", "22 1 0:40 / / rw - btrfs /dev/sda rw\n"),
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sdb/dev", "8:16"),
            ("sys/fs/btrfs/1e2f/devices/sda", ""),
            ("sys/fs/btrfs/1e2f/devices/sdb", ""),
        ]);
        let targets = crate::host::Devices::Under("/".into()).find(&view).unwrap();
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["sda", "sdb"]);
    }

    #[test]
    fn the_time_of_commits_is_their_number_times_the_recent_mean() {
        let (folder, view) = machine(&[
            ("sys/block/sda/dev", "8:0"),
            (
                "proc/fs/jbd2/sda-8/info",
                "10 transactions (9 requested)\n 500us average transaction commit time\n",
            ),
            ("proc/fs/jbd2/sdb-8/info", "10 transactions (9 requested)\n"),
        ]);
        let targets = crate::host::Devices::Named(vec!["sda".into()]).find(&view).unwrap();
        let values = run_twice(&mut Journals::new(&view, &targets), || {
            let text = "13 transactions (9 requested)\n 600us average transaction commit time\n";
            std::fs::write(folder.path().join("proc/fs/jbd2/sda-8/info"), text).unwrap();
        });
        let expected = [("host.journal.sda.commits", 3.0), ("host.journal.sda.commit_us", 1800.0)];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
