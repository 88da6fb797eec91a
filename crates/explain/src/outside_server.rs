//! The wait of clients before their operations reach the server, as far as the server shows it: by its pings, and by connections that are all in use.
//!
//! The server's clock begins when an operation arrives. Where clients are not watched, these figures are the lower bound of what they feel.

use fathom_record::Gain;
use fathom_units::Nanos;

use crate::Evidence;
use crate::client::{ClientLoads, points};
use crate::seconds::mean;

/// A ping that is this many times as long as the mean operation, and at least this long, waits for something that operations wait for too.
const MIN_PING_RATIO: f64 = 10.0;
const MIN_PING_US: f64 = 5000.0;
/// From this part of the connections on all of them are in use: a few belong to monitoring.
const MIN_IN_USE_SHARE: f64 = 0.8;
/// The fewest readings of a mean.
const MIN_READINGS: usize = 10;

/// The figure that a gain is of if it lies before the arrival at the server.
pub(crate) const SENT: &str = "mean time from the send";

fn time(us: f64) -> Nanos {
    Nanos((us.max(0.0) * 1e3).round() as u64)
}

fn median_ping_us(evidence: &Evidence, member: &str) -> Option<f64> {
    let pings: Vec<f64> =
        points(evidence, &format!("server.{member}.ping_us")).iter().map(|point| point.value).collect();
    fathom_stats::quantile(&pings, 0.5).filter(|_| pings.len() >= MIN_READINGS)
}

/// The operations that a server ended, and their mean time within it, in microseconds.
fn served(evidence: &Evidence, member: &str) -> Option<(f64, f64)> {
    let sum = |tail: &str| -> Option<f64> {
        let of = |kind: &str| evidence.sum(&format!("server.{member}.{kind}.{tail}"));
        Some(of("reads")? + of("writes")?)
    };
    let operations = sum("operations").filter(|operations| *operations > 0.0)?;
    Some((operations, sum("latency_us")? / operations))
}

/// A sentence on what clients wait outside the server at least. `None` if clients were watched, or if nothing shows such a wait.
pub(crate) fn outside_server(evidence: &Evidence, member: &str) -> Option<String> {
    if ClientLoads::from_evidence(evidence).is_some() {
        return None;
    }
    let (_, mean_us) = served(evidence, member)?;
    if let Some(ping_us) =
        median_ping_us(evidence, member).filter(|us| *us >= MIN_PING_US.max(MIN_PING_RATIO * mean_us))
    {
        return Some(format!(
            "This is the time within the server. Its clients wait longer: a ping, which does no work, takes {}.",
            time(ping_us)
        ));
    }
    let gauge = |tail: &str| {
        let read = points(evidence, &format!("server.{member}.{tail}"));
        mean(read.iter().map(|point| point.value)).filter(|_| read.len() >= MIN_READINGS)
    };
    let at_work = gauge("clients.readers")? + gauge("clients.writers")?;
    let connections =
        gauge("connections.current").filter(|count| *count > 0.0 && at_work >= MIN_IN_USE_SHARE * count)?;
    Some(format!(
        "This is the time within the server, and at least what clients feel: {at_work:.0} of {connections:.0} connections have an operation under way, and what is due beyond that waits before it is sent."
    ))
}

/// The wait that a quota adds before operations reach the server, if clients were not watched: while it holds the server back for this share of the time,
/// an operation arrives at any moment of such a wait, which a ping waits from its begin. All connections together hold no more operations than
/// there are connections.
pub(crate) fn gain_of_quota_outside(evidence: &Evidence, member: &str, throttled: f64) -> Option<Gain> {
    if ClientLoads::from_evidence(evidence).is_some() {
        return None;
    }
    let (operations, mean_us) = served(evidence, member)?;
    let ping_us =
        median_ping_us(evidence, member).filter(|us| *us >= MIN_PING_US.max(MIN_PING_RATIO * mean_us))?;
    let seconds = evidence.read_s(&format!("server.{member}.reads.operations"))?;
    let connections = evidence.mean(&format!("server.{member}.connections.current"));
    let most_us = connections.map_or(f64::INFINITY, |count| count * seconds * 1e6 / operations);
    let wait_us = (throttled.min(1.0) * ping_us / 2.0).min((most_us - mean_us).max(0.0));
    let share = |us: f64| us / (us + mean_us);
    (wait_us > 0.0).then(|| Gain {
        of: SENT.to_owned(),
        share: share(wait_us),
        interval: (share(wait_us / 2.0), share(ping_us.min(most_us))),
        basis: "Half of what pings wait while the quota holds the server back, and no more than all connections can hold (Little's law); clients that keep to a rate wait longer.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Half a minute of 400 operations a second of 0.5 ms each, over 20 connections.
    fn evidence(ping_us: f64, readers: f64) -> Evidence {
        let mut series = SeriesSet::default();
        for second in 0..30u64 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            for (name, value) in [
                ("reads.operations", 200.0),
                ("writes.operations", 200.0),
                ("reads.latency_us", 100_000.0),
                ("writes.latency_us", 100_000.0),
                ("ping_us", ping_us),
                ("clients.readers", readers),
                ("clients.writers", 1.0),
                ("connections.current", 20.0),
            ] {
                series.add(&format!("server.0.{name}"), "1", Point { begin_ns, end_ns, value });
            }
        }
        Evidence { series, window_ns: (0, 30 * SECOND), ..Evidence::default() }
    }

    #[test]
    fn pings_and_connections_in_use_show_a_wait_outside_the_server() {
        let said = |ping_us, readers| outside_server(&evidence(ping_us, readers), "0");
        assert!(said(92_000.0, 0.0).unwrap().contains("a ping, which does no work, takes 92.0 ms"));
        assert!(said(200.0, 16.0).unwrap().contains("17 of 20 connections"));
        assert_eq!(said(200.0, 3.0), None);
        let mut watched = evidence(92_000.0, 16.0);
        let names = ["client.operations.per_s", "client.read.per_s"];
        names.into_iter().for_each(|name| {
            watched.series.add(name, "1", Point { begin_ns: 0, end_ns: SECOND, value: 1.0 });
        });
        assert_eq!(outside_server(&watched, "0"), None, "the client's own clock is better");
    }

    #[test]
    fn a_quota_costs_half_of_what_pings_wait_and_no_more_than_the_connections_hold() {
        let share = |ping_us| gain_of_quota_outside(&evidence(ping_us, 0.0), "0", 0.9).map(|gain| gain.share);
        // 0.9 of 20 ms.
        assert!((share(40_000.0).unwrap() - 18.0 / 18.5).abs() < 1e-6);
        // 20 connections at 400 a second hold each operation for 50 ms at most.
        assert!((share(400_000.0).unwrap() - 49.5 / 50.0).abs() < 1e-6);
        assert_eq!(share(300.0), None);
    }
}
