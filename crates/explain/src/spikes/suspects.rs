//! Who may make a rhythm: counters that rise with it, ranked by how much, and clocks that have its period.
//!
//! A counter that rises with the spikes may be their cause, or may suffer the same; a clock with the same period is a
//! hint. Both are ranked and named as suspects, no more.

use super::subject::Subject;
use crate::client::points;

/// A counter is a suspect if it is this much higher inside the spikes than outside.
const LEAST_LIFT: f64 = 1.5;
const MOST_SUSPECTS: usize = 3;
/// Spikes may begin this long after their cause.
const LAG_S: f64 = 1.0;
const NS_PER_S: f64 = 1e9;

/// Counters of a server, and who they stand for.
const OF_SERVER: [(&str, &str); 6] = [
    ("checkpoint.running", "the checkpoint"),
    ("engine.checkpoint_bytes", "the checkpoint's writes"),
    ("flush.written_bytes", "flushes of the engine"),
    ("compaction.written_bytes", "compaction"),
    ("journal.syncs", "the engine's journal"),
    ("documents.deleted", "deletions, such as those of TTL indexes"),
];
/// Counters by the end of their names, which stand after a device's.
const OF_HOST: [(&str, &str, &str); 4] = [
    ("host.memory.", "writeback_bytes", "the kernel's writeback"),
    ("host.journal.", "commits", "the file system's journal"),
    ("device.", "flushes", "flushes of the device's cache"),
    ("device.", "written_bytes", "writes to the device"),
];
/// Clocks with a period of their own, in seconds.
const CLOCKS: [(f64, &str); 6] = [
    (60.0, "the TTL monitor (60 s)"),
    (60.0, "WiredTiger's size storer (60 s)"),
    (60.0, "cron, or an exporter that scrapes each minute"),
    (30.0, "the age at which the kernel writes dirty pages back (30 s)"),
    (5.0, "the kernel's writeback and the journal commit of ext4 (5 s)"),
    (10.0, "an exporter that scrapes every 10 s"),
];

/// One suspect.
pub(super) struct Suspect {
    /// Who.
    pub(super) name: String,
    /// Why, as a sentence.
    pub(super) sentence: String,
    /// The counter that rises with the spikes, if it is one.
    pub(super) series: Option<String>,
}

/// Those who may make spikes every `period_s` in the stretches `high`: counters first, the one that rises most leading.
pub(super) fn suspects(subject: &Subject<'_>, period_s: f64, high: &[(f64, f64)]) -> Vec<Suspect> {
    let of_server = OF_SERVER.iter().map(|(last, who)| (subject.name(last), *who));
    let of_host = OF_HOST.iter().flat_map(|(first, last, who)| {
        let names = subject.evidence.series.starting(first).map(|(name, _)| name);
        names.filter(move |name| name.ends_with(last)).map(move |name| (format!("{first}{name}"), *who))
    });
    let mut risen: Vec<(f64, String, &str)> = of_server
        .chain(of_host)
        .filter_map(|(name, who)| Some((lift(subject, &name, high)?, name, who)))
        .filter(|(lift, ..)| *lift >= LEAST_LIFT)
        .collect();
    risen.sort_by(|one, two| two.0.total_cmp(&one.0));
    let risen = risen.into_iter().take(MOST_SUSPECTS).map(|(lift, series, who)| Suspect {
        name: who.to_owned(),
        sentence: format!(
            "Suspect: {who}; {series} is {lift:.1} times as high inside the spikes as outside."
        ),
        series: Some(series),
    });
    let near = |clock_s: f64| (period_s - clock_s).abs() <= (0.03 * clock_s).max(0.3);
    let clocks = CLOCKS.iter().filter(|(clock_s, _)| near(*clock_s)).map(|(_, who)| Suspect {
        name: (*who).to_owned(),
        sentence: format!("Suspect by its period alone: {who}."),
        series: None,
    });
    risen.chain(clocks).collect()
}

/// The mean of a series inside the stretches over its mean outside; `None` where it was not read or is never above 0.
fn lift(subject: &Subject<'_>, name: &str, high: &[(f64, f64)]) -> Option<f64> {
    let (mut inside, mut outside) = ((0.0, 0.0), (0.0, 0.0));
    let mut stretches = high.iter().peekable();
    for point in points(subject.evidence, name) {
        let (begin_s, end_s) = (point.begin_ns as f64 / NS_PER_S, point.end_ns as f64 / NS_PER_S);
        while stretches.next_if(|stretch| stretch.1 <= begin_s).is_some() {}
        let is_high = stretches.peek().is_some_and(|stretch| stretch.0 - LAG_S < end_s);
        let sums = if is_high { &mut inside } else { &mut outside };
        *sums = (sums.0 + point.value, sums.1 + 1.0);
    }
    let mean = |sums: (f64, f64)| if sums.1 > 0.0 { Some(sums.0 / sums.1) } else { None };
    let (inside, outside) = (mean(inside)?, mean(outside)?);
    // A counter that moves inside only is infinitely higher, which is no number for a sentence.
    (inside > 0.0).then(|| (inside / outside.max(inside / 1000.0)).min(1000.0))
}
