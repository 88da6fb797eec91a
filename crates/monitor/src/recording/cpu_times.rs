//! The processors' times of a recording, as shares and as the total time that the kernel counted: a suspended host counts none.

use super::counter_track::CounterTrack;

/// The times of a recording below `systemMetrics.cpu`, the share in which each counts, and how many units make a millisecond. Windows counts in units
/// of 100 ns, and interrupts within the privileged time.
const TIMES: [(&str, &str, i64); 11] = [
    ("user_ms", "host.cpu.user_pct", 1),
    ("nice_ms", "host.cpu.user_pct", 1),
    ("system_ms", "host.cpu.system_pct", 1),
    ("irq_ms", "host.cpu.system_pct", 1),
    ("softirq_ms", "host.cpu.system_pct", 1),
    ("iowait_ms", "host.cpu.iowait_pct", 1),
    ("steal_ms", "host.cpu.steal_pct", 1),
    ("idle_ms", "host.cpu.idle_pct", 1),
    ("\\Processor\\% User Time", "host.cpu.user_pct", 10_000),
    ("\\Processor\\% Privileged Time", "host.cpu.system_pct", 10_000),
    ("\\Processor\\% Idle Time", "host.cpu.idle_pct", 10_000),
];
const SHARES: [&str; 5] = [
    "host.cpu.user_pct",
    "host.cpu.system_pct",
    "host.cpu.iowait_pct",
    "host.cpu.steal_pct",
    "host.cpu.idle_pct",
];

/// The times of one sample, and those of the sample before it.
#[derive(Debug)]
pub(super) struct RecordedCpuTimes {
    now: [Option<i64>; TIMES.len()],
    last: [Option<i64>; TIMES.len()],
    /// In the order of [`SHARES`].
    shares: Vec<CounterTrack>,
    counted: Option<CounterTrack>,
    /// Milliseconds since the first sample.
    counted_ms: i64,
}

impl RecordedCpuTimes {
    pub(super) fn new() -> RecordedCpuTimes {
        RecordedCpuTimes {
            now: [None; TIMES.len()],
            last: [None; TIMES.len()],
            shares: SHARES.iter().filter_map(|name| CounterTrack::new((*name).to_owned())).collect(),
            counted: CounterTrack::new("host.cpu.counted_ms".to_owned()),
            counted_ms: 0,
        }
    }

    /// The number of a time by its name below `systemMetrics.cpu`.
    pub(super) fn number(name: &str) -> Option<usize> {
        TIMES.iter().position(|(known, ..)| *known == name)
    }

    /// Sets a time of the sample that is being read.
    pub(super) fn set(&mut self, number: usize, value: i64) {
        let units = TIMES.get(number).map_or(1, |(_, _, units)| *units);
        self.now.get_mut(number).into_iter().for_each(|slot| *slot = Some(value / units));
    }

    /// Ends the sample that is being read.
    pub(super) fn end_sample(&mut self, sample: u64, window_ns: Option<(u64, u64)>) {
        let now = std::mem::take(&mut self.now);
        let before = std::mem::replace(&mut self.last, now);
        let grown: Vec<(i64, &str)> = now
            .iter()
            .zip(before)
            .zip(TIMES)
            .filter_map(|((now, before), (_, share, _))| {
                let added = (*now)?.checked_sub(before?).filter(|added| *added >= 0)?;
                Some((added, share))
            })
            .collect();
        let all_ms: i64 = grown.iter().map(|(ms, _)| ms).sum();
        // Where the times fell together, the counters began again, and what grew is no share of anything.
        let sum =
            |times: &[Option<i64>]| times.iter().flatten().fold(0, |sum: i64, ms| sum.saturating_add(*ms));
        if sum(&now) < sum(&before) {
            return;
        }
        if !grown.iter().any(|(_, share)| *share == "host.cpu.idle_pct") {
            return;
        }
        self.counted_ms = self.counted_ms.saturating_add(all_ms);
        if let Some(counted) = &mut self.counted {
            counted.add(sample, window_ns, self.counted_ms as f64);
        }
        for (track, share) in self.shares.iter_mut().zip(SHARES).filter(|_| all_ms > 0) {
            let ms: i64 = grown.iter().filter(|(_, one)| *one == share).map(|(ms, _)| ms).sum();
            track.add(sample, window_ns, 100.0 * ms as f64 / all_ms as f64);
        }
    }

    /// The tracks of all its series.
    pub(super) fn tracks(&mut self) -> impl Iterator<Item = &mut CounterTrack> {
        self.shares.iter_mut().chain(&mut self.counted)
    }
}
