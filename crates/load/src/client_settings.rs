//! Reads the settings of a run from YCSB's client properties: connections, rate, duration, and the output meanwhile.

use std::time::Duration;

use fathom_errors::Error;
use fathom_stats::SeededRandom;

use crate::binding::Binding;
use crate::core_workload::{Phase, Retry};
use crate::driving::{Arrivals, DrivingPlan};
use crate::properties::{Properties, default_number};

/// The most connections; more than a machine has ports for are taken for a typing error.
const MAX_CONNECTIONS: u64 = 60_000;
/// The most operations under way on one connection; more would not load a server further.
const MAX_DEPTH: u64 = 1024;
/// A century, in seconds.
const MAX_SECONDS: u64 = 100 * 366 * 86_400;

/// The plan of a run and the settings of its output.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The plan of the run.
    pub plan: DrivingPlan,
    /// `status`: status lines on standard error.
    pub status: bool,
    pub status_interval_s: u64,
    /// `label`: the text in front of each status line.
    pub label: String,
    /// `exportfile`: the file of the report, if it is not standard output.
    pub export_file: Option<String>,
    /// The reaction to a failed insert of a load.
    pub retry: Retry,
}

/// The phase that the properties name, for a command line without a flag.
pub fn phase_of(properties: &Properties) -> Phase {
    if properties.truth("dotransactions", true) { Phase::Run } else { Phase::Load }
}

/// `operationcount`, if it is given; 0 is a run without an end.
///
/// # Errors
/// `Kind::Usage` if it is not a number.
pub fn operation_count(properties: &Properties) -> Result<Option<u64>, Error> {
    properties.whole("operationcount")
}

impl ClientSettings {
    /// Reads the properties; also returns sentences for warnings. `load_count` is the number of records that a load inserts, if it
    /// has an end.
    ///
    /// # Errors
    /// `Kind::Usage` with one sentence for the first invalid property.
    pub fn from_properties(
        properties: &Properties,
        phase: Phase,
        load_count: Option<u64>,
        binding: &Binding,
    ) -> Result<(ClientSettings, Vec<String>), Error> {
        let mut warnings = Vec::new();
        let operations = match phase {
            Phase::Load => load_count,
            Phase::Run => operation_count(properties)?.filter(|count| *count > 0),
        };
        let time = seconds(properties, "maxexecutiontime")?;
        if operations.is_none() && time.is_none() {
            warnings.push(match phase {
                Phase::Load => "recordcount is 0, so this load has no end; stop it with Ctrl-C".to_owned(),
                Phase::Run => {
                    "operationcount and maxexecutiontime are 0, so this run has no end; stop it with Ctrl-C"
                        .to_owned()
                }
            });
        }
        let threads = within(properties, "threadcount", 1, MAX_CONNECTIONS)?.unwrap_or(1);
        let connections = operations.map_or(threads, |operations| threads.min(operations.max(1)));
        if connections < threads {
            warnings.push(format!("threadcount is lowered from {threads} to the {connections} operations"));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let loops = within(properties, "loops", 1, 1024)?.unwrap_or(cores).min(connections);
        let seed = match properties.whole("seed")? {
            Some(seed) => seed,
            None => SeededRandom::from_seed(entropy()).bits(),
        };
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let plan = DrivingPlan {
            connections: size(connections),
            loops: size(loops),
            depth: size(within(properties, "pipelinedepth", 1, MAX_DEPTH)?.unwrap_or(1)),
            operations,
            time,
            warmup: seconds(properties, "warmup")?.unwrap_or_default(),
            arrivals: arrivals(properties)?,
            deadline: seconds(properties, "operationdeadline")?,
            no_progress: seconds(properties, "noprogress")?,
            batch: binding.batch,
            seed,
            points: false,
        };
        Ok((
            ClientSettings {
                plan,
                status: properties.truth("status", false),
                status_interval_s: within(properties, "status.interval", 1, MAX_SECONDS)?.unwrap_or(10),
                label: properties.get("label").unwrap_or_default().to_owned(),
                export_file: properties.text("exportfile").map(str::to_owned),
                retry: retry(properties)?,
            },
            warnings,
        ))
    }
}

/// A value that differs each time, from the clock and the address of a value.
fn entropy() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

fn within(properties: &Properties, name: &str, least: u64, most: u64) -> Result<Option<u64>, Error> {
    match properties.whole(name)? {
        Some(value) if !(least..=most).contains(&value) => {
            Err(Error::usage(format!("{name} must be between {least} and {most}, not {value}")))
        }
        value => Ok(value),
    }
}

/// A time in seconds, which may have a fraction; `None` if it is 0.
fn seconds(properties: &Properties, name: &str) -> Result<Option<Duration>, Error> {
    let seconds = properties.number(name)?.unwrap_or_else(|| default_number(name));
    if seconds > MAX_SECONDS as f64 {
        return Err(Error::usage(format!(
            "{name}={seconds} is more than {MAX_SECONDS} seconds, the limit of a hundred years"
        )));
    }
    Ok(Some(Duration::from_secs_f64(seconds)).filter(|time| !time.is_zero()))
}

fn arrivals(properties: &Properties) -> Result<Arrivals, Error> {
    let target = properties.number("target")?.filter(|target| *target > 0.0);
    let words = [("closed", 0), ("uniform", 1), ("poisson", 2)];
    let chosen = properties.choice("arrivals", &words)?;
    let rate = || {
        target.ok_or_else(|| {
            Error::usage("arrivals at a rate need target, the operations a second").advise("give -target N")
        })
    };
    match chosen {
        // A target without `arrivals` means YCSB's schedule: evenly spaced.
        None => Ok(target.map_or(Arrivals::Closed, Arrivals::Uniform)),
        Some(1) => Ok(Arrivals::Uniform(rate()?)),
        Some(2) => Ok(Arrivals::Poisson(rate()?)),
        Some(_) if target.is_some() => Err(Error::usage(
            "arrivals=closed cannot be used with a target: a target sets when operations are due",
        )),
        Some(_) => Ok(Arrivals::Closed),
    }
}

fn retry(properties: &Properties) -> Result<Retry, Error> {
    let limit = properties.whole("core_workload_insertion_retry_limit")?.unwrap_or(0);
    let interval = seconds(properties, "core_workload_insertion_retry_interval")?.unwrap_or_default();
    let keep_going = properties.truth("core_workload_insertion_keep_going_on_error", false);
    Ok(Retry { limit, interval, keep_going })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core_workload::CoreWorkload;

    fn settings(text: &str) -> Result<(ClientSettings, Vec<String>), Error> {
        let mut properties = Properties::default();
        properties.set("workload", "CoreWorkload", "-p");
        text.split_whitespace().for_each(|pair| properties.add_flag(pair).unwrap());
        let phase = phase_of(&properties);
        let workload = CoreWorkload::from_properties(&properties, phase, operation_count(&properties)?)?;
        let (binding, _) = Binding::from_properties(&properties)?;
        ClientSettings::from_properties(&properties, phase, workload.load_count(&properties)?, &binding)
    }

    #[test]
    fn defaults_and_limits() {
        let (plain, warnings) = settings("recordcount=1000 operationcount=50 threadcount=8").unwrap();
        assert_eq!((plain.plan.connections, plain.plan.operations, plain.plan.depth), (8, Some(50), 1));
        assert_eq!((plain.plan.arrivals, plain.plan.time), (Arrivals::Closed, None));
        assert_eq!(plain.plan.no_progress, Some(Duration::from_secs(60)));
        assert!(warnings.is_empty() && !plain.status && plain.status_interval_s == 10);
        let (few, warnings) = settings("operationcount=3 threadcount=8").unwrap();
        assert_eq!((few.plan.connections, warnings.len()), (3, 1));
        let (load, _) = settings("dotransactions=false recordcount=77").unwrap();
        assert_eq!(load.plan.operations, Some(77));
        let (endless, warnings) = settings("dotransactions=false").unwrap();
        assert_eq!(endless.plan.operations, None);
        assert!(warnings[0].contains("no end"), "{warnings:?}");
    }

    #[test]
    fn rates_and_times() {
        let (target, _) = settings("target=500 maxexecutiontime=9 warmup=1.5").unwrap();
        assert_eq!(target.plan.arrivals, Arrivals::Uniform(500.0));
        assert_eq!(
            (target.plan.time, target.plan.warmup),
            (Some(Duration::from_secs(9)), Duration::from_millis(1500))
        );
        let century = 100 * 366 * 86_400;
        let (long, _) = settings(&format!("operationcount=1 maxexecutiontime={century}")).unwrap();
        assert_eq!(long.plan.time, Some(Duration::from_secs(century)));
        let error = settings(&format!("operationcount=1 maxexecutiontime={}", century + 1)).unwrap_err();
        assert_eq!(error.kind(), fathom_errors::Kind::Usage, "{error}");
        assert_eq!(
            settings("target=500 arrivals=poisson").unwrap().0.plan.arrivals,
            Arrivals::Poisson(500.0)
        );
        for wrong in [
            "arrivals=poisson",
            "arrivals=closed target=5",
            "arrivals=random",
            "threadcount=0",
            "threadcount=x",
            "status.interval=0",
            "maxexecutiontime=1e300",
            "pipelinedepth=0",
        ] {
            assert_eq!(settings(wrong).unwrap_err().kind(), fathom_errors::Kind::Usage, "{wrong}");
        }
    }
}
