//! What a person should know of a load beside YCSB's report: both clocks, what failed and why, and whether the client was the limit.

use fathom_load::client_settings::ClientSettings;
use fathom_load::driving::Ended;
use fathom_stats::{Histogram, LittleCheck};

use crate::loading::BUSY;
use crate::output;

/// A schedule lag above this, in nanoseconds, at the 99th percentile is the client's or comes of connections that are all busy.
const LAG_NS: u64 = 1_000_000;
/// The largest gap in Little's law (facts/analysis.md A2).
const GAP: f64 = 0.02;

/// Shows it on standard error; whether operations failed.
pub(super) fn show(ended: &Ended, settings: &ClientSettings) -> bool {
    table(ended);
    let failures = failures(ended);
    for sentence in sentences(ended, settings) {
        output::note(&sentence);
    }
    failures
}

fn table(ended: &Ended) {
    let heads = ["p50", "p95", "p99", "p99.9", "max"];
    output::note(&format!(
        "{:<18} {:<8} {:>8} {:>8} {:>8} {:>8} {:>8}  us",
        "", "", heads[0], heads[1], heads[2], heads[3], heads[4]
    ));
    for (name, measured) in &ended.metrics {
        for (clock, histogram) in
            [("service", &measured.succeeded.service), ("response", &measured.succeeded.response)]
        {
            if histogram.is_empty() {
                continue;
            }
            let name = if clock == "service" { name.as_str() } else { "" };
            let [p50, p95, p99, p999] = [0.5, 0.95, 0.99, 0.999].map(|q| micros(histogram, q));
            let max = histogram.max_ns().map_or_else(String::new, |max| (max / 1000).to_string());
            output::note(&format!("{name:<18} {clock:<8} {p50:>8} {p95:>8} {p99:>8} {p999:>8} {max:>8}"));
        }
    }
}

/// A quantile in microseconds, or a dash where too few operations lie beyond it.
fn micros(histogram: &Histogram, q: f64) -> String {
    let quantile = histogram.supported_quantile(q);
    quantile.map_or_else(|| "-".to_owned(), |nanos| format!("{:.0}", nanos.get() as f64 / 1000.0))
}

fn failures(ended: &Ended) -> bool {
    for (kind, failures) in &ended.failures {
        output::note(&format!("fathom: {} x {kind}: {}", failures.count, failures.first));
    }
    if ended.reconnects > 0 {
        output::note(&format!("fathom: {} connections were made anew", ended.reconnects));
    }
    if ended.abandoned > 0 {
        output::note(&format!(
            "fathom: {} operations were still under way at the end and are not counted",
            ended.abandoned
        ));
    }
    ended.metrics.iter().any(|(_, measured)| measured.failures() > 0)
}

fn sentences(ended: &Ended, settings: &ClientSettings) -> Vec<String> {
    let mut sentences = Vec::new();
    let seconds = ended.elapsed.as_secs_f64();
    let share = ended.cpu.as_secs_f64() / (seconds * ended.loops.max(1) as f64).max(1e-9);
    let per_operation = ended.cpu.as_secs_f64() * 1e6 / ended.operations.max(1) as f64;
    let rate = ended.operations as f64 / seconds.max(1e-9);
    sentences.push(format!(
        "client: {} connections on {} loops, {:.0} % of their processors, {per_operation:.1} us of CPU an operation",
        settings.plan.connections,
        ended.loops,
        share * 100.0
    ));
    if share > BUSY {
        sentences.push(
            "fathom: client-limited: the loops were busy most of the time, so the server may be able to do more"
                .to_owned(),
        );
    }
    if let Some(target) = settings.plan.arrivals.rate_per_s() {
        if rate < 0.99 * target {
            sentences.push(format!(
                "fathom: target missed: {rate:.0} of {target:.0} operations a second; response times grow with the backlog"
            ));
        }
        let lag = ended.lag.quantile_ns(0.99).unwrap_or(0);
        if lag > LAG_NS {
            sentences.push(format!(
                "fathom: operations were sent late: 99 % within {:.1} ms of when they were due; more connections may help",
                lag as f64 / 1e6
            ));
        }
    }
    sentences.extend(little(ended, rate));
    sentences
}

/// Little's law on ourselves: what is under way is what comes a second times how long it stays.
fn little(ended: &Ended, rate_per_s: f64) -> Option<String> {
    // Operations of several parts are measured as a whole and in parts; only wholes are under way.
    let wholes = ended.metrics.iter().filter(|(name, _)| *name != "VERIFY");
    let reads = ended.metrics.iter().any(|(name, _)| *name == "READ-MODIFY-WRITE");
    let (mut sum_ns, mut count) = (0.0, 0_u64);
    for (_, measured) in wholes {
        let failed = measured.failed.values().map(|one| &one.service);
        for histogram in failed.chain([&measured.succeeded.service]) {
            sum_ns += histogram.mean_ns().unwrap_or(0.0) * histogram.len() as f64;
            count += histogram.len();
        }
    }
    // Operations that took a good part of the run are cut off at its ends: the law is one of long runs.
    let longest = ended.metrics.iter().filter_map(|(_, measured)| measured.succeeded.service.max_ns()).max();
    let cut = longest.unwrap_or(0) as f64 / 1e9 > ended.elapsed.as_secs_f64() / 50.0 || ended.abandoned > 0;
    if reads || cut || count == 0 || ended.elapsed.as_secs_f64() < 2.0 {
        return None;
    }
    let seconds = ended.elapsed.as_secs_f64();
    let check = LittleCheck {
        in_flight: ended.in_flight,
        throughput_per_s: count as f64 / seconds,
        mean_latency_ns: sum_ns / count as f64,
    };
    let gap = check.relative_gap();
    (rate_per_s > 0.0 && gap > GAP).then(|| {
        format!(
            "fathom: Little's law is off by {:.1} %: {:.2} operations were under way, and {:.2} follow from rate and latency",
            gap * 100.0,
            ended.in_flight,
            check.implied_in_flight()
        )
    })
}
