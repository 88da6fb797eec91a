//! What faster storage would buy: the time that operations waited for it, in an incident and beyond what the server counts as such waits.

use fathom_record::incident::Incident;
use fathom_units::time_span;

use super::bins::Bins;

/// A smaller part of the operations' time is not worth a sentence.
const MIN_SHARE: f64 = 0.01;

/// The time in which operations waited for storage, as far as the server counts it, in seconds: mongod counts reads of pages, and no wait for the journal.
fn counted_s(bins: &Bins, member: usize, over: &[usize]) -> f64 {
    let names = ["page_read_us", "journal_us"].map(|wait| format!("server.{member}.wait.{wait}"));
    bins.sum_of(&names, over).unwrap_or(0.0) / 1e6
}

/// An incident with the time that faster storage could remove at most. If storage is its cause, that is at least the time lost.
pub(super) fn with_storage_time(bins: &Bins, member: usize, over: &[usize], incident: Incident) -> Incident {
    let names = ["reads", "writes"].map(|kind| format!("server.{member}.{kind}.latency_us"));
    let all_s = bins.sum_of(&names, over).unwrap_or(0.0) / 1e6;
    let by_cause_s = if incident.is_storage() { incident.lost_s } else { 0.0 };
    let storage_s = counted_s(bins, member, over).max(by_cause_s).min(all_s);
    let mut incident = Incident { storage_s, ..incident };
    if storage_s > 0.0 && storage_s >= MIN_SHARE * all_s {
        let sentence = format!(
            "Faster storage would save operations at most {} ({:.0} %).",
            time_span(storage_s),
            100.0 * storage_s / all_s
        );
        let is_storage = incident.is_storage();
        if is_storage { &mut incident.evidence } else { &mut incident.against }.push(sentence);
    }
    incident
}

/// The time that incidents of storage cost beyond the waits that the server counts, in seconds.
pub(super) fn uncounted_s(bins: &Bins, member: usize, incidents: &[Incident]) -> f64 {
    let ns = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000);
    let uncounted_s = |incident: &Incident| {
        let over: Vec<usize> = bins.bins_of((ns(incident.begin_ms), ns(incident.end_ms))).collect();
        (incident.storage_s - counted_s(bins, member, &over)).max(0.0)
    };
    incidents.iter().filter(|incident| incident.is_storage()).map(uncounted_s).sum()
}
