//! The wait at the server during stalls.
//!
//! If a device does not answer for a second, the operations that wait for it delay all operations that become due meanwhile. The clients' wait to be
//! sent is then a wait for that device. A server counts a wait when it ends, that is, at the end of the stall.

use fathom_record::Finding;

use crate::Evidence;
use crate::client::points;
use crate::removable::Wait;
use crate::windows::{Window, overlap};

/// The least share of the operations' time at the server.
const MIN_SHARE: f64 = 0.5;
/// Findings that explain stalls by a server that served nothing.
const STOPS: [&str; 2] = ["server-stood-still", "fsync-lock"];

/// The largest wait in the windows of the finding `stalls`, and its share of the operations' time at the server. `None` if another finding explains
/// the stalls, or if no wait takes half of that time.
pub(crate) fn of_findings(evidence: &Evidence, findings: &[Finding], member: &str) -> Option<(Wait, f64)> {
    if findings.iter().any(|finding| STOPS.contains(&finding.id.as_str())) {
        return None;
    }
    let stalls = findings.iter().find(|finding| finding.id == "stalls")?;
    within(evidence, &stalls.windows_ns, member)
}

/// The same for any windows.
pub(crate) fn within(evidence: &Evidence, windows: &[Window], member: &str) -> Option<(Wait, f64)> {
    let sum = |tail: &str| -> f64 {
        let points = points(evidence, &format!("server.{member}.{tail}")).iter();
        let met = points
            .filter(|point| windows.iter().any(|window| overlap(*window, (point.begin_ns, point.end_ns))));
        met.map(|point| point.value).filter(|value| value.is_finite()).sum()
    };
    let time_us = sum("reads.latency_us") + sum("writes.latency_us");
    let waits = Wait::ALL.into_iter().filter(|wait| *wait != Wait::CacheMiss);
    let shares = waits.map(|wait| (wait, sum(&format!("wait.{}_us", wait.layer())) / time_us));
    let (wait, share) =
        shares.filter(|(_, share)| *share >= MIN_SHARE).max_by(|one, other| one.1.total_cmp(&other.1))?;
    (time_us > 0.0).then_some((wait, share.min(1.0)))
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet, Severity};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Thirty seconds; in the tenth, operations take a second each, of which that part is a wait for pages.
    fn evidence(share: f64) -> Evidence {
        let mut series = SeriesSet::default();
        for second in 0..30 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            let time_us = if second == 10 { 8e6 } else { 50_000.0 };
            let wait_us = if second == 10 { share * time_us } else { 1000.0 };
            for (name, value) in [("reads.latency_us", time_us), ("wait.page_read_us", wait_us)] {
                series.add(&format!("server.0.{name}"), "us", Point { begin_ns, end_ns, value });
            }
        }
        Evidence { series, window_ns: (0, 30 * SECOND), ..Evidence::default() }
    }

    #[test]
    fn reads_that_no_device_answers_are_what_a_stall_waits_for() {
        let stalls = Finding::new("stalls", Severity::Note, "x").window((10 * SECOND, 11 * SECOND));
        let of = |share: f64, findings: &[Finding]| of_findings(&evidence(share), findings, "0");
        let (wait, share) = of(0.9, std::slice::from_ref(&stalls)).unwrap();
        assert_eq!(wait, Wait::PageRead);
        assert!((share - 0.9).abs() < 1e-9, "{share}");
        assert_eq!(of(0.3, std::slice::from_ref(&stalls)), None);
        let stopped = Finding::new("server-stood-still", Severity::Warning, "x");
        assert_eq!(of(0.9, &[stalls, stopped]), None);
        assert_eq!(of(0.9, &[]), None);
    }
}
