//! The use of the processors that a server and its load may use, by program.
//!
//! A quota or a set of processors makes the machine smaller than its host, which may then be idle while nothing more can run here.

use crate::Evidence;
use crate::guard::MAX_SHORT_IDLE_PCT;
use crate::path::client_names;

/// A quota that ran out in this share of its periods, in percent, held back the programs, however little of it was used on average.
const MIN_THROTTLED_PCT: f64 = 50.0;

/// The use of the processors' time, in percent of all of it.
#[derive(Debug)]
pub(crate) struct Processors {
    busy_pct: f64,
    server_pct: f64,
    /// The upper bound, as if the load generator had as many threads as there are processors.
    client_pct: f64,
    limit: Option<ProcessorLimit>,
}

/// A limit below the host's processors.
#[derive(Debug)]
struct ProcessorLimit {
    processors: f64,
    /// The share of the periods of a quota in which it ran out, in percent. A set of processors has none.
    throttled_pct: Option<f64>,
}

impl Processors {
    /// The processors that were the limit: those of the quota, else the host's. `None` if neither were busy, or if a part was not read.
    pub(crate) fn busy(evidence: &Evidence) -> Option<Processors> {
        let of_limit = Processors::from_limit(evidence).filter(Processors::are_busy);
        of_limit.or_else(|| Processors::from_host(evidence).filter(Processors::are_busy))
    }

    fn from_host(evidence: &Evidence) -> Option<Processors> {
        let count = evidence.mean("host.cpu.count").filter(|count| *count > 0.0)?;
        Some(Processors {
            busy_pct: 100.0 - evidence.idle_pct()?,
            server_pct: pct(server_us_per_s(evidence)?, count),
            client_pct: 100.0 * client_share(evidence),
            limit: None,
        })
    }

    /// The processors that a quota or a set leaves; `None` without either.
    pub(crate) fn from_limit(evidence: &Evidence) -> Option<Processors> {
        let processors = evidence.mean("monitor.processors").filter(|count| *count > 0.0)?;
        let server_pct = pct(server_us_per_s(evidence)?, processors);
        let count = evidence.mean("host.cpu.count").unwrap_or(processors);
        let client_pct = 100.0 * client_share(evidence) * count / processors;
        let used_pct = evidence.rate_per_s("monitor.quota.used_us").map(|us_per_s| pct(us_per_s, processors));
        let periods = evidence.sum("monitor.quota.periods").filter(|periods| *periods > 0.0);
        let throttled = periods.zip(evidence.sum("monitor.quota.throttled"));
        Some(Processors {
            // Two counters are read at two moments.
            busy_pct: used_pct.unwrap_or(server_pct + client_pct).min(100.0),
            server_pct,
            client_pct,
            limit: Some(ProcessorLimit {
                processors,
                throttled_pct: throttled.map(|(periods, throttled)| 100.0 * throttled / periods),
            }),
        })
    }

    fn are_busy(&self) -> bool {
        let throttled_pct = self.limit.as_ref().and_then(|limit| limit.throttled_pct);
        self.idle_pct() < MAX_SHORT_IDLE_PCT || throttled_pct.is_some_and(|pct| pct >= MIN_THROTTLED_PCT)
    }

    pub(crate) fn idle_pct(&self) -> f64 {
        100.0 - self.busy_pct
    }

    /// The share that neither the server nor the load took, in percent.
    pub(crate) fn others_pct(&self) -> f64 {
        self.busy_pct - self.server_pct - self.client_pct
    }

    /// The claim that they were busy, without a full stop.
    pub(crate) fn claim(&self) -> String {
        let busy_pct = self.busy_pct;
        let Some(limit) = &self.limit else { return format!("The processors were {busy_pct:.0} % busy") };
        let processors = (100.0 * limit.processors).round() / 100.0;
        match limit.throttled_pct {
            Some(throttled_pct) => format!(
                "The quota of {processors} processors was {busy_pct:.0} % used and ran out in {throttled_pct:.0} % of its periods"
            ),
            None => format!("The {processors} processors that this may use were {busy_pct:.0} % busy"),
        }
    }
}

/// The processor time of the only server in microseconds a second.
fn server_us_per_s(evidence: &Evidence) -> Option<f64> {
    let member = evidence.members().into_iter().next()?;
    evidence.rate_per_s(&format!("server.{member}.process.cpu_us"))
}

/// Microseconds a second as a share of the time of this many processors, in percent.
fn pct(us_per_s: f64, processors: f64) -> f64 {
    us_per_s / 1e4 / processors
}

fn client_share(evidence: &Evidence) -> f64 {
    let shares = client_names(evidence, "cpu_share").filter_map(|name| evidence.mean(&name));
    shares.reduce(f64::max).unwrap_or(0.0)
}
