//! The phases of a workload, each with its mix, its length and its rate; and the load before them.

use std::time::Duration;

use fathom_errors::Error;

use super::item::{Item, MappingEntries};
use super::operations::Operation;
use crate::driving::{Arrivals, DrivingPlan};

/// The most phases, and the most connections of one.
const MAX_PHASES: usize = 100;
const MAX_THREADS: u64 = 100_000;
const MAX_OPERATIONS: u64 = 1_000_000_000_000_000;

/// A phase of the run. The run's plan gives the settings that it leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    /// The time that it lasts, after the warm-up.
    pub time: Option<Duration>,
    /// The number of operations; each document of a bulk insert counts as one.
    pub operations: Option<u64>,
    /// The time at the start that is not measured.
    pub warmup: Option<Duration>,
    /// The number of threads, each with a connection.
    pub threads: Option<usize>,
    /// The schedule of operations.
    pub arrivals: Option<Arrivals>,
    /// The most documents of an insert.
    pub batch: u64,
    /// The place of each operation that occurs, with the sum of the shares up to it; the last is 1.
    pub(super) mix: Vec<(usize, f64)>,
}

/// The settings of the load.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkLoad {
    /// Documents of an insert.
    pub batch: u64,
    /// The number of connections, if the file gives it.
    pub threads: Option<usize>,
    /// Whether an insert ends at its first document that fails.
    pub ordered: bool,
}

impl Phase {
    /// The plan of this phase: its own settings, and the others from `base`.
    pub fn plan(&self, base: &DrivingPlan) -> DrivingPlan {
        let bounded = self.time.is_some() || self.operations.is_some();
        DrivingPlan {
            connections: self.threads.unwrap_or(base.connections),
            operations: if bounded { self.operations } else { base.operations },
            time: if bounded { self.time } else { base.time },
            warmup: self.warmup.unwrap_or(base.warmup),
            arrivals: self.arrivals.unwrap_or(base.arrivals),
            batch: self.batch,
            ..base.clone()
        }
    }

    /// The place of the operation at a place between 0 and 1 of the mix.
    pub(super) fn at(&self, place: f64) -> usize {
        let found = self.mix.partition_point(|(_, sum)| *sum <= place);
        self.mix.get(found).or(self.mix.last()).map_or(0, |(operation, _)| *operation)
    }

    /// The share of an operation, 0 to 1.
    pub(super) fn share(&self, operation: usize) -> f64 {
        let mut before = 0.0;
        for (place, sum) in &self.mix {
            if *place == operation {
                return sum - before;
            }
            before = *sum;
        }
        0.0
    }
}

impl BulkLoad {
    /// The plan of a load of this many documents.
    pub fn plan(&self, documents: u64, base: &DrivingPlan) -> DrivingPlan {
        DrivingPlan {
            connections: self.threads.unwrap_or(base.connections),
            operations: Some(documents),
            time: None,
            warmup: Duration::ZERO,
            batch: self.batch,
            ..base.clone()
        }
    }
}

/// Reads the load; a default batch that does not fit a message is made smaller.
pub(super) fn read_load(item: Option<&Item<'_>>, most: u64) -> Result<BulkLoad, Error> {
    const DEFAULT_BATCH: u64 = 1000;
    let mut load = BulkLoad { batch: DEFAULT_BATCH.min(most), threads: None, ordered: false };
    let Some(item) = item else { return Ok(load) };
    let fields = item.fields(&["batch", "threads", "ordered"])?;
    if let Some(batch) = fields.count("batch", 1, 100_000)? {
        if batch > most {
            return Err(fields
                .need("batch")?
                .refuse(format!("a message takes {most} documents of this size at most")));
        }
        load.batch = batch;
    }
    load.threads = threads(&fields)?;
    load.ordered = fields.truth("ordered", false)?;
    Ok(load)
}

fn threads(fields: &MappingEntries<'_>) -> Result<Option<usize>, Error> {
    Ok(fields.count("threads", 1, MAX_THREADS)?.and_then(|threads| usize::try_from(threads).ok()))
}

/// Reads the phases; without any there is one, with equal shares of all operations.
pub(super) fn read(item: Option<&Item<'_>>, operations: &[Operation]) -> Result<Vec<Phase>, Error> {
    let Some(item) = item else {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let weights: Vec<(usize, f64)> = (0..operations.len()).map(|place| (place, 1.0)).collect();
        let batch = batch(&weights, operations);
        return Ok(vec![Phase {
            name: "run".to_owned(),
            time: None,
            operations: None,
            warmup: None,
            threads: None,
            arrivals: None,
            batch,
            mix: shares(&weights),
        }]);
    };
    let list = item.list()?;
    if list.len() > MAX_PHASES {
        return Err(item.refuse(format!("there are more than {MAX_PHASES} phases")));
    }
    let phases: Result<Vec<Phase>, Error> = list.iter().map(|inner| phase(inner, operations)).collect();
    let phases = phases?;
    for (place, phase) in phases.iter().enumerate() {
        if phases.iter().take(place).any(|other| other.name == phase.name) {
            return Err(item.refuse(format!("there are two phases '{}'", phase.name)));
        }
    }
    Ok(phases)
}

fn phase(item: &Item<'_>, operations: &[Operation]) -> Result<Phase, Error> {
    let fields =
        item.fields(&["name", "time", "operations", "warmup", "threads", "rate", "arrivals", "mix"])?;
    let name_item = fields.need("name")?;
    let name = name_item.text()?.to_owned();
    if name.is_empty() || name.len() > 60 || name.chars().any(char::is_control) {
        return Err(name_item.refuse("a phase's name has 1 to 60 bytes, all of them letters that print"));
    }
    let weights = mix(fields.need("mix")?, operations)?;
    Ok(Phase {
        name,
        time: fields.duration("time")?,
        operations: fields.count("operations", 1, MAX_OPERATIONS)?,
        warmup: fields.duration("warmup")?,
        threads: threads(&fields)?,
        arrivals: arrivals(&fields)?,
        batch: batch(&weights, operations),
        mix: shares(&weights),
    })
}

fn arrivals(fields: &MappingEntries<'_>) -> Result<Option<Arrivals>, Error> {
    let rate = fields.number("rate", 0.001, 1e9)?;
    let word = fields.text("arrivals")?;
    Ok(match (word, rate) {
        (None, None) => None,
        (Some("closed"), None) => Some(Arrivals::Closed),
        (None | Some("uniform"), Some(rate)) => Some(Arrivals::Uniform(rate)),
        (Some("poisson"), Some(rate)) => Some(Arrivals::Poisson(rate)),
        (Some("closed"), Some(_)) => {
            return Err(fields.need("rate")?.refuse("closed arrivals have no rate"));
        }
        (Some("uniform" | "poisson"), None) => {
            return Err(fields.need("arrivals")?.refuse("it needs a 'rate', in operations a second"));
        }
        (Some(word), _) => {
            let known = ["closed", "uniform", "poisson"];
            return Err(fields.need("arrivals")?.unknown("kind of arrivals", word, known.into_iter()));
        }
    })
}

/// The weight of each operation that is named.
fn mix(item: &Item<'_>, operations: &[Operation]) -> Result<Vec<(usize, f64)>, Error> {
    let mut weights = Vec::new();
    for (name, inner) in item.entries()? {
        let Some(place) = operations.iter().position(|operation| operation.name == name) else {
            let known = operations.iter().map(|operation| operation.name.as_str());
            return Err(item.unknown("operation", name, known));
        };
        let weight = inner.number(0.0, 1e9)?;
        if weight > 0.0 {
            weights.push((place, weight));
        }
    }
    if weights.is_empty() {
        return Err(item.refuse("no operation has a weight above 0"));
    }
    Ok(weights)
}

fn shares(weights: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let shares = weights.iter().map(|(place, weight)| {
        sum += weight / all;
        (*place, sum)
    });
    shares.collect()
}

fn batch(weights: &[(usize, f64)], operations: &[Operation]) -> u64 {
    weights.iter().filter_map(|(place, _)| operations.get(*place)).map(Operation::batch).max().unwrap_or(1)
}
