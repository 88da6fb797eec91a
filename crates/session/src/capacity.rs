//! The capacities of a server: for each kind of load the highest rate that holds an objective, and what limits it.
//!
//! The table is larger than the engine's cache, so that uniform reads reach the device. The limit is read in the closed
//! loop that a search begins with, or in the lowest step that broke the objective.

use bson::doc;
use fathom_client::{Connection, Target};
use fathom_errors::Result;
use fathom_explain::{Evidence, Judgement, LimitReading};
use fathom_load::core_workload::{CoreSource, Phase};
use fathom_load::find_max::{SearchStep, StepVerdict};
use fathom_record::capacity::{Capacity, CapacityLimit, CapacityLoad, MIN_DEVICE_READS_PER_PAGE, Saturation};
use fathom_record::disk::Entry;

use crate::Assessment;
use crate::capacity_spec::{CapacitySearch, CapacitySpec};
use crate::context::SessionContext;
use crate::load_drive::{CoreWorkloadDrive, LoadDrive, LoadOutcome, LoadTarget, PartLabel};
use crate::load_spec::{CoreLoad, LoadSpec};
use crate::search::{self, RateSearch, SearchPlan};

/// The digits of a key's number: without padding, keys are not in the order of their numbers.
const KEY_DIGITS: &str = "12";

/// Loads the table and searches for each capacity. A signal ends it early, which is no error.
pub(crate) fn run(
    spec: &CapacitySpec,
    load: &LoadSpec,
    chosen: Option<&LoadTarget>,
    context: &mut SessionContext<'_>,
) -> Result<LoadOutcome> {
    let core = CoreWorkloadDrive::open(&spec.loading(), chosen, context)?;
    let server = chosen.cloned().unwrap_or_else(|| core.server());
    let mut drive = LoadDrive::start(load, &server, Some(core.namespace()), core.binding(), context)?;
    let driven = search_all(spec, &server, core, &mut drive);
    drive.end(driven)
}

fn search_all(
    spec: &CapacitySpec,
    server: &LoadTarget,
    first: CoreWorkloadDrive,
    drive: &mut LoadDrive<'_, '_>,
) -> Result<()> {
    let records = load_table(&first, drive, server)?;
    for search in &spec.searches {
        if drive.is_over() {
            break;
        }
        write_checkpoint(server)?;
        let core = CoreWorkloadDrive::open(&spec.running(search.load, records), Some(server), drive.context)?;
        let (closed, step) = step_names(search.load);
        let tag = server.tag(search.load.name());
        let plan = SearchPlan { names: (closed, step), tag: &tag, slo: &spec.slo, steps: &search.steps };
        let Some(searched) = search::search(&plan, &core, drive)? else { break };
        if searched.found.interrupted {
            break;
        }
        let evidence = drive.evidence().cloned().unwrap_or_default();
        let closed = evidence.over(searched.closed.1);
        let mut judgement = fathom_explain::judge(&closed);
        let capacity = capacity(spec, search, &server.name, &searched, (&closed, &judgement));
        // The closed loop is meant to fill the machine. If a capacity could be stated nevertheless, its limit contains the relevant part.
        if capacity.withheld.is_none() {
            judgement.findings.retain(|finding| !fathom_explain::is_processor_shortage(finding));
        }
        drive.context.result(&Entry::Capacity(Box::new(capacity)))?;
        let subject = format!("{}, {}", server.name, search.load.name());
        drive.context.recorder.judgement(&judgement);
        drive.context.assessments.push(Assessment {
            subject,
            evidence: closed,
            judgement,
            notes: Vec::new(),
        });
    }
    Ok(())
}

/// The names of a search's closed loop and of its steps in results.
fn step_names(load: CapacityLoad) -> (&'static str, &'static str) {
    match load {
        CapacityLoad::Reads => ("reads, closed loop", "reads"),
        CapacityLoad::JournaledWrites => ("journaled writes, closed loop", "journaled writes"),
        CapacityLoad::Mix => ("mix, closed loop", "mix"),
    }
}

impl CapacitySpec {
    /// The load of the table.
    fn loading(&self) -> CoreLoad {
        let mut part = CoreLoad {
            name: "load".to_owned(),
            is_run: Some(false),
            records: Some(self.records),
            time: Some(self.load_time),
            connections: Some(self.connections),
            seed: Some(self.seed),
            ..CoreLoad::default()
        };
        for (name, value) in
            [("workload", "CoreWorkload"), ("insertorder", "ordered"), ("zeropadding", KEY_DIGITS)]
        {
            part.properties.set(name, value, "the session");
        }
        part
    }

    /// The operations of a load on a table of so many records.
    fn running(&self, load: CapacityLoad, records: u64) -> CoreLoad {
        let (records, read_share) = match load {
            CapacityLoad::Reads => (records, 1.0),
            CapacityLoad::JournaledWrites => (records.min(self.journaled_records()), 0.0),
            CapacityLoad::Mix => (records, 0.5),
        };
        let mut part = CoreLoad {
            is_run: Some(true),
            records: Some(records),
            operations: Some(0),
            read_share: Some(read_share),
            ..self.loading()
        };
        part.properties.set("requestdistribution", "uniform", "the session");
        part.properties.set("mongodb.writeConcern", "journaled", "the session");
        part
    }
}

/// Loads the table, and returns how many records it has: a load that its time ended has inserted fewer.
fn load_table(core: &CoreWorkloadDrive, drive: &mut LoadDrive<'_, '_>, server: &LoadTarget) -> Result<u64> {
    let settings = &core.plan.settings;
    let seed = settings.plan.seed;
    let source = |number: usize| CoreSource::new(&core.shared, seed, number as u64);
    let label = PartLabel { name: "load", tag: &server.tag("load"), phase: Phase::Load };
    let ended = drive.part(label, settings, core.route(), source)?;
    Ok(ended.operations.max(1))
}

/// Makes the server write the loaded data first, so that no search includes that work.
fn write_checkpoint(server: &LoadTarget) -> Result<()> {
    let target: Target = server.url.parse()?;
    let mut connection = Connection::connect(&target)?;
    connection.run("admin", &doc! { "fsync": 1 })?;
    Ok(())
}

/// The capacity that a search found.
fn capacity(
    spec: &CapacitySpec,
    search: &CapacitySearch,
    server: &str,
    searched: &RateSearch,
    (closed, judgement): (&Evidence, &Judgement),
) -> Capacity {
    let steps = || searched.found.steps.iter().zip(&searched.windows);
    let highest = || {
        let held = steps().filter(|((_, verdict), _)| *verdict == StepVerdict::Sustained);
        held.map(|((step, _), _)| step.offered_per_s).reduce(f64::max)
    };
    // A client that was busy ends the search without an answer: on one host the processors are the limit then.
    let rate_per_s = if searched.found.client_limited { highest() } else { searched.found.rate_per_s };
    let lowest_broken = || {
        let is_beyond = |step: &SearchStep| rate_per_s.is_none_or(|rate| step.offered_per_s > rate);
        let broken =
            steps().filter(|((step, verdict), _)| *verdict != StepVerdict::Sustained && is_beyond(step));
        broken.map(|((step, _), _)| step.offered_per_s).reduce(f64::min)
    };
    let bound = searched.found.broken_per_s.filter(|_| !searched.found.client_limited);
    let broken_per_s = bound.or_else(lowest_broken);
    let broken = steps().find(|((step, verdict), _)| {
        *verdict != StepVerdict::Sustained && Some(step.offered_per_s) == broken_per_s
    });
    let at_rate = steps()
        .rfind(|((step, verdict), _)| {
            *verdict == StepVerdict::Sustained && Some(step.offered_per_s) == rate_per_s
        })
        .map(|((step, _), window)| (step, closed.over(*window)));
    let broken_window = broken.map(|(_, window)| closed.over(*window));
    let reading = limit(search.load, searched, (closed, judgement), broken_window.as_ref());
    let whole = closed.over((searched.closed.1.0, u64::MAX));
    let device_reads_per_page = fathom_explain::device_reads_per_page(&whole);
    let reads_past_memory = search.load != CapacityLoad::JournaledWrites;
    let cached = || {
        let per_page = device_reads_per_page.filter(|_| reads_past_memory)?;
        (per_page < MIN_DEVICE_READS_PER_PAGE).then(|| fathom_explain::cached_reads(per_page))
    };
    let disturbed = || broken_window.as_ref().and_then(fathom_explain::disturbance);
    let withheld = reading.withheld.or_else(cached).or_else(disturbed);
    let reads_at_rate = at_rate.as_ref().and_then(|(step, evidence)| {
        Some(fathom_explain::device_reads_per_s(evidence)? / step.achieved_per_s.max(1e-9))
    });
    let margin = search.steps.rates.margin;
    Capacity {
        server: server.to_owned(),
        load: search.load,
        objective: spec.slo.text().to_owned(),
        rate_per_s: rate_per_s.filter(|_| withheld.is_none()).map(|rate| rate / margin),
        broken_per_s: broken_per_s.map(|rate| rate * margin),
        quantile_ns: at_rate.as_ref().and_then(|(step, _)| step.quantile_ns),
        device_reads_per_operation: reads_at_rate.filter(|_| reads_past_memory),
        device_reads_per_page: device_reads_per_page.filter(|_| reads_past_memory),
        is_counted_by_process: reads_past_memory && fathom_explain::is_counted_by_process(&whole),
        limit: reading.limit,
        limit_reason: reading.reason,
        saturation: Some(Saturation {
            per_s: searched.closed.0.achieved_per_s,
            device_reads_per_s: fathom_explain::device_reads_per_s(closed),
            idle_pct: fathom_explain::idle_pct(closed),
        }),
        checkpoints: at_rate.and_then(|(_, evidence)| fathom_explain::checkpoint_cost(&evidence)),
        withheld,
    }
}

/// The limit, read in the closed loop. With a fast disk, the limit there is the processors. The reason that the objective broke at a
/// lower rate is then read in that step, if processors were free in it.
fn limit(
    load: CapacityLoad,
    searched: &RateSearch,
    (closed, judgement): (&Evidence, &Judgement),
    broken: Option<&Evidence>,
) -> LimitReading {
    let reading = if searched.found.client_limited {
        let reason =
            "The load generator's threads, on the same processors as the server, were busy.".to_owned();
        LimitReading { limit: CapacityLimit::Processors, reason, withheld: None }
    } else {
        fathom_explain::limit_of(closed, judgement, load)
    };
    match broken {
        Some(step) if !reading.limit.is_storage() => {
            let of_step = fathom_explain::limit_of(step, &fathom_explain::judge(step), load);
            if of_step.limit.is_storage() { of_step } else { reading }
        }
        _ => reading,
    }
}

#[cfg(test)]
mod tests {
    use fathom_load::find_max::SearchResult;
    use fathom_probe::Pace;
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn step(offered_per_s: f64) -> SearchStep {
        SearchStep {
            offered_per_s,
            achieved_per_s: offered_per_s,
            seconds: 10.0,
            quantile_ns: Some(5_000_000),
            slow_share: Some(0.0),
            failed_share: 0.0,
            lag_ms: vec![0.1; 10],
            client_cpu_share: 0.1,
        }
    }

    /// The capacity of a server whose process read a part of the engine's pages from the device.
    fn capacity_of(load: CapacityLoad, device_reads_per_page: f64) -> Capacity {
        let mut series = SeriesSet::default();
        for (name, value) in [
            ("server.0.engine.reads", 1000.0),
            ("server.0.pages.read", 1000.0),
            ("server.0.engine.read_bytes", 4_096_000.0),
            ("server.0.process.read_bytes", device_reads_per_page * 4_096_000.0),
        ] {
            for second in 0..20 {
                let (begin_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
                series.add(name, "1", Point { begin_ns, end_ns, value });
            }
        }
        let evidence = Evidence { series, window_ns: (0, 20 * SECOND_NS), ..Evidence::default() };
        let spec = CapacitySpec::new(Pace::Full, "p99<10ms".parse().unwrap(), 1);
        let mut search = spec.searches[0].clone();
        search.load = load;
        let searched = RateSearch {
            closed: (step(0.0), (0, 10 * SECOND_NS)),
            found: SearchResult {
                rate_per_s: Some(900.0),
                broken_per_s: Some(1000.0),
                steps: vec![(step(900.0), StepVerdict::Sustained)],
                ..SearchResult::default()
            },
            windows: vec![(10 * SECOND_NS, 20 * SECOND_NS)],
        };
        capacity(&spec, &search, "Server", &searched, (&evidence, &Judgement::default()))
    }

    #[test]
    fn reads_from_the_page_cache_withhold_a_capacity() {
        let past_memory = capacity_of(CapacityLoad::Reads, 0.95);
        assert_eq!((past_memory.rate_per_s, past_memory.withheld), (Some(900.0), None));
        for load in [CapacityLoad::Reads, CapacityLoad::Mix] {
            let cached = capacity_of(load, 0.8);
            let why = cached.withheld.as_deref().unwrap_or_default();
            assert!(why.starts_with("Only 0.80 device reads were counted for each page"), "{cached:?}");
            assert_eq!((cached.rate_per_s, cached.device_reads_per_page), (None, Some(0.8)));
        }
        let writes = capacity_of(CapacityLoad::JournaledWrites, 0.8);
        assert_eq!((writes.rate_per_s, writes.withheld), (Some(900.0), None), "they read nothing");
    }
}
