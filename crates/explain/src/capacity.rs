//! The limit of a server at its capacity, read from the window in which it got more operations than it could serve, and the share of its
//! reads that reached the device.

use fathom_record::Finding;
use fathom_record::budget::{Budget, Layer};
use fathom_record::capacity::{CapacityLimit, CapacityLoad, CheckpointCost};
use fathom_units::decimal;

use crate::guard::PROCESSOR_SHORTAGES;
use crate::processors::Processors;
use crate::server_devices::{leaves, tops};
use crate::{Evidence, Judgement, caps};

/// The most processor time that other programs may take while the server and its load fill the rest, in percent. It includes the kernel's own
/// work for the server and its load.
const MAX_OTHERS_PCT: f64 = 30.0;
/// A wait that takes at least this share of the server's time is the limit of its operations.
const MIN_WAIT_SHARE: f64 = 0.5;

/// The fact on a server (`server.{member}.direct_io`) that its data files bypass the kernel's page cache.
pub const DIRECT_FACT: &str = "direct_io";

/// The limit of a server, and the evidence for it.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitReading {
    pub limit: CapacityLimit,
    /// The reason, in one sentence with its figures.
    pub reason: String,
    /// The reason why the window says nothing about the disk, and the one thing to do about it.
    pub withheld: Option<String>,
}

impl LimitReading {
    fn new(limit: CapacityLimit, reason: String) -> LimitReading {
        LimitReading { limit, reason, withheld: None }
    }
}

/// Reads the limit of the only server for a load over the evidence's window. `judgement` is the judgement of that window.
pub fn limit_of(evidence: &Evidence, judgement: &Judgement, load: CapacityLoad) -> LimitReading {
    // A load of one kind reaches a cap on the other only by chance, as reads do until the records of writes are in the cache.
    let is_concerned = |series: &String| match load {
        CapacityLoad::Reads => series.contains(".cap.read_"),
        CapacityLoad::JournaledWrites => series.contains(".cap.write_"),
        CapacityLoad::Mix => series.contains(".cap."),
    };
    let is_capped =
        |finding: &&Finding| finding.id == caps::REACHED_ID && finding.series.iter().any(is_concerned);
    if let Some(capped) = judgement.findings.iter().find(is_capped) {
        return LimitReading::new(CapacityLimit::Cap, capped.claim.clone());
    }
    if let Some(busy) = Processors::busy(evidence) {
        return of_processors(&busy, evidence);
    }
    let found = |id: &&str| judgement.findings.iter().find(|finding| finding.id == **id);
    match PROCESSOR_SHORTAGES.iter().find_map(found) {
        Some(shortage) => disturbed(shortage),
        None => of_waits(judgement),
    }
}

/// The limit of a host, or of a quota, whose processors are busy.
fn of_processors(processors: &Processors, evidence: &Evidence) -> LimitReading {
    let others_pct = processors.others_pct();
    if others_pct <= MAX_OTHERS_PCT {
        let reason = format!("{}, mostly with the server and the load.", processors.claim());
        return LimitReading::new(CapacityLimit::Processors, reason);
    }
    let top = evidence.fact("host.top.cpu").map_or_else(String::new, |top| format!(" ({top})"));
    let reason = format!("Other programs took {others_pct:.0} % of the processors' time{top}.");
    let withheld = format!("{reason} Stop them, and measure again.");
    LimitReading { limit: CapacityLimit::Unknown, reason, withheld: Some(withheld) }
}

/// The reason why a window says nothing about the server, if other programs took the processors in it.
pub fn disturbance(evidence: &Evidence) -> Option<String> {
    of_processors(&Processors::busy(evidence)?, evidence).withheld
}

/// A window in which other programs took the processors.
fn disturbed(shortage: &Finding) -> LimitReading {
    let next = shortage.advice.as_deref().unwrap_or("Measure again when the processors are free.");
    LimitReading {
        limit: CapacityLimit::Unknown,
        reason: shortage.claim.clone(),
        withheld: Some(format!("{} {next}", shortage.claim)),
    }
}

/// The limit according to what operations wait for within the server.
fn of_waits(judgement: &Judgement) -> LimitReading {
    let whole_us: f64 = judgement.budgets.iter().map(|one| one.count * one.server_mean_us).sum();
    let wait_us = |name: &str| -> f64 {
        judgement.budgets.iter().map(|one| one.count * layer_us(one, name)).sum::<f64>().min(whole_us)
    };
    let waits = [
        (CapacityLimit::Disk, "pages to be read", wait_us("page_read")),
        (CapacityLimit::JournalSync, "the journal's sync", wait_us("journal")),
    ];
    let longest = waits.into_iter().max_by(|a, b| a.2.total_cmp(&b.2)).filter(|_| whole_us > 0.0);
    let Some((limit, what, us)) = longest else {
        let reason = "The server did not say what its operations wait for.".to_owned();
        return LimitReading::new(CapacityLimit::Unknown, reason);
    };
    let share_pct = 100.0 * us / whole_us;
    if us < MIN_WAIT_SHARE * whole_us {
        let reason = format!(
            "No wait takes most of an operation's time in the server: the longest, for {what}, takes {share_pct:.0} %."
        );
        return LimitReading::new(CapacityLimit::Unknown, reason);
    }
    LimitReading::new(
        limit,
        format!("Operations wait for {what} during {share_pct:.0} % of their time in the server."),
    )
}

/// The mean time of a layer, at any depth of a budget, microseconds.
fn layer_us(budget: &Budget, name: &str) -> f64 {
    fn within(layers: &[Layer], name: &str) -> f64 {
        let of_layer = |layer: &Layer| {
            if layer.name == name { layer.mean_us } else { within(&layer.within, name) }
        };
        layers.iter().map(of_layer).sum()
    }
    within(&budget.layers, name)
}

/// Reads of the devices of the only server a second. The devices also count the reads of other programs. The server's process
/// counts bytes, which are converted here to pages of the size that its engine reads. The lower figure is taken. If the devices
/// cannot be seen from this host, the figure of the process is taken.
pub fn device_reads_per_s(evidence: &Evidence) -> Option<f64> {
    let member = evidence.members().into_iter().next()?;
    match (reads_of_devices(evidence, &member), reads_of_process(evidence, &member)) {
        (Some(of_devices), Some(of_process)) => Some(of_devices.min(of_process)),
        (of_devices, of_process) => of_devices.or(of_process),
    }
}

fn reads_of_devices(evidence: &Evidence, member: &str) -> Option<f64> {
    let tops = tops(evidence, member);
    let devices = if tops.is_empty() { leaves(evidence, member) } else { tops };
    let counted: Vec<f64> =
        devices.iter().filter_map(|device| evidence.rate_per_s(&format!("device.{device}.reads"))).collect();
    (!counted.is_empty()).then(|| counted.iter().sum())
}

/// Bytes that the process read from devices. The kernel does not count reads of FUSE there. If no device is seen and data files bypass the page
/// cache ([`DIRECT_FACT`]), the bytes that its read calls returned came from the file system.
fn reads_of_process(evidence: &Evidence, member: &str) -> Option<f64> {
    let of_server = |name: &str| evidence.rate_per_s(&format!("server.{member}.{name}"));
    let engine_bytes = of_server("engine.read_bytes").filter(|bytes| *bytes > 0.0)?;
    let is_direct = evidence.fact(&format!("server.{member}.{DIRECT_FACT}")) == Some("true");
    let by_calls = || of_server("process.read_call_bytes").map(|bytes| bytes.min(engine_bytes));
    let bytes = match of_server("process.read_bytes") {
        Some(bytes) if bytes > 0.0 || !is_direct => Some(bytes),
        fetched if reads_of_devices(evidence, member).is_none() => by_calls().or(fetched),
        fetched => fetched,
    };
    Some(of_server("engine.reads")? * bytes? / engine_bytes)
}

/// Whether the reads of the only server's process are used for those of its device, because the device is not on this host.
pub fn is_counted_by_process(evidence: &Evidence) -> bool {
    let member = evidence.members().into_iter().next();
    member.is_some_and(|member| {
        reads_of_devices(evidence, &member).is_none() && reads_of_process(evidence, &member).is_some()
    })
}

/// Reads of the devices for each page that the engine of the only server read; `None` if it read none, or its reads were not counted.
pub fn device_reads_per_page(evidence: &Evidence) -> Option<f64> {
    let member = evidence.members().into_iter().next()?;
    let pages = evidence.rate_per_s(&format!("server.{member}.pages.read")).filter(|pages| *pages > 0.0)?;
    Some(device_reads_per_s(evidence)? / pages)
}

/// The share of the processors' time in which nothing ran, in percent. It includes the time in which a processor waits for a device. Under a
/// quota, the unused share of the quota.
pub fn idle_pct(evidence: &Evidence) -> Option<f64> {
    let of_quota = Processors::from_limit(evidence).map(|processors| processors.idle_pct());
    of_quota.or_else(|| evidence.idle_pct())
}

/// Checkpoints of the only server that ended within the window; `None` if none did.
pub fn checkpoint_cost(evidence: &Evidence) -> Option<CheckpointCost> {
    let member = evidence.members().into_iter().next()?;
    let sum = |name: &str| evidence.sum(&format!("server.{member}.{name}"));
    let count = sum("checkpoint.count").filter(|count| *count >= 1.0)?;
    Some(CheckpointCost {
        count: count as u64,
        bytes: sum("engine.checkpoint_bytes").unwrap_or(0.0) / count,
        seconds: sum("checkpoint.total_ms").unwrap_or(0.0) / 1e3 / count,
    })
}

/// The sentence for a search whose reads came from the kernel's page cache.
pub fn cached_reads(per_page: f64) -> String {
    format!(
        "Only {} device reads were counted for each page that the engine read: the rest came from the kernel's page cache. \
         Take a directory on a file system with direct I/O.",
        decimal(per_page)
    )
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Ten seconds in which each series has the same value.
    fn evidence(values: &[(&str, f64)]) -> Evidence {
        let mut series = SeriesSet::default();
        for (name, value) in values {
            for second in 0..10 {
                let (begin_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
                series.add(name, "1", Point { begin_ns, end_ns, value: *value });
            }
        }
        Evidence { series, window_ns: (0, 10 * SECOND_NS), ..Evidence::default() }
    }

    fn busy(server_us: f64) -> Evidence {
        evidence(&[
            ("host.cpu.count", 2.0),
            ("host.cpu.idle_pct", 4.0),
            ("client.cpu_share", 0.2),
            ("server.0.process.cpu_us", server_us),
        ])
    }

    #[test]
    fn a_host_filled_by_its_server_is_told_from_one_that_others_fill() {
        let limit_of =
            |evidence: Evidence| super::limit_of(&evidence, &Judgement::default(), CapacityLoad::Reads);
        let own = limit_of(busy(1.4e6));
        assert_eq!((own.limit, own.withheld), (CapacityLimit::Processors, None));
        let others = limit_of(busy(0.4e6));
        assert_eq!(others.limit, CapacityLimit::Unknown);
        assert!(others.withheld.unwrap().starts_with("Other programs took 56 % of the processors' time."));
    }

    #[test]
    fn a_quota_that_is_used_up_is_the_limit_on_an_idle_host() {
        let under_quota = |used_us: f64, throttled: f64| {
            evidence(&[
                ("host.cpu.count", 2.0),
                ("host.cpu.idle_pct", 75.0),
                ("client.cpu_share", 0.05),
                ("server.0.process.cpu_us", 400_000.0),
                ("monitor.processors", 0.5),
                ("monitor.quota.used_us", used_us),
                ("monitor.quota.periods", 10.0),
                ("monitor.quota.throttled", throttled),
            ])
        };
        let limit_of =
            |evidence: Evidence| super::limit_of(&evidence, &Judgement::default(), CapacityLoad::Reads);
        let used = limit_of(under_quota(490_000.0, 9.0));
        assert_eq!((used.limit, used.withheld), (CapacityLimit::Processors, None));
        assert_eq!(
            used.reason,
            "The quota of 0.5 processors was 98 % used and ran out in 90 % of its periods, mostly with the server and the load."
        );
        assert_eq!(idle_pct(&under_quota(490_000.0, 9.0)).map(f64::round), Some(2.0));
        // Bursts use up a quota although much of it is left on average.
        assert_eq!(limit_of(under_quota(300_000.0, 6.0)).limit, CapacityLimit::Processors);
        assert_eq!(limit_of(under_quota(300_000.0, 1.0)).limit, CapacityLimit::Unknown);
    }

    #[test]
    fn other_programs_in_the_same_container_are_told() {
        let crowded = evidence(&[
            ("host.cpu.count", 8.0),
            ("host.cpu.idle_pct", 80.0),
            ("client.cpu_share", 0.01),
            ("server.0.process.cpu_us", 400_000.0),
            ("monitor.processors", 1.0),
            ("monitor.quota.used_us", 990_000.0),
        ]);
        let reading = super::limit_of(&crowded, &Judgement::default(), CapacityLoad::Reads);
        assert!(reading.withheld.is_some_and(|why| why.starts_with("Other programs took 51 %")));
    }

    fn budget(operations: &str, count: f64, layers: &[(&str, f64)]) -> Budget {
        let layer = |(name, mean_us): &(&str, f64)| Layer {
            name: (*name).to_owned(),
            mean_us: *mean_us,
            interval_us: None,
            share: 0.0,
            series: Vec::new(),
            within: Vec::new(),
        };
        Budget {
            member: "0".to_owned(),
            operations: operations.to_owned(),
            count,
            window_ns: (0, 1),
            client_mean_us: None,
            server_mean_us: 1000.0,
            layers: vec![Layer { within: layers.iter().map(layer).collect(), ..layer(&("server", 1000.0)) }],
            unexplained_us: 0.0,
            closure: 1.0,
            closes: true,
            missing: Vec::new(),
        }
    }

    #[test]
    fn the_longest_wait_is_the_limit_if_it_takes_most_of_the_time() {
        let limit = |budgets: Vec<Budget>| of_waits(&Judgement { budgets, ..Judgement::default() }).limit;
        let reads = budget("reads", 100.0, &[("page_read", 900.0)]);
        assert_eq!(limit(vec![reads.clone()]), CapacityLimit::Disk);
        let writes = budget("writes", 900.0, &[("page_read", 100.0), ("journal", 700.0)]);
        assert_eq!(limit(vec![reads, writes]), CapacityLimit::JournalSync);
        assert_eq!(limit(vec![budget("writes", 9.0, &[("journal", 400.0)])]), CapacityLimit::Unknown);
        assert_eq!(limit(Vec::new()), CapacityLimit::Unknown);
    }

    #[test]
    fn reads_of_the_device_are_those_of_the_server_alone() {
        let server = [
            ("server.0.pages.read", 100.0),
            ("server.0.engine.reads", 100.0),
            ("server.0.engine.read_bytes", 100.0 * 32_768.0),
        ];
        // A neighbour reads as much as the server.
        let beside = [("device.vda.reads", 200.0), ("server.0.process.read_bytes", 100.0 * 32_768.0)];
        let read = evidence(&[&server[..], &beside].concat());
        assert_eq!((device_reads_per_page(&read), device_reads_per_s(&read)), (Some(1.0), Some(100.0)));
        let cached = evidence(&[&server[..], &[("device.vda.reads", 3.0)]].concat());
        assert_eq!(device_reads_per_page(&cached), Some(0.03));
        // No device of this host.
        let remote = evidence(&[&server[..], &[("server.0.process.read_bytes", 50.0 * 32_768.0)]].concat());
        assert_eq!(device_reads_per_page(&remote), Some(0.5));
        assert_eq!(device_reads_per_page(&evidence(&server)), None);
        assert!(is_counted_by_process(&remote) && !is_counted_by_process(&read));
    }

    #[test]
    fn reads_of_a_file_system_without_a_device_are_counted_by_calls_if_they_are_direct() {
        let mut fuse = evidence(&[
            ("server.0.pages.read", 100.0),
            ("server.0.engine.reads", 100.0),
            ("server.0.engine.read_bytes", 100.0 * 32_768.0),
            ("server.0.process.read_bytes", 0.0),
            ("server.0.process.read_call_bytes", 101.0 * 32_768.0),
        ]);
        assert_eq!(device_reads_per_page(&fuse), Some(0.0));
        fuse.environment.insert(format!("server.0.{DIRECT_FACT}"), "true".to_owned());
        assert_eq!(device_reads_per_page(&fuse), Some(1.0));
        assert!(is_counted_by_process(&fuse));
    }

    #[test]
    fn a_checkpoint_costs_its_mean() {
        let mut evidence = evidence(&[("server.0.engine.checkpoint_bytes", 2e6)]);
        assert_eq!(checkpoint_cost(&evidence), None);
        for (name, value) in [("count", 1.0), ("total_ms", 300.0)] {
            for second in [2, 6] {
                let (begin_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
                let point = Point { begin_ns, end_ns, value };
                evidence.series.add(&format!("server.0.checkpoint.{name}"), "1", point);
            }
        }
        let cost = CheckpointCost { count: 2, bytes: 1e7, seconds: 0.3 };
        assert_eq!(checkpoint_cost(&evidence), Some(cost));
    }
}
