//! The waits of operations as lines of text: the budget of the mean time, a row a layer with a bar, the largest first; and the
//! ladder of queues, a row a rung from the client down, with the gain of a deeper queue.

use fathom_record::budget::{Budget, Layer};
use fathom_record::queue::{QueueLadder, QueueRung};
use fathom_units::{Nanos, count, decimal};

use crate::terminal_text::{time_us, wrap};

/// The length of a bar for the whole mean.
const BAR: usize = 24;

/// A block of lines for each budget: a heading, a row for each layer that took any time, the unexplained time, and the readings that are
/// missing. Missing readings are only listed at the first budget of a server that lacks them.
pub fn budget_blocks(budgets: &[Budget], width: usize) -> Vec<Vec<String>> {
    let mut said = PrintedGaps::default();
    let mut blocks = Vec::new();
    for budget in budgets {
        let mut lines = layer_lines(budget, width);
        lines.extend(
            said.not_yet(budget).into_iter().flat_map(|missing| wrap(missing, "  ? ", "    ", width)),
        );
        blocks.push(lines);
    }
    blocks
}

/// The gaps that were already printed, by server: the budgets of one server mostly have the same gaps.
#[derive(Default)]
pub(crate) struct PrintedGaps<'b>(Vec<(&'b str, &'b str)>);

impl<'b> PrintedGaps<'b> {
    /// The gaps of a budget that no earlier budget of its server had. They count as printed from now on.
    pub(crate) fn not_yet(&mut self, budget: &'b Budget) -> Vec<&'b str> {
        let all = budget.missing.iter().map(|missing| (budget.member.as_str(), missing.as_str()));
        let new: Vec<(&str, &str)> = all.filter(|one| !self.0.contains(one)).collect();
        self.0.extend(&new);
        new.into_iter().map(|(_, missing)| missing).collect()
    }
}

/// The mean that the layers are parts of, in microseconds, and the place of its measurement.
pub(crate) fn whole(budget: &Budget) -> (f64, &'static str) {
    match budget.client_mean_us {
        Some(mean_us) => (mean_us, "the client waits"),
        None => (budget.server_mean_us, "the server takes"),
    }
}

fn layer_lines(budget: &Budget, width: usize) -> Vec<String> {
    let (whole_us, _) = whole(budget);
    let at = if budget.client_mean_us.is_some() { "client" } else { "server" };
    let closure = 100.0 * budget.closure;
    let parts = match budget.closes {
        true => ". Its parts:".to_owned(),
        false if closure < 100.0 => {
            format!("; {:.0} % of it is unaccounted for, so treat the rest with care:", 100.0 - closure)
        }
        false => format!("; the layers add up to {closure:.0} % of it, so treat them with care:"),
    };
    let title = format!(
        "Server {}, {}: an operation takes {} at the {at}{parts}",
        budget.member,
        budget.operations,
        time_us(whole_us)
    );
    let mut lines = wrap(&title, "", "  ", width);
    let mut layers: Vec<&Layer> = budget.layers.iter().filter(|layer| layer.share >= 0.0005).collect();
    layers.sort_by(|a, b| b.share.total_cmp(&a.share));
    for layer in layers {
        lines.push(row(&layer.name, layer));
        lines.extend(layer.within.iter().map(|part| row(&format!("  {}", part.name), part)));
    }
    if budget.unexplained_us.abs() >= 0.0005 * whole_us {
        let share = budget.unexplained_us / whole_us.max(f64::MIN_POSITIVE);
        lines.push(format!(
            "  {:<20} {:>10} {:>5.1} %",
            "unexplained",
            time_us(budget.unexplained_us),
            100.0 * share
        ));
    }
    lines
}

fn row(name: &str, layer: &Layer) -> String {
    let filled = (layer.share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let line = format!(
        "  {:<20} {:>10} {:>5.1} % {}",
        name.replace('_', " "),
        time_us(layer.mean_us),
        100.0 * layer.share,
        "#".repeat(filled)
    );
    line.trim_end().to_owned()
}

/// A heading, a row for each rung with its words, and the forecast.
pub fn queue_lines(ladder: &QueueLadder, width: usize) -> Vec<String> {
    let on = ladder.device.as_deref().map_or_else(String::new, |device| format!(" on {device}"));
    let mut lines = vec![format!("Queues of server {}{on}, from the client down", ladder.member)];
    lines.push(format!("  {:<18} {:>10} {:>8} {:>8} {:>8}", "queue", "limit", "mean", "p95", "full"));
    for rung in &ladder.rungs {
        lines.push(rung_row(rung));
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

fn rung_row(rung: &QueueRung) -> String {
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
    fn the_largest_layer_stands_first() {
        let layer = |name: &str, mean_us: f64| Layer {
            name: name.into(),
            mean_us,
            interval_us: None,
            share: mean_us / 1000.0,
            series: Vec::new(),
            within: Vec::new(),
        };
        let budget = Budget {
            member: "0".into(),
            operations: "reads".into(),
            count: 10.0,
            window_ns: (0, 1),
            client_mean_us: Some(1000.0),
            server_mean_us: 600.0,
            layers: vec![layer("network", 200.0), layer("page_read", 700.0), layer("ticket", 0.0)],
            unexplained_us: 100.0,
            closure: 0.9,
            closes: false,
            missing: vec!["No ping.".into()],
        };
        let of_another = Budget { member: "1".into(), ..budget.clone() };
        let blocks = budget_blocks(&[budget.clone(), budget, of_another], 80);
        let asks = |lines: &Vec<String>| lines.iter().filter(|line| line.contains("? No ping.")).count();
        assert_eq!(blocks.iter().map(asks).collect::<Vec<_>>(), [1, 0, 1]);
        let lines = &blocks[0];
        assert!(lines[0].contains("1.00 ms"), "{lines:#?}");
        let at = |word: &str| lines.iter().position(|line| line.contains(word));
        assert!(at("page read") < at("network") && at("network") < at("unexplained"), "{lines:#?}");
        assert!(at("ticket").is_none() && lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }

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
