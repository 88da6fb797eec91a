//! The main figures of a recording over its time, for pictures and for the server's log.

use super::bins::{BIN_NS, Bins};
use super::signals::SIGNALS;

/// Figures in steps of ten seconds. `None` is a step without samples, or with too few for a mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordingTimeline {
    /// The begin of the first step, in milliseconds since 1970.
    pub begin_ms: i64,
    /// The mean time of a read or write within the server, in microseconds.
    pub operation_us: Vec<Option<f32>>,
    /// The mean time of a sync of the journal, in microseconds.
    pub sync_us: Vec<Option<f32>>,
    /// The mean time of a read of a page, in microseconds.
    pub page_read_us: Vec<Option<f32>>,
    /// The part of the time in which the database's disk had requests, 0 to 1.
    pub disk_busy: Vec<Option<f32>>,
    /// Bytes that the engine read.
    pub engine_read_bytes: Vec<Option<f32>>,
}

impl RecordingTimeline {
    /// The length of a step, in milliseconds.
    pub const STEP_MS: i64 = (BIN_NS / 1_000_000) as i64;

    pub(super) fn from_bins(bins: &Bins, member: usize, disk: Option<&str>) -> RecordingTimeline {
        let of_signal = |words: &str| -> Vec<Option<f32>> {
            let signal = SIGNALS.iter().find(|signal| signal.words == words);
            let mean_us = |bin| signal?.mean_us(bins, member, &[bin]).map(|(us, _)| us as f32);
            (0..bins.len()).map(mean_us).collect()
        };
        let server = |name: &str| format!("server.{member}.{name}");
        let operation_us = |bin: usize| {
            let sum = |name: &str| {
                bins.sum_of(&["reads", "writes"].map(|kind| server(&format!("{kind}.{name}"))), &[bin])
            };
            let operations = sum("operations").filter(|operations| *operations > 0.0)?;
            Some((sum("latency_us")? / operations) as f32)
        };
        let busy = |bin: usize| {
            let busy_ms = bins.rate(&format!("device.{}.busy_ms", disk?), &[bin])?;
            Some((busy_ms / 1e3).clamp(0.0, 1.0) as f32)
        };
        let read_name = server("engine.read_bytes");
        RecordingTimeline {
            begin_ms: (bins.begin_ns(0) / 1_000_000) as i64,
            operation_us: (0..bins.len()).map(operation_us).collect(),
            sync_us: of_signal("a sync of the journal"),
            page_read_us: of_signal("a read of a page"),
            disk_busy: (0..bins.len()).map(busy).collect(),
            engine_read_bytes: (0..bins.len())
                .map(|bin| bins.sum(&read_name, &[bin]).map(|bytes| bytes as f32))
                .collect(),
        }
    }

    fn step(&self, at_ms: i64) -> Option<usize> {
        usize::try_from((at_ms - self.begin_ms).div_euclid(RecordingTimeline::STEP_MS)).ok()
    }

    /// The part of the time in which the database's disk had requests, 0 to 1, around a moment in milliseconds since 1970.
    pub fn disk_busy_share(&self, at_ms: i64) -> Option<f64> {
        self.disk_busy.get(self.step(at_ms)?).copied().flatten().map(f64::from)
    }

    /// Bytes that the engine read between two moments in milliseconds since 1970, by whole steps.
    pub fn engine_read_bytes_within(&self, (begin_ms, end_ms): (i64, i64)) -> Option<f64> {
        let first = self.step(begin_ms.max(self.begin_ms))?;
        let last = self.step(end_ms)?;
        let steps =
            self.engine_read_bytes.get(first..=last.min(self.engine_read_bytes.len().checked_sub(1)?))?;
        let read = steps.iter().flatten();
        read.map(|bytes| f64::from(*bytes)).reduce(|one, other| one + other)
    }
}
