//! The rhythm of latency as a chart shows it: by period, and by lag. It is drawn of the latency as it is, with what checkpoints
//! make still in it; the blind path judges what is left without them.

use fathom_record::pictures::rhythm::LatencyRhythm;
use fathom_stats::{Seeded, spectrum};

use super::latencies;
use super::latency::Latency;
use crate::Evidence;

/// At most the last hour: a chart must not take longer than the judging.
const MOST_SECONDS: usize = 3600;

/// The rhythm of each server's latency, or of the client's where none was watched.
pub(crate) fn latency_rhythms(evidence: &Evidence) -> Vec<LatencyRhythm> {
    let rhythm = |(member, latency, mut stream): (String, Latency, Seeded)| {
        let (begin_s, values) = latency.log_seconds(MOST_SECONDS)?;
        let found = spectrum(&values, &mut stream)?;
        Some(LatencyRhythm {
            member,
            of: latency.of,
            seconds: values.len(),
            begin_s,
            by_period: found.by_period,
            band: found.band,
            by_lag: found.by_lag,
            lag_band: found.lag_band,
        })
    };
    latencies(evidence).into_iter().filter_map(rhythm).collect()
}
