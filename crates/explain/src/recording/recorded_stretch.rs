//! The stretches of a recording in which the server behaved alike: it is cut at restarts, at gaps and where the level of a figure changes
//! (docs/methods.md#stretches-of-a-recording).

use serde::Serialize;

use super::bins::{BIN_NS, Bins};
use super::change_points::change_points;
use super::detection::logs;
use super::gaps::GapFinder;
use super::signals::SIGNALS;
use super::stretch::Stretch;

/// A shorter gap does not end a stretch, in seconds.
const MIN_GAP_S: f64 = 60.0;
/// Figures whose levels change no further apart than this change together, and with a restart or a gap that is as near: five minutes.
const MAX_APART_NS: u64 = 30 * BIN_NS;

/// Why a stretch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StretchEnd {
    /// Another process of the server began.
    Restart,
    /// There is no sample for a minute or longer.
    Gap,
    /// The level of a figure changed for hours.
    Change,
    /// The recording ends there.
    End,
}

/// A stretch with its usual figures. Times are milliseconds since 1970 in UTC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedStretch {
    pub begin_ms: i64,
    pub end_ms: i64,
    pub ends_by: StretchEnd,
    /// The figures whose level changed at its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<&'static str>,
    /// Reads and writes a second.
    pub operations_per_s: f64,
    /// The mean time of a read or write within the server, in microseconds; 0 without any.
    pub operation_us: f64,
    /// The mean of each signal that was recorded, in microseconds.
    pub signals: Vec<SignalMean>,
}

/// The mean of a signal in a stretch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SignalMean {
    pub of: &'static str,
    pub mean_us: f64,
}

/// The end of a stretch, and the begin of the next one.
struct StretchBoundary {
    end_ns: u64,
    next_ns: u64,
    ends_by: StretchEnd,
    changed: Vec<&'static str>,
}

impl RecordedStretch {
    /// The stretches of a server's recording, in the order of time.
    pub(super) fn of_recording(
        bins: &Bins,
        member: usize,
        disk: Option<&str>,
        gaps: &GapFinder,
        (begin_ns, end_ns): (u64, u64),
    ) -> Vec<RecordedStretch> {
        let last = StretchBoundary { end_ns, next_ns: end_ns, ends_by: StretchEnd::End, changed: Vec::new() };
        let mut stretches = Vec::new();
        let mut begin_ns = begin_ns;
        for cut in cuts(bins, member, gaps).into_iter().chain([last]) {
            if cut.end_ns > begin_ns {
                let over: Vec<usize> = bins.bins_of((begin_ns, cut.end_ns)).collect();
                let means = Stretch::from_bins(bins, member, disk, &over);
                let signals = SIGNALS.iter().zip(&means.signals_us);
                stretches.push(RecordedStretch {
                    begin_ms: (begin_ns / 1_000_000) as i64,
                    end_ms: (cut.end_ns / 1_000_000) as i64,
                    ends_by: cut.ends_by,
                    changed: cut.changed,
                    operations_per_s: means.operations_per_s,
                    operation_us: means.operation_us,
                    signals: signals
                        .filter_map(|(signal, us)| Some(SignalMean { of: signal.words, mean_us: (*us)? }))
                        .collect(),
                });
            }
            begin_ns = begin_ns.max(cut.next_ns);
        }
        stretches
    }
}

/// The cuts of a recording, in the order of time.
fn cuts(bins: &Bins, member: usize, gaps: &GapFinder) -> Vec<StretchBoundary> {
    let cut = |end_ns, next_ns, ends_by, changed| StretchBoundary { end_ns, next_ns, ends_by, changed };
    let long = gaps.gaps.iter().filter(|gap| gap.length_s >= MIN_GAP_S);
    let mut cuts: Vec<StretchBoundary> =
        long.map(|gap| cut(gap.window_ns.0, gap.window_ns.1, StretchEnd::Gap, Vec::new())).collect();
    cuts.extend(gaps.restarts_ns.iter().map(|ns| cut(*ns, *ns, StretchEnd::Restart, Vec::new())));
    for signal in SIGNALS {
        for change in change_points(&logs(&signal.means_us(bins, member))) {
            let at_ns = bins.begin_ns(change.bin);
            let is_near = |one: &&mut StretchBoundary| {
                one.end_ns.abs_diff(at_ns) <= MAX_APART_NS || one.next_ns.abs_diff(at_ns) <= MAX_APART_NS
            };
            match cuts.iter_mut().find(is_near) {
                Some(known) => known.changed.push(signal.words),
                None => cuts.push(cut(at_ns, at_ns, StretchEnd::Change, vec![signal.words])),
            }
        }
    }
    cuts.sort_by_key(|cut| cut.end_ns);
    cuts
}
