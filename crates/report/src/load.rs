//! A load on a server in lines for people.

use fathom_record::load::{Load, LoadOperation};
use fathom_units::{Nanos, count};

/// A row for the load, and one for each kind of operation where there are several; `header` puts the heads of the columns above.
pub(crate) fn load_lines(load: &Load, header: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if header {
        lines.push(String::new());
        lines.push(format!("{:<24} {:>12} {:>10} {:>10} {:>10}", load.server, "ops/s", "p50", "p99", "max"));
    }
    for (place, operation) in load.by_operation.iter().enumerate() {
        let what = match load.by_operation.len() {
            1 => load.workload.clone(),
            _ => format!("{}, {}", load.workload, operation.name.to_lowercase()),
        };
        let rate = operation.count as f64 / load.seconds.max(1e-9);
        lines.push(row(&what, rate, operation));
        if place + 1 == load.by_operation.len() && load.client_limited {
            lines.push("    the client was busy: the server may be able to do more".to_owned());
        }
    }
    lines
}

fn row(what: &str, per_s: f64, operation: &LoadOperation) -> String {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string());
    let latency = operation.response.as_ref();
    let mut line = format!(
        "  {what:<22} {:>12} {:>10} {:>10} {:>10}",
        count(per_s),
        time(latency.map(|one| one.p50_ns)),
        time(latency.and_then(|one| one.p99_ns)),
        time(latency.map(|one| one.max_ns))
    );
    if operation.failed > 0 {
        line.push_str(&format!("  {} failed", count(operation.failed as f64)));
    }
    line
}

#[cfg(test)]
mod tests {
    use fathom_stats::Histogram;

    use super::*;

    #[test]
    fn rows_fit_the_terminal_and_tell_failures() {
        let mut histogram = Histogram::new();
        (0..5000).for_each(|step| histogram.record(100_000 + step * 100));
        let operation =
            |name: &str, failed: u64| LoadOperation::new(name, 5000, failed, &histogram, &histogram);
        let load = Load {
            server: "built-in, WiredTiger".to_owned(),
            workload: "workload A".to_owned(),
            connections: 8,
            seconds: 2.0,
            operations: 10_003,
            per_s: 5001.5,
            offered_per_s: None,
            by_operation: vec![operation("READ", 0), operation("UPDATE", 3)],
            client_cpu_share: 0.9,
            client_limited: true,
        };
        let lines = load_lines(&load, true);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 90), "{lines:#?}");
        assert!(lines[2].contains("workload A, read") && lines[2].contains("2,500"), "{lines:#?}");
        assert!(lines[3].ends_with("3 failed") && lines[4].contains("client was busy"), "{lines:#?}");
    }
}
