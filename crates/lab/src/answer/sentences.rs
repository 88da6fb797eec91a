//! Writes effects as sentences that can be forwarded.

use fathom_record::study::{StudyComparison, StudyInteraction, StudyScaling, StudyVerdict, level_name};
use fathom_stats::{Model, ModelComparison};

/// `XFS against ext4, uncapped: throughput 12 % higher (7 to 16 %): better.`
///
/// `margin` is the share below which a difference does not matter.
pub(super) fn comparison(one: &StudyComparison, margin: f64) -> String {
    let StudyComparison { factor, level, baseline, metric, ratio, interval, verdict, .. } = one;
    let given = given(&one.given);
    let change = change(*ratio);
    let interval = interval.map_or_else(
        || " (too few blocks for an interval)".to_owned(),
        |(low, high)| format!(" (95 % interval {} to {})", signed(low), signed(high)),
    );
    let answer = match verdict {
        StudyVerdict::Undecided => match one.needs_blocks {
            Some(more) => format!("cannot tell; needs about {more} more blocks"),
            None => "cannot tell".to_owned(),
        },
        StudyVerdict::Same if one.excludes_none() => {
            format!("too small to matter (under {:.0} %)", 100.0 * margin)
        }
        _ => one.answer().to_owned(),
    };
    let [level, baseline] = [level, baseline].map(|level| level_name(factor, level));
    format!("{level} against {baseline}{given}: {} {change}{interval}: {answer}.", spaced(metric))
}

/// `The effect of syncdelay 5 on throughput is 8 % higher at nr_requests 128: the effects depend on each other.`
pub(super) fn interaction(one: &StudyInteraction) -> String {
    let StudyInteraction { factors, levels, metric, ratio, interval, .. } = one;
    let interval = interval.map_or_else(String::new, |(low, high)| {
        format!(" (95 % interval {} to {})", signed(low), signed(high))
    });
    let answer = if one.is_sure() {
        "the effects depend on each other"
    } else {
        "no sign that the effects depend on each other"
    };
    format!(
        "The effect of {} on {} is {} at {}{interval}: {answer}.",
        level_name(&factors.0, &levels.0),
        spaced(metric),
        change(*ratio),
        level_name(&factors.1, &levels.1)
    )
}

/// `S2: throughput is highest at 6 shards, 3.10 times that at 1 shard; no gain was shown beyond 6 shards; the points follow a constant limit.` `end`
/// is the level beyond which no step pays, `laws` the fitted laws.
pub(super) fn scaling(one: &StudyScaling, end: Option<f64>, laws: Option<&ModelComparison>) -> String {
    let best = one.points.iter().max_by(|a, b| a.throughput_per_s.total_cmp(&b.throughput_per_s));
    let Some(best) = best else { return String::new() };
    let first = one.points.first().map_or(1.0, |point| point.count);
    let last = one.points.last().map(|point| point.count);
    let given = given(&one.given);
    let given = given.trim_start_matches(", ");
    let given = if given.is_empty() { String::new() } else { format!("{given}: ") };
    let at = |count: f64| level_name(&one.factor, &count.to_string());
    let most = if best.count > first {
        format!(
            "throughput is highest at {}, {:.2} times that at {}",
            at(best.count),
            best.speedup,
            at(first)
        )
    } else {
        format!("throughput is highest at {}, the lowest level", at(first))
    };
    let end = match end {
        Some(count) if Some(count) != last => format!("; no gain was shown beyond {}", at(count)),
        Some(_) | None => "; it still rises at the highest level".to_owned(),
    };
    format!("{given}{most}{end}{}.", law(laws))
}

/// The law that the points follow, and its peak if the data suffice for one.
fn law(laws: Option<&ModelComparison>) -> String {
    let Some(laws) = laws.filter(|laws| !laws.misses_shape()) else { return String::new() };
    let name = match laws.best {
        Model::Linear => "a straight line",
        Model::Amdahl => "Amdahl's law",
        Model::Cap => "a constant limit",
        Model::Usl => "the Universal Scalability Law",
    };
    let peak = laws
        .peak
        .as_ref()
        .map_or_else(String::new, |peak| format!(", with its peak at {:.1}", peak.concurrency));
    format!("; the points follow {name}{peak}")
}

fn given(given: &[(String, String)]) -> String {
    given.iter().map(|(factor, level)| format!(", {}", level_name(factor, level))).collect()
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// A ratio as a change: `12 % higher`, `3.2 times as high`.
fn change(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if ratio >= 2.0 {
        format!("{ratio:.1} times as high")
    } else if percent.abs() < 0.05 {
        "the same".to_owned()
    } else {
        format!("{:.1} % {}", percent.abs(), if percent > 0.0 { "higher" } else { "lower" })
    }
}

fn signed(ratio: f64) -> String {
    if ratio >= 2.0 { format!("{ratio:.1} times") } else { format!("{:+.1} %", 100.0 * (ratio - 1.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_a_sentence() {
        let mut one = StudyComparison {
            factor: "filesystem".to_owned(),
            level: "xfs".to_owned(),
            baseline: "ext4".to_owned(),
            given: vec![("cap".to_owned(), "none".to_owned())],
            metric: "update_p99".to_owned(),
            ratio: 0.88,
            interval: Some((0.84, 0.93)),
            p: 0.01,
            adjusted_p: 0.02,
            smallest_p: 0.01,
            pairs: Vec::new(),
            verdict: StudyVerdict::Better,
            needs_blocks: None,
            words: String::new(),
        };
        assert_eq!(
            comparison(&one, 0.05),
            "xfs against ext4, uncapped: update p99 12.0 % lower (95 % interval -16.0 % to -7.0 %): better."
        );
        (one.interval, one.verdict, one.needs_blocks, one.ratio) =
            (None, StudyVerdict::Undecided, Some(5), 2.5);
        assert!(comparison(&one, 0.05).ends_with("update p99 2.5 times as high (too few blocks for an interval): cannot tell; needs about 5 more blocks."));
        (one.interval, one.verdict, one.ratio) = (Some((0.936, 0.961)), StudyVerdict::Same, 0.947);
        assert!(
            comparison(&one, 0.1).ends_with("-6.4 % to -3.9 %): too small to matter (under 10 %)."),
            "{}",
            comparison(&one, 0.1)
        );
    }
}
