//! The blind path: finds periodic spikes whose cause is not counted, or that no counter was seen to cause.
//!
//! Spikes that checkpoints and flushes have been shown to cause are removed first. A rhythm is reported only if it exceeds
//! noise with the same memory, at 1 %, and repeats itself. Possible causes are the counters that rise with it and the clocks
//! that have its period; they are ranked, and none is claimed.
//!
//! A counter that rises with the spikes may be their cause, or may be affected by the same cause; a clock with the same period is a
//! hint. Both are only suspects.

use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::{
    EventVerdict, LatencyReading, MIN_EVENTS, Periodicity, Rhythm, SeededRandom, find_period, paired_events,
};

use super::checkpoint::{MAX_P, MIN_EFFECT, evidence_of, severity, with_gain};
use super::latency::SpikeSubject;
use super::syncdelay::{engine, is_followed_by, offer_test, stretches};
use crate::client::points;

/// This number resolves 0.33 %; an hour of seconds is then searched in a fraction of a second.
const SURROGATES: usize = 299;
/// At most the last two hours are searched.
const MAX_SECONDS: usize = 7200;
/// The guard around explained events, as on the event path.
const EVENT_GUARD_S: f64 = 3.0;

/// The rhythm that is left without the `explained` events.
pub(super) fn judge(
    subject: &SpikeSubject<'_>,
    explained: &[(f64, f64)],
    stream: &mut SeededRandom,
) -> Option<Finding> {
    let (begin_s, mut logs) = subject.latency.log_seconds(MAX_SECONDS)?;
    take_out(&mut logs, begin_s, explained);
    let found = find_period(&logs, SURROGATES, stream)?;
    let rhythm = found.rhythm.as_ref().filter(|rhythm| rhythm.confirmed && found.p <= MAX_P)?;
    let high: Vec<(f64, f64)> =
        rhythm.high.iter().map(|stretch| (stretch.0 + begin_s, stretch.1 + begin_s)).collect();
    let inside = |reading: &&LatencyReading| {
        explained.iter().all(|event| {
            reading.end_s <= event.0 - EVENT_GUARD_S || reading.begin_s >= event.1 + EVENT_GUARD_S
        })
    };
    let readings: Vec<LatencyReading> = subject.latency.readings.iter().filter(inside).copied().collect();
    match paired_events(&readings, &high, stream) {
        EventVerdict::Judged(effect) if effect.effect >= MIN_EFFECT && effect.share_interval.low > 0.0 => {
            let claim = format!(
                "Latency spikes{} every {:.1} s: it rises by {:.0} % for {:.0} s, and nothing that was counted has been \
                 shown to make it.",
                subject.at(),
                rhythm.period_s,
                100.0 * effect.effect,
                effect.duration_s
            );
            let mut finding =
                Finding::new("periodic-spikes", severity(&effect), claim).confidence(Confidence::Likely);
            finding = rhythm_evidence(finding, &found, rhythm);
            for sentence in evidence_of(&effect, subject.latency.of, "spike").into_iter().step_by(2) {
                finding = finding.evidence(sentence);
            }
            finding = with_gain(finding, &effect, subject.latency.of);
            finding = with_suspects(finding, subject, rhythm, &high, effect.duration_s);
            Some(subject.cite(finding, [], &effect.cycles))
        }
        EventVerdict::TooFew { cycles } => {
            let claim = format!(
                "Latency{} may spike every {:.0} s: too few cycles to tell.",
                subject.at(),
                rhythm.period_s
            );
            let finding =
                Finding::new("periodic-spikes", Severity::Note, claim).confidence(Confidence::CannotTell);
            let minutes = ((MIN_EVENTS + 2) as f64 * rhythm.period_s / 60.0).ceil().max(30.0);
            let finding = rhythm_evidence(finding, &found, rhythm).next_look(format!(
                "Watch for {minutes:.0} minutes; without a counter of what happens the search is weak."
            ));
            Some(subject.cite(finding, [], &cycles))
        }
        _ => None,
    }
}

/// Replaces the values in or next to explained events by the last value before them.
fn take_out(logs: &mut [f64], begin_s: f64, explained: &[(f64, f64)]) {
    for event in explained {
        let place = |at_s: f64| (at_s - begin_s).max(0.0) as usize;
        let from = place(event.0 - EVENT_GUARD_S).min(logs.len());
        let to = (place(event.1 + EVENT_GUARD_S) + 1).min(logs.len());
        let side = |place: Option<usize>| place.and_then(|place| logs.get(place)).copied();
        let (before, after) = (side(from.checked_sub(1)), side(Some(to)));
        let Some(calm) = before.or(after) else { continue };
        let calm = f64::midpoint(calm, after.unwrap_or(calm));
        logs.iter_mut().take(to).skip(from).for_each(|value| *value = calm);
    }
}

fn rhythm_evidence(finding: Finding, found: &Periodicity, rhythm: &Rhythm) -> Finding {
    let [one, two] = rhythm.echoes;
    finding
        .evidence(format!(
            "Chance of so much rhythm at any period in noise with the same memory: p = {:.4} ({} surrogates).",
            found.p, found.surrogates
        ))
        .evidence(format!(
            "The series echoes itself one and two periods later: correlations {:.2} and {:.2}, where memory alone reaches \
             {:.2} and {:.2} in 95 % of surrogates.",
            one.correlation, two.correlation, one.band, two.band
        ))
        .evidence(format!(
            "Folded at {:.2} s (the last period {:.2} times the first) the rhythm explains {:.0} % of the variance.",
            rhythm.period_s,
            rhythm.drift,
            100.0 * rhythm.explained
        ))
}

/// Adds the suspects for the spikes, and the next step.
fn with_suspects(
    mut finding: Finding,
    subject: &SpikeSubject<'_>,
    rhythm: &Rhythm,
    high: &[(f64, f64)],
    duration_s: f64,
) -> Finding {
    let SpikeSubject { evidence, member, .. } = *subject;
    let suspects = suspects(subject, rhythm.period_s, high);
    for suspect in &suspects {
        finding = finding.evidence(suspect.sentence.clone());
    }
    finding = finding.series(suspects.iter().filter_map(|suspect| suspect.series.clone()));
    let engine = engine(evidence, member);
    let checkpoints_unseen = evidence.series.get(&subject.name("checkpoint.count")).is_none()
        && evidence.series.get(&subject.name("checkpoint.running")).is_none();
    let fits = stretches(evidence, member)
        .last()
        .is_none_or(|stretch| stretch.explains(rhythm.period_s, duration_s));
    if checkpoints_unseen && fits && engine.as_deref().is_some_and(is_followed_by) {
        return offer_test(finding, evidence, member, duration_s);
    }
    finding.next_look(suspects.first().map_or_else(
        || {
            "Look for what runs with that period on the server, its host and its storage: cron, exporters, backups, TTL \
             deletions; stop one at a time and see whether the spikes go."
                .to_owned()
        },
        |suspect| format!("Look at the first suspect, {}: change when it runs, and see whether the spikes follow.", suspect.name),
    ))
}

/// A counter is a suspect if it is this much higher inside the spikes than outside.
const MIN_LIFT: f64 = 1.5;
const MAX_SUSPECTS: usize = 3;
/// Spikes may begin this long after their cause.
const MAX_LAG_S: f64 = 1.0;
const NS_PER_S: f64 = 1e9;

/// Counters of a server, and the work that they stand for.
const OF_SERVER: [(&str, &str); 6] = [
    ("checkpoint.running", "the checkpoint"),
    ("engine.checkpoint_bytes", "the checkpoint's writes"),
    ("flush.written_bytes", "flushes of the engine"),
    ("compaction.written_bytes", "compaction"),
    ("journal.syncs", "the engine's journal"),
    ("documents.deleted", "deletions, such as those of TTL indexes"),
];
/// Counters by the end of their names, which follows a device's name.
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

pub(super) struct SpikeCause {
    pub(super) name: String,
    /// The reason, as a sentence.
    pub(super) sentence: String,
    /// The counter that rises with the spikes, if the suspect is one.
    pub(super) series: Option<String>,
}

/// The possible causes of spikes every `period_s` in the stretches `high`: counters first, the one that rises most leading.
pub(super) fn suspects(subject: &SpikeSubject<'_>, period_s: f64, high: &[(f64, f64)]) -> Vec<SpikeCause> {
    let of_server = OF_SERVER.iter().map(|(last, who)| (subject.name(last), *who));
    let of_host = OF_HOST.iter().flat_map(|(first, last, who)| {
        let names = subject.evidence.series.starting(first).map(|(name, _)| name);
        names.filter(move |name| name.ends_with(last)).map(move |name| (format!("{first}{name}"), *who))
    });
    let mut risen: Vec<(f64, String, &str)> = of_server
        .chain(of_host)
        .filter_map(|(name, who)| Some((lift(subject, &name, high)?, name, who)))
        .filter(|(lift, ..)| *lift >= MIN_LIFT)
        .collect();
    risen.sort_by(|one, two| two.0.total_cmp(&one.0));
    let risen = risen.into_iter().take(MAX_SUSPECTS).map(|(lift, series, who)| SpikeCause {
        name: who.to_owned(),
        sentence: format!(
            "Suspect: {who}; {series} is {lift:.1} times as high inside the spikes as outside."
        ),
        series: Some(series),
    });
    let near = |clock_s: f64| (period_s - clock_s).abs() <= (0.03 * clock_s).max(0.3);
    let clocks = CLOCKS.iter().filter(|(clock_s, _)| near(*clock_s)).map(|(_, who)| SpikeCause {
        name: (*who).to_owned(),
        sentence: format!("Suspect by its period alone: {who}."),
        series: None,
    });
    risen.chain(clocks).collect()
}

/// The mean of a series inside the stretches over its mean outside; `None` if it was not read or is never above 0.
fn lift(subject: &SpikeSubject<'_>, name: &str, high: &[(f64, f64)]) -> Option<f64> {
    let (mut inside, mut outside) = ((0.0, 0.0), (0.0, 0.0));
    let mut stretches = high.iter().peekable();
    for point in points(subject.evidence, name) {
        let (begin_s, end_s) = (point.begin_ns as f64 / NS_PER_S, point.end_ns as f64 / NS_PER_S);
        while stretches.next_if(|stretch| stretch.1 <= begin_s).is_some() {}
        let is_high = stretches.peek().is_some_and(|stretch| stretch.0 - MAX_LAG_S < end_s);
        let sums = if is_high { &mut inside } else { &mut outside };
        *sums = (sums.0 + point.value, sums.1 + 1.0);
    }
    let mean = |sums: (f64, f64)| if sums.1 > 0.0 { Some(sums.0 / sums.1) } else { None };
    let (inside, outside) = (mean(inside)?, mean(outside)?);
    // For a counter that moves only inside the ratio is infinite, which a sentence cannot contain.
    (inside > 0.0).then(|| (inside / outside.max(inside / 1000.0)).min(1000.0))
}
