//! Where the mean time of operations went, in lines for people: a row a layer with a bar, the largest first.

use fathom_record::budget::{Budget, Layer};

use crate::figures::time_us;
use crate::wrap::wrap;

/// Columns of a bar for the whole mean.
const BAR: usize = 24;

/// A block of lines for each: a heading, a row for each layer that took anything, what is unexplained, and what could not be
/// read, which is said at the first budget of a server that misses it and not again.
pub fn budget_blocks(budgets: &[Budget], width: usize) -> Vec<Vec<String>> {
    let mut said = Said::default();
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

/// What was said to be missing, by server: its budgets mostly miss the same.
#[derive(Default)]
pub(crate) struct Said<'b>(Vec<(&'b str, &'b str)>);

impl<'b> Said<'b> {
    /// What a budget misses and no earlier one of its server did; it counts as said from now on.
    pub(crate) fn not_yet(&mut self, budget: &'b Budget) -> Vec<&'b str> {
        let all = budget.missing.iter().map(|missing| (budget.member.as_str(), missing.as_str()));
        let new: Vec<(&str, &str)> = all.filter(|one| !self.0.contains(one)).collect();
        self.0.extend(&new);
        new.into_iter().map(|(_, missing)| missing).collect()
    }
}

/// The mean that the layers are parts of, in microseconds, and whose it is.
pub(crate) fn whole(budget: &Budget) -> (f64, &'static str) {
    match budget.client_mean_us {
        Some(mean_us) => (mean_us, "the client waits"),
        None => (budget.server_mean_us, "the server takes"),
    }
}

fn layer_lines(budget: &Budget, width: usize) -> Vec<String> {
    let (whole_us, who) = whole(budget);
    let title = format!(
        "Server {}, {}: {who} {} on average; the layers add up to {:.0} % of it{}",
        budget.member,
        budget.operations,
        time_us(whole_us),
        100.0 * budget.closure,
        if budget.closes { "" } else { ", which does not close" }
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

#[cfg(test)]
mod tests {
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
}
