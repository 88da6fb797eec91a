//! The gain of clients if operations took less time: the time itself, and a shorter queue for a connection before it.
//!
//! A client at a target rate with `c` connections is a queue with `c` servers. How its wait changes with the service time is taken from
//! Sakasegawa's approximation of the M/M/c queue (H. Sakasegawa, An approximation formula Lq = a rho^b / (1 - rho), Annals of the Institute
//! of Statistical Mathematics 29, 1977): the measured wait is scaled by the ratio of the formula with and without the cause. The wait
//! beyond the formula's wait for bursts is the wait behind a stop, and only disappears with the stop.

use fathom_record::budget::Budget;
use fathom_record::disk::Entry;
use fathom_record::verdict::{Cost, LatencyClock};

use crate::Evidence;
use crate::path::{client_gauge, client_mean_us, client_per_s};
use crate::seconds::{SecondGrid, mean};

/// Above this utilization of its connections a client's queue only grows, and the unserved operations count. The formula for the wait has no end at
/// 1.
const MAX_UTILIZATION: f64 = 0.95;
/// The largest ratio of the wait of bursty arrivals to that of random ones: squared coefficients of variation of 4.
const MAX_BURST_RATIO: f64 = 4.0;

/// The load behind a budget.
#[derive(Clone, Debug)]
pub(crate) struct BudgetLoad {
    clock: LatencyClock,
    /// Mean time of an operation by that clock, and the part of it before the send, in microseconds.
    pub(crate) whole_us: f64,
    schedule_us: f64,
    /// Operations a second that ended.
    per_s: f64,
    /// The rate that was asked for, in operations a second, if the load had a rate.
    offered_per_s: Option<f64>,
    connections: Option<f64>,
    p99_us: Option<f64>,
    /// The share of the processors' time that is free, if the load is a closed loop: this limits how far its rate can rise.
    free_processors: Option<f64>,
    /// Processors that the host has.
    processors: Option<f64>,
}

impl BudgetLoad {
    /// The load of a budget of all operations.
    pub(crate) fn from_evidence(evidence: &Evidence, budget: &Budget) -> BudgetLoad {
        let (begin_ns, end_ns) = budget.window_ns;
        let seconds = end_ns.saturating_sub(begin_ns) as f64 / 1e9;
        let schedule = budget.layers.iter().find(|layer| layer.name == "schedule");
        BudgetLoad {
            clock: match (budget.client_mean_us, schedule) {
                (Some(_), Some(_)) => LatencyClock::Response,
                (Some(_), None) => LatencyClock::Service,
                (None, _) => LatencyClock::Server,
            },
            whole_us: budget.whole_us(),
            schedule_us: schedule.map_or(0.0, |layer| layer.mean_us.max(0.0)),
            // Seconds that the budget leaves out are not seconds without operations.
            per_s: client_per_s(evidence)
                .filter(|_| budget.client_mean_us.is_some())
                .unwrap_or(if seconds > 0.0 { budget.count / seconds } else { 0.0 }),
            p99_us: p99_us(evidence).filter(|_| budget.client_mean_us.is_some()),
            ..BudgetLoad::from_clients(evidence)
        }
    }

    /// The same from the client's records alone; `None` without a watched client.
    pub(crate) fn from_client(evidence: &Evidence) -> Option<BudgetLoad> {
        let grid = SecondGrid::from_evidence(evidence);
        let (mean_us, counts) = client_mean_us(evidence, grid, "response")?;
        let (mut time_us, mut count, mut seconds) = (0.0, 0.0, 0.0);
        for (mean_us, ended) in mean_us.iter().zip(&counts) {
            let Some(ended) = *ended else { continue };
            time_us += mean_us.unwrap_or(0.0) * ended;
            count += ended;
            seconds += 1.0;
        }
        (count > 0.0).then(|| BudgetLoad {
            whole_us: time_us / count,
            per_s: count / seconds,
            p99_us: p99_us(evidence),
            ..BudgetLoad::from_clients(evidence)
        })
    }

    /// The fields that all servers share.
    fn from_clients(evidence: &Evidence) -> BudgetLoad {
        let connections = client_gauge(evidence, SecondGrid::from_evidence(evidence), "connections");
        let offered: Vec<f64> = loads(evidence).filter_map(|load| load.offered_per_s).collect();
        BudgetLoad {
            clock: LatencyClock::Response,
            whole_us: 0.0,
            schedule_us: 0.0,
            per_s: 0.0,
            // Several loads follow each other, and it is not known which of them is in the window.
            offered_per_s: offered.first().copied().filter(|_| offered.len() == 1),
            connections: connections
                .and_then(|all| mean(all.into_iter().flatten()))
                .filter(|count| *count >= 1.0),
            p99_us: None,
            free_processors: evidence
                .idle_pct()
                .filter(|_| offered.is_empty())
                .map(|idle_pct| (idle_pct / 100.0).clamp(0.0, 1.0)),
            processors: evidence.mean("host.cpu.count"),
        }
    }

    /// The cost of `us` microseconds of the mean operation, with their bounds. `work_us` of them are processor time or a wait for a processor. `None` if
    /// `us` is zero.
    pub(crate) fn cost(&self, us: f64, interval_us: (f64, f64), work_us: f64, basis: &str) -> Option<Cost> {
        if !(us > 0.0 && self.is_timed()) {
            return None;
        }
        let most = self.most_share(us, work_us);
        let share = |us: f64| (self.saved_us(us.max(0.0)) / self.whole_us).clamp(0.0, most);
        Some(Cost {
            clock: self.clock,
            share: share(us),
            interval: (share(interval_us.0), share(interval_us.1)),
            mean_us: share(us) * self.whole_us,
            p99_us: self.p99_us,
            unserved_per_s: self.unserved_per_s(us),
            basis: basis.to_owned(),
        })
    }

    /// The same if the share of all waiting by the response clock is known already. `None` if the share is zero or no operation was timed.
    pub(crate) fn cost_of_share(&self, share: f64, interval: (f64, f64), basis: &str) -> Option<Cost> {
        let within = |share: f64| share.clamp(0.0, 1.0);
        (share > 0.0 && self.is_timed()).then(|| Cost {
            clock: self.clock,
            share: within(share),
            interval: (within(interval.0), within(interval.1)),
            mean_us: within(share) * self.whole_us,
            p99_us: self.p99_us,
            unserved_per_s: None,
            basis: basis.to_owned(),
        })
    }

    /// Whether the mean time of an operation is known.
    pub(crate) fn is_timed(&self) -> bool {
        self.whole_us > 0.0
    }

    /// The cost of stops, whose share is of the clients' response time. Without a watched client the server's own mean is the remainder of it.
    pub(crate) fn cost_of_stops(&self, share: f64, interval: (f64, f64), basis: &str) -> Option<Cost> {
        match self.clock {
            LatencyClock::Server if share < 1.0 => {
                let whole_us = self.whole_us / (1.0 - share);
                BudgetLoad { clock: LatencyClock::Response, whole_us, ..self.clone() }
                    .cost_of_share(share, interval, basis)
            }
            _ => self.cost_of_share(share, interval, basis),
        }
    }

    /// The cost of a wait before the arrival at the server, as a share of the time from the send. The server's own mean is the remainder of it.
    pub(crate) fn cost_before_arrival(&self, share: f64, interval: (f64, f64), basis: &str) -> Option<Cost> {
        match self.clock {
            LatencyClock::Server if share < 1.0 => {
                let whole_us = self.whole_us / (1.0 - share);
                BudgetLoad { clock: LatencyClock::Service, whole_us, ..self.clone() }
                    .cost_of_share(share, interval, basis)
            }
            _ => self.cost_of_share(share, interval, basis),
        }
    }

    /// The largest share that a closed loop gains without `us`, of which `work_us` are processor time or a wait for a processor. The rate stops rising
    /// when no processor is free. An operation still takes its other processor time, which is at most its remaining time. A load at a rate has no such
    /// limit.
    fn most_share(&self, us: f64, work_us: f64) -> f64 {
        let is_closed = self.clock != LatencyClock::Server && self.schedule_us <= 0.0;
        let Some(free) = self.free_processors.filter(|_| is_closed) else { return 1.0 };
        let remaining_us = (self.whole_us - us).max(0.0);
        let idle_then = self.processors.map_or(0.0, |count| 1.0 - self.per_s * remaining_us / 1e6 / count);
        free.max(idle_then).max(work_us / self.whole_us)
    }

    /// The wait for a free connection, which more connections would remove: the formula's wait for bursts, or the whole wait if the connections
    /// are always in use.
    pub(crate) fn queue_us(&self) -> f64 {
        let (Some(connections), Some(utilization)) = (self.connections, self.utilization(self.service_us()))
        else {
            return self.schedule_us;
        };
        if utilization >= MAX_UTILIZATION {
            return self.schedule_us;
        }
        self.schedule_us.min(MAX_BURST_RATIO * wait_us(utilization, connections, self.service_us()))
    }

    /// The wait to be sent that connections of this utilization do not explain: something that stops at times delayed operations.
    pub(crate) fn stop_us(&self) -> f64 {
        self.schedule_us - self.queue_us()
    }

    fn service_us(&self) -> f64 {
        (self.whole_us - self.schedule_us).max(0.0)
    }

    fn utilization(&self, service_us: f64) -> Option<f64> {
        Some(self.per_s * service_us / 1e6 / self.connections?)
    }

    /// The time that the mean falls by if the service time falls by `us`.
    fn saved_us(&self, us: f64) -> f64 {
        let before_us = self.service_us();
        let after_us = (before_us - us).max(0.0);
        let direct_us = before_us - after_us;
        let (Some(connections), true) = (self.connections, self.schedule_us > 0.0) else { return direct_us };
        let (Some(before), Some(after)) = (self.utilization(before_us), self.utilization(after_us)) else {
            return direct_us;
        };
        let then_us = wait_us(after, connections, after_us);
        if before >= MAX_UTILIZATION {
            return direct_us + (self.schedule_us - then_us).max(0.0);
        }
        let now_us = wait_us(before, connections, before_us);
        let steady_us = self.queue_us();
        if now_us <= 0.0 {
            return direct_us;
        }
        direct_us + steady_us * (1.0 - then_us / now_us).clamp(0.0, 1.0)
    }

    /// The operations a second that are asked for and not served now, but would be served without `us`.
    fn unserved_per_s(&self, us: f64) -> Option<f64> {
        let offered = self.offered_per_s.filter(|offered| *offered > self.per_s / MAX_UTILIZATION)?;
        let after_us = (self.service_us() - us).max(1.0);
        let could = self.connections.map_or(f64::INFINITY, |connections| connections * 1e6 / after_us);
        Some((offered.min(could) - self.per_s).max(0.0))
    }
}

/// The loads that ended within the run.
fn loads(evidence: &Evidence) -> impl Iterator<Item = &fathom_record::load::Load> {
    evidence.results.iter().filter_map(|entry| match entry {
        Entry::Load(load) => Some(load),
        _ => None,
    })
}

/// The 99th percentile of the slowest kind of operation, in microseconds.
fn p99_us(evidence: &Evidence) -> Option<f64> {
    let latencies = loads(evidence).flat_map(|load| &load.by_operation);
    let p99_ns = latencies.filter_map(|one| one.response.as_ref().or(one.service.as_ref())?.p99_ns).max();
    p99_ns.map(|ns| ns as f64 / 1e3)
}

/// The mean wait before service at `count` servers of that utilization, by Sakasegawa.
fn wait_us(utilization: f64, count: f64, service_us: f64) -> f64 {
    let rho = utilization.clamp(0.0, 0.999);
    service_us * rho.powf((2.0 * (count + 1.0)).sqrt() - 1.0) / (count * (1.0 - rho))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(schedule_us: f64, service_us: f64, per_s: f64, connections: f64) -> BudgetLoad {
        BudgetLoad {
            clock: LatencyClock::Response,
            whole_us: schedule_us + service_us,
            schedule_us,
            per_s,
            offered_per_s: None,
            connections: Some(connections),
            p99_us: None,
            free_processors: None,
            processors: None,
        }
    }

    #[test]
    fn one_server_is_the_textbook_queue() {
        // M/M/1: the wait is rho / (1 - rho) services.
        for rho in [0.1, 0.5, 0.9] {
            let exact = rho / (1.0 - rho) * 100.0;
            assert!((wait_us(rho, 1.0, 100.0) - exact).abs() < 1e-9, "{rho}");
        }
        // M/M/16 at 0.9: the exact formula (Erlang C) gives 0.370 services.
        assert!((wait_us(0.9, 16.0, 1.0) - 0.370).abs() < 0.01, "{}", wait_us(0.9, 16.0, 1.0));
    }

    #[test]
    fn a_closed_loop_gains_what_goes_and_no_more() {
        let cost = load(0.0, 1000.0, 8000.0, 8.0).cost(400.0, (300.0, 500.0), 0.0, "x").unwrap();
        assert_eq!((cost.share, cost.interval, cost.mean_us), (0.4, (0.3, 0.5), 400.0));
        assert_eq!(load(0.0, 1000.0, 1.0, 1.0).cost(0.0, (0.0, 0.0), 0.0, "x"), None);
    }

    #[test]
    fn a_closed_loop_goes_no_further_than_the_processors() {
        let full = BudgetLoad { free_processors: Some(0.06), ..load(0.0, 700.0, 11_000.0, 8.0) };
        let cost = full.cost(190.0, (180.0, 200.0), 0.0, "x").unwrap();
        assert_eq!((cost.share, cost.interval), (0.06, (0.06, 0.06)));
        // Half of the processors are free, for operations that wait nearly all of their time.
        let locked = BudgetLoad {
            free_processors: Some(0.5),
            processors: Some(2.0),
            ..load(0.0, 100_000.0, 80.0, 8.0)
        };
        let cost = locked.cost(99_000.0, (98_000.0, 99_500.0), 0.0, "x").unwrap();
        assert!((cost.share - 0.96).abs() < 1e-9, "{cost:?}");
        // Less processor time for each operation allows a higher rate.
        let cost = full.cost(190.0, (180.0, 200.0), 140.0, "x").unwrap();
        assert!((cost.share - 0.2).abs() < 1e-9, "{cost:?}");
        // A load at a rate waits less, and asks for no more than before.
        let cost = BudgetLoad { schedule_us: 1.0, ..full }.cost(190.0, (180.0, 200.0), 0.0, "x").unwrap();
        assert!(cost.share > 0.2, "{cost:?}");
    }

    #[test]
    fn the_queue_shortens_with_the_service() {
        // One connection, 900 a second of 1 ms: 9 ms of wait. Half the service leaves 0.41 ms of it.
        let cost = load(9000.0, 1000.0, 900.0, 1.0).cost(500.0, (500.0, 500.0), 0.0, "x").unwrap();
        let expected = (500.0 + 9000.0 - 0.45 / 0.55 * 500.0) / 10_000.0;
        assert!((cost.share - expected).abs() < 1e-6, "{cost:?}");
    }

    #[test]
    fn what_was_waited_behind_a_stop_stays() {
        // Utilization 0.1: the formula's wait is 0.1 ms, and at most four times of that is the wait of a queue.
        let cost = load(50_000.0, 1000.0, 100.0, 1.0).cost(500.0, (500.0, 500.0), 0.0, "x").unwrap();
        assert!(cost.share < 0.02, "{cost:?}");
    }

    #[test]
    fn stops_cost_what_clients_wait_though_none_was_watched() {
        let server = BudgetLoad { clock: LatencyClock::Server, ..load(0.0, 100.0, 400.0, 8.0) };
        let cost = server.cost_of_stops(0.99, (0.25, 0.99), "x").unwrap();
        assert_eq!(cost.clock, LatencyClock::Response);
        assert!((cost.mean_us - 9_900.0).abs() < 1e-6, "{cost:?}");
        let of_client = load(0.0, 100.0, 400.0, 8.0);
        assert_eq!(of_client.cost_of_stops(0.5, (0.5, 0.5), "x").unwrap().mean_us, 50.0);
    }

    #[test]
    fn nothing_measured_costs_nothing() {
        let load = load(0.0, 100.0, 400.0, 8.0);
        let untimed = BudgetLoad { whole_us: 0.0, ..load.clone() };
        assert_eq!(load.cost_of_share(0.0, (0.0, 0.0), "x"), None);
        assert_eq!(load.cost_of_share(f64::NAN, (0.0, 0.0), "x"), None);
        assert_eq!(untimed.cost_of_share(0.5, (0.4, 0.6), "x"), None);
        assert_eq!(untimed.cost_of_stops(0.5, (0.4, 0.6), "x"), None);
        assert_eq!(untimed.cost(10.0, (5.0, 15.0), 0.0, "x"), None);
    }

    #[test]
    fn an_overloaded_client_loses_operations() {
        let mut load = load(2e6, 10_000.0, 1590.0, 16.0);
        load.offered_per_s = Some(2000.0);
        let cost = load.cost(5000.0, (5000.0, 5000.0), 0.0, "x").unwrap();
        assert!((cost.unserved_per_s.unwrap() - 410.0).abs() < 1e-6, "{cost:?}");
        assert!(cost.share > 0.99, "{cost:?}");
    }
}
