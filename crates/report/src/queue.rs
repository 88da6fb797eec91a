//! The ladder of queues in lines for people: a row a rung from the client down, and what a deeper queue would bring.

use fathom_record::queue::{QueueLadder, QueueRung};
use fathom_units::{Nanos, count, decimal};

use crate::wrap::wrap;

/// A heading, a row for each rung with its words, and the forecast.
pub fn queue_lines(ladder: &QueueLadder, width: usize) -> Vec<String> {
    let on = ladder.device.as_deref().map_or_else(String::new, |device| format!(" on {device}"));
    let mut lines = vec![format!("Queues of server {}{on}, from the client down", ladder.member)];
    lines.push(format!("  {:<18} {:>10} {:>8} {:>8} {:>8}", "queue", "lets in", "mean", "p95", "full"));
    for rung in &ladder.rungs {
        lines.push(row(rung));
        if rung.limits {
            lines.extend(wrap(&rung.words, "    ! ", "      ", width));
        }
    }
    if let Some(forecast) = &ladder.forecast {
        let time = |us: f64| Nanos((us.max(0.0) * 1e3).round() as u64);
        let options: Vec<String> = forecast
            .options
            .iter()
            .map(|one| format!("{} with {}", time(one.mean_us), count(one.cap)))
            .collect();
        let options = if options.is_empty() { "no deeper one helps".to_owned() } else { options.join(", ") };
        let text = format!("A request takes {} by the forecast; {options}.", time(forecast.mean_us));
        lines.extend(wrap(&text, "  ", "    ", width));
    }
    lines
}

fn row(rung: &QueueRung) -> String {
    format!(
        "  {:<18} {:>10} {:>8} {:>8} {:>8}",
        rung.name,
        rung.cap.map_or_else(|| "?".to_owned(), count),
        decimal(rung.mean),
        decimal(rung.p95),
        rung.share_at_cap.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
    )
}

#[cfg(test)]
mod tests {
    use fathom_record::queue::{ForecastOption, QueueForecast};

    use super::*;

    #[test]
    fn the_rung_that_limits_says_why() {
        let rung = |name: &str, limits: bool| QueueRung {
            name: name.into(),
            cap: (name != "read tickets").then_some(32.0),
            samples: 600,
            mean: 20.0,
            p95: 32.0,
            share_at_cap: Some(0.41),
            waiting_above: Some(30.0),
            wait_follows: Some((0.8, 0.001)),
            limits,
            words: "It was full 41 % of the time, with 30.0 more above it then.".into(),
        };
        let option = ForecastOption { cap: 64.0, mean_us: 223.0, share: 0.3, interval: (0.2, 0.4) };
        let forecast = QueueForecast {
            cap: 32.0,
            mean_us: 315.0,
            options: vec![option],
            flat_from: 64.0,
            flat_seen: true,
            basis: Vec::new(),
        };
        let ladder = QueueLadder {
            member: "0".into(),
            device: Some("sdb".into()),
            window_ns: (0, 1),
            rungs: vec![rung("read tickets", false), rung("device sdb", true)],
            forecast: Some(forecast),
        };
        let lines = queue_lines(&ladder, 80);
        assert!(
            lines[2].contains('?') && lines[3].contains("41 %") && lines[4].contains("! It was"),
            "{lines:#?}"
        );
        assert!(lines[5].contains("315 µs") && lines[5].contains("223 µs with 64"), "{lines:#?}");
    }
}
