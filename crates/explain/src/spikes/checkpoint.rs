//! Spikes at checkpoints: the finding, its evidence, and the remedy.
//!
//! It is reported if the sign-flip test over cycles is significant at 1 % and the rise is large enough; a threshold
//! alone never suffices. With few cycles the finding reports what was seen and says that this does not decide.
//!
//! A cause has a dose: Spearman's correlation over cycles between the rise of latency and the bytes that the checkpoint had to
//! write, its duration, the dirty share of the cache at its start, and the queue of the device. Under a steady load
//! all checkpoints are alike and show no dose, so a missing dose refutes nothing.

use fathom_record::{Confidence, Finding, Gain, Point, Severity};
use fathom_stats::{
    EventCycle, EventEffect, EventVerdict, MIN_EVENTS, RankCorrelation, SeededRandom, mean, paired_events,
    spearman,
};

use super::latency::SpikeSubject;
use super::syncdelay::{engine, is_followed_by, moved, offer_test};
use crate::Evidence;
use crate::client::points;
use crate::server_devices::{in_flight, tops};

/// The finding that checkpoints run without a pause.
pub(super) const CONTINUOUS: &str = "checkpoints-run-into-each-other";
pub(super) const MAX_P: f64 = 0.01;
/// Rises below this are not worth a finding, however certain: users do not notice a tenth.
pub(super) const MIN_EFFECT: f64 = 0.1;
/// From this share of all waiting on the finding is a warning (docs/methods.md#advice).
pub(super) const MIN_WARNING_SHARE: f64 = 0.05;
/// With fewer cycles than a verdict needs, spikes are mentioned if all of at least this many cycles rise by this much.
const MIN_TELLING_CYCLES: usize = 3;
const MIN_TELLING_RISE: f64 = 0.3;

/// Judges the effect of checkpoints on latency.
pub(super) fn judge(
    subject: &SpikeSubject<'_>,
    events: &[(f64, f64)],
    stream: &mut SeededRandom,
) -> Option<Finding> {
    match paired_events(&subject.latency.readings, events, stream) {
        EventVerdict::Judged(effect) if is_worth_reporting(&effect) => {
            Some(spikes(subject, events, &effect, stream))
        }
        EventVerdict::TooFew { cycles } if look_real(&cycles) => Some(too_few(subject, events, &cycles)),
        EventVerdict::Continuous { busy_share } if events.len() >= MIN_TELLING_CYCLES => {
            Some(continuous(subject, events, busy_share))
        }
        _ => None,
    }
}

/// Whether events certainly raise latency, and by enough.
pub(super) fn is_worth_reporting(effect: &EventEffect) -> bool {
    effect.p <= MAX_P && effect.effect >= MIN_EFFECT && effect.share_interval.low > 0.0
}

fn look_real(cycles: &[EventCycle]) -> bool {
    cycles.len() >= MIN_TELLING_CYCLES
        && cycles.iter().all(|cycle| cycle.difference >= MIN_TELLING_RISE.ln_1p())
}

fn spikes(
    subject: &SpikeSubject<'_>,
    events: &[(f64, f64)],
    effect: &EventEffect,
    stream: &mut SeededRandom,
) -> Finding {
    let SpikeSubject { evidence, member, latency, .. } = *subject;
    let engine = engine(evidence, member).unwrap_or_else(|| "an engine that was not read".to_owned());
    let claim = format!(
        "Checkpoints make latency spike{}: every {:.0} s it rises by {:.0} % for {:.1} s, on {engine}.",
        subject.at(),
        effect.period_s,
        100.0 * effect.effect,
        effect.duration_s
    );
    let mut finding =
        Finding::new("checkpoint-spikes", severity(effect), claim).confidence(Confidence::Likely);
    for sentence in evidence_of(effect, latency.of, "checkpoint") {
        finding = finding.evidence(sentence);
    }
    let doses = doses(evidence, member, &effect.cycles, stream);
    for dose in &doses {
        finding = finding.evidence(format!(
            "Dose over {} cycles: the rise against the {}: rho = {:.2}, p = {:.3}.",
            effect.cycles.len(),
            dose.of,
            dose.correlation.rho,
            dose.correlation.p
        ));
    }
    if !doses.iter().any(Dose::is_strong) {
        finding = finding.evidence(
            "No dose goes with the rises: checkpoints alike show none, and something that comes with each would not \
             either; the test below tells.",
        );
    }
    if let Some(moved) = moved(evidence, member, &latency.readings, events, stream) {
        for sentence in moved.sentences {
            finding = finding.evidence(sentence);
        }
        if moved.followed {
            finding = finding.confidence(Confidence::Certain).evidence(
                "syncdelay was changed within the run, the checkpoints moved, and the spikes followed them.",
            );
        }
    }
    finding = with_gain(finding, effect, latency.of);
    if effect.share >= MIN_WARNING_SHARE {
        finding = finding
            .advice(advice(&engine))
            .source("https://www.mongodb.com/docs/manual/reference/parameters/");
    }
    finding = offer_test(finding, evidence, member, effect.duration_s);
    let names =
        ["running", "count", "total_ms", "last_ms"].map(|last| subject.name(&format!("checkpoint.{last}")));
    let dose_names = doses.into_iter().filter_map(|dose| dose.series);
    subject.cite(finding, names.into_iter().chain(dose_names), &effect.cycles)
}

/// Advice without a direction: the right one differs by engine, load and device, and has to be measured.
fn advice(engine: &str) -> String {
    if is_followed_by(engine) {
        format!(
            "Compare another syncdelay with the present one in interleaved runs, on this engine ({engine}) and under \
             this load; whether less or more helps is to be measured, and it changes how long recovery takes. Then a \
             limit of the engine's background writes (io_capacity, about 1.5 times the mean write rate), and a lower \
             target of dirty cache."
        )
    } else {
        "Lower what each checkpoint has to write (a lower target of dirty cache, fewer bytes written for each update), \
         and measure before and after in interleaved runs."
            .to_owned()
    }
}

/// The severity that a share of all waiting deserves.
pub(super) fn severity(effect: &EventEffect) -> Severity {
    if effect.share >= MIN_WARNING_SHARE { Severity::Warning } else { Severity::Note }
}

/// The numbers behind an effect, a sentence each.
pub(super) fn evidence_of(effect: &EventEffect, of: &str, event: &str) -> [String; 3] {
    let percent = |share: f64| 100.0 * share;
    let (rise, share) = (effect.effect_interval, effect.share_interval);
    [
        format!(
            "Over {} cycles the {of} was {:.0} % higher inside a {event} than in the calm on both its sides (95 %: {:.0} \
             to {:.0} %).",
            effect.cycles.len(),
            percent(effect.effect),
            percent(rise.low),
            percent(rise.high)
        ),
        format!(
            "Chance of that without an effect: p = {:.4}, sign-flip over cycles (the smallest that so many can give is \
             {:.4}).",
            effect.p, effect.smallest_p
        ),
        format!(
            "Share of all waiting caused: {:.1} % (95 %: {:.1} to {:.1} %).",
            percent(effect.share),
            percent(share.low),
            percent(share.high)
        ),
    ]
}

/// Adds the gain if the events cost nothing.
pub(super) fn with_gain(finding: Finding, effect: &EventEffect, of: &str) -> Finding {
    let within = |share: f64| share.clamp(0.0, 1.0);
    finding.gain(Gain {
        of: format!("mean {of}"),
        share: within(effect.share),
        interval: (within(effect.share_interval.low), within(effect.share_interval.high)),
        basis: format!(
            "The share of all waiting that lies in the rises of {} cycles: what would go if they cost nothing at all, and \
             so the most that can be gained.",
            effect.cycles.len()
        ),
    })
}

fn too_few(subject: &SpikeSubject<'_>, events: &[(f64, f64)], cycles: &[EventCycle]) -> Finding {
    let differences: Vec<f64> = cycles.iter().map(|cycle| cycle.difference).collect();
    let rise = mean(&differences).unwrap_or(0.0).exp_m1();
    let (first_s, last_s) =
        (events.first().map_or(0.0, |event| event.0), events.last().map_or(0.0, |event| event.0));
    let period_s = (last_s - first_s) / events.len().saturating_sub(1).max(1) as f64;
    let needed = MIN_EVENTS + 1;
    let claim = format!(
        "Latency{} rose in each of {} checkpoints, by {:.0} % on average: too few to tell whether they make it.",
        subject.at(),
        cycles.len(),
        100.0 * rise
    );
    let finding = Finding::new("checkpoint-spikes", Severity::Note, claim)
        .confidence(Confidence::CannotTell)
        .evidence(format!(
            "{} checkpoints about {period_s:.0} s apart have calm on both sides; a verdict at 1 % needs {MIN_EVENTS}.",
            cycles.len()
        ))
        .next_look(format!(
            "Watch for {needed} checkpoints, about {:.0} minutes.",
            (needed as f64 * period_s / 60.0).ceil()
        ));
    subject.cite(finding, [subject.name("checkpoint.running"), subject.name("checkpoint.count")], cycles)
}

fn continuous(subject: &SpikeSubject<'_>, events: &[(f64, f64)], busy_share: f64) -> Finding {
    let SpikeSubject { evidence, member, .. } = *subject;
    let engine = engine(evidence, member).unwrap_or_else(|| "not read".to_owned());
    let claim = format!(
        "Checkpoints{} run into each other: each takes {:.0} % of the time from one to the next, so that there is no calm \
         to compare with.",
        subject.at(),
        100.0 * busy_share.min(1.0)
    );
    let (begin_s, end_s) =
        (events.first().map_or(0.0, |event| event.0), events.last().map_or(0.0, |event| event.1));
    let finding = Finding::new(CONTINUOUS, Severity::Warning, claim)
        .evidence(format!(
            "{} checkpoints between {begin_s:.0} s and {end_s:.0} s of the run; the engine is {engine}.",
            events.len()
        ))
        .advice(
            "Write less or give the device more first: no interval of checkpoints helps while each fills its own. Look at \
             the bytes written for each user byte, and at the device's queue.",
        )
        .next_look("Compare the device's write rate during checkpoints with what it can do (fathom disk).");
    subject.cite(finding, [subject.name("checkpoint.running"), subject.name("checkpoint.total_ms")], &[])
}

const PERMUTATIONS: usize = 499;
const NS_PER_S: f64 = 1e9;
/// Correlations from here on are called a dose (docs/methods.md#advice).
const MIN_DOSE_RHO: f64 = 0.5;

/// A quantity at an event, from the series of that name.
type DoseFunction<'d> = &'d dyn Fn(&str, (f64, f64)) -> Option<f64>;

/// One quantity and its correlation with the spikes.
pub(super) struct Dose {
    /// Its name in sentences.
    pub(super) of: &'static str,
    /// The series it was read from, if it is one.
    pub(super) series: Option<String>,
    /// The correlation over cycles.
    pub(super) correlation: RankCorrelation,
}

impl Dose {
    /// Whether it is correlated with the spikes.
    pub(super) fn is_strong(&self) -> bool {
        self.correlation.rho > MIN_DOSE_RHO && self.correlation.p <= 0.05
    }
}

/// All doses that were read, the strongest first.
pub(super) fn doses(
    evidence: &Evidence,
    member: &str,
    cycles: &[EventCycle],
    stream: &mut SeededRandom,
) -> Vec<Dose> {
    let within = |points: &[Point], event: (f64, f64)| {
        let from = points.partition_point(|point| (point.end_ns as f64) < event.0 * NS_PER_S);
        // A counter moves at the end of the window after the work that it counts.
        let to = points.partition_point(|point| (point.end_ns as f64) <= (event.1 + 1.0) * NS_PER_S);
        points.get(from..to).unwrap_or(&[]).iter().map(|point| point.value).collect::<Vec<f64>>()
    };
    let sum = |name: &str, event| Some(within(points(evidence, name), event).iter().sum());
    let queued = in_flight(evidence, member);
    let mean_queued = |_: &str, event: (f64, f64)| fathom_stats::mean(&within(&queued, event));
    let at_begin = |name: &str, event: (f64, f64)| {
        let points = points(evidence, name);
        let until = points.partition_point(|point| (point.end_ns as f64) <= event.0 * NS_PER_S);
        points.get(until.checked_sub(1)?).map(|point| point.value)
    };
    let written = format!("server.{member}.engine.checkpoint_bytes");
    let dirty = format!("server.{member}.cache.dirty_bytes");
    // The series of the first device represents those of all.
    let backlog = tops(evidence, member).first().map(|device| format!("device.{device}.in_flight"));
    let mut doses = Vec::new();
    let mut add = |of, series: Option<String>, dose: DoseFunction<'_>| {
        let name = series.as_deref().unwrap_or_default();
        if series.is_some() && points(evidence, name).is_empty() {
            return;
        }
        let pairs: Vec<(f64, f64)> =
            cycles.iter().filter_map(|cycle| Some((cycle.difference, dose(name, cycle.event_s)?))).collect();
        if let Some(correlation) = spearman(&pairs, PERMUTATIONS, stream) {
            doses.push(Dose { of, series, correlation });
        }
    };
    add("bytes written by the checkpoint", Some(written), &sum);
    add("duration of the checkpoint", None, &|_, event| Some(event.1 - event.0));
    add("dirty bytes in the cache at its begin", Some(dirty), &at_begin);
    if let Some(backlog) = backlog {
        add("requests in flight at the device", Some(backlog), &mean_queued);
    }
    doses.sort_by(|one, two| two.correlation.rho.total_cmp(&one.correlation.rho));
    doses
}
