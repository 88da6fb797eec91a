//! Histories as text: a line of the values, and a sentence on each change of level with its certainty.

use fathom_record::history::{ChangeState, History, HistoryChange, Reach};

use crate::run_list::value_of;
use crate::terminal_text::{cut, printable, wrap};

/// The characters for the heights of a value in a line of text.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One history in lines of at most `width` characters; with `points`, each run too.
pub fn history_lines(history: &History, points: bool, width: usize) -> Vec<String> {
    let mut lines =
        wrap(&format!("{}, {}", printable(&history.metric), printable(&history.subject)), "", "  ", width);
    lines.extend(wrap(&printable(&format!("fathom {}", history.command)), "  ", "    ", width));
    lines.extend(wrap(&format!("on {}", printable(&history.environment)), "  ", "    ", width));
    let values: Vec<f64> = history.points.iter().map(|point| point.value).collect();
    lines.push(format!("  {}", sparkline(&values, width.saturating_sub(2))));
    if let (Some(first), Some(last)) = (history.points.first(), history.points.last()) {
        let value = |value: f64| value_of(value, &history.unit);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let runs = if values.len() == 1 { "1 run".to_owned() } else { format!("{} runs", values.len()) };
        let text = format!(
            "{runs}, {} to {}; {} to {}, last {}",
            day(&first.started),
            day(&last.started),
            value(least),
            value(most),
            value(last.value)
        );
        lines.extend(wrap(&text, "  ", "    ", width));
    }
    lines.extend(history.changes.iter().flat_map(|change| wrap(&told(change, history), "  ", "    ", width)));
    lines.extend(wrap(reach(history), "  ", "    ", width));
    if points {
        lines.extend(history.points.iter().enumerate().map(|(index, _)| cut(&row(history, index), width)));
    }
    lines
}

/// A change in a sentence.
pub(crate) fn told(change: &HistoryChange, history: &History) -> String {
    let word = match (change.state, change.improved) {
        (ChangeState::Change, true) => "better since",
        (ChangeState::Change, false) => "worse since",
        (ChangeState::Suspect, true) => "suspected, better since",
        (ChangeState::Suspect, false) => "suspected, worse since",
    };
    let mark = if change.state == ChangeState::Change { "!" } else { "?" };
    let value = |value: f64| value_of(value, &history.unit);
    format!(
        "{mark} {word} {}: {} -> {} (x {:.2}, p {:.3}, superiority {:.2}), from {}",
        day(&change.started),
        value(change.before),
        value(change.after),
        change.after / change.before,
        change.p,
        change.superiority,
        printable(&change.run)
    )
}

/// The conclusions that the number of runs allows, in a sentence.
pub(crate) fn reach(history: &History) -> &'static str {
    match (history.reach, history.changes.is_empty()) {
        (Reach::TooFew, _) => {
            "Fewer than 10 runs: no change can be distinguished from chance. Compare two with 'fathom runs diff'."
        }
        (Reach::Suspicion, _) => {
            "Fewer than 50 runs: changes are suspicions; run both sides again, in turn, before acting on one."
        }
        (Reach::Judgement, true) => "No change of level.",
        (Reach::Judgement, false) => "Before acting on a change, run both sides again, in turn.",
    }
}

fn row(history: &History, index: usize) -> String {
    let Some(point) = history.points.get(index) else { return String::new() };
    let value = |value: f64| value_of(value, &history.unit);
    let interval =
        point.interval.map_or_else(String::new, |(low, high)| format!("{} .. {}", value(low), value(high)));
    let change = history.changes.iter().find(|change| change.index == index);
    let mark = match change.map(|change| change.state) {
        Some(ChangeState::Change) => '!',
        Some(ChangeState::Suspect) => '?',
        None => ' ',
    };
    let name = printable(&point.run);
    format!("  {mark} {}  {:>12}  {interval:<24} {name}", day(&point.started), value(point.value))
        .trim_end()
        .to_owned()
}

/// The day of an RFC 3339 time.
fn day(started: &str) -> String {
    printable(&started.chars().take(10).collect::<String>())
}

/// Values as heights from the lowest to the highest; neighbours share a column if there are more than `width`.
pub fn sparkline(values: &[f64], width: usize) -> String {
    let size = values.len().div_ceil(width.max(1)).max(1);
    let means: Vec<f64> = values.chunks(size).filter_map(fathom_stats::mean).collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let steps = (BARS.len() - 1) as f64;
    let height = |value: &f64| match most > least {
        true => ((value - least) / (most - least) * steps).round() as usize,
        false => BARS.len() / 2,
    };
    means.iter().filter_map(|value| BARS.get(height(value))).collect()
}

#[cfg(test)]
mod tests {
    use fathom_record::figure::BetterDirection;
    use fathom_record::history::HistoryPoint;

    use super::*;

    #[test]
    fn a_line_of_values_fits_whatever_there_is() {
        assert_eq!(sparkline(&[1.0, 2.0, 8.0], 10), "▁▂█");
        assert_eq!(sparkline(&[3.0, 3.0], 10), "▅▅");
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&vec![1.0; 500], 78).chars().count(), 72);
    }

    #[test]
    fn a_change_is_a_sentence_and_too_few_runs_are_said() {
        let point = |day: usize| HistoryPoint {
            run: format!("2026110{day}T093000Z-disk-1"),
            started: format!("2026-11-0{day}T09:30:00Z"),
            value: 1000.0 * day as f64,
            interval: Some((900.0, 1100.0)),
        };
        let mut history = History {
            subject: "knee of random reads".to_owned(),
            metric: "highest throughput".to_owned(),
            unit: "1/s".to_owned(),
            better: BetterDirection::Higher,
            verb: "disk".to_owned(),
            command: "disk --dir /data".to_owned(),
            environment: "2 CPUs [abcdef]".to_owned(),
            points: (1..5).map(point).collect(),
            changes: Vec::new(),
            reach: Reach::TooFew,
            noise_floor: 0.02,
        };
        let lines = history_lines(&history, true, 80);
        assert!(lines.iter().any(|line| line.contains("Fewer than 10 runs")), "{lines:#?}");
        history.reach = Reach::Judgement;
        history.changes.push(HistoryChange {
            index: 2,
            run: "20261103T093000Z-disk-1".to_owned(),
            started: "2026-11-03T09:30:00Z".to_owned(),
            before: 1500.0,
            after: 3500.0,
            improved: true,
            p: 0.001,
            superiority: 1.0,
            state: ChangeState::Change,
        });
        let lines = history_lines(&history, true, 80);
        assert!(
            lines.iter().any(|line| line.contains("! better since 2026-11-03: 1,500/s -> 3,500/s (x 2.33")),
            "{lines:#?}"
        );
        assert!(lines.iter().any(|line| line.starts_with("  ! 2026-11-03       3,000/s")), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }
}
