//! A limit on the time of operations that a run must not exceed, for scripts: `--fail-if 'p99>10ms'`.

use std::str::FromStr;

use fathom_errors::{Error, Result};
use fathom_record::disk::{Entry, Latency};
use fathom_record::load::LoadOperation;
use fathom_units::Nanos;

/// An operation (`None` for all), a figure of its response time, and the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct FailCondition {
    operation: Option<String>,
    figure: LatencyFigure,
    limit: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LatencyFigure {
    Mean,
    P50,
    P99,
    P999,
    Max,
}

const FIGURES: [(&str, LatencyFigure); 5] = [
    ("mean", LatencyFigure::Mean),
    ("p50", LatencyFigure::P50),
    ("p99", LatencyFigure::P99),
    ("p99.9", LatencyFigure::P999),
    ("max", LatencyFigure::Max),
];

/// Whether the condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionAnswer {
    /// The condition holds: the run fails.
    Yes,
    /// The rules do not apply.
    No,
    /// The run does not contain the figure.
    Unknown,
}

impl FromStr for FailCondition {
    type Err = Error;

    /// `p99>10ms`, `read p99 > 10ms`, `mean>500us`.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::usage(format!("'{text}' is not a condition")).advise(
                "write it like 'p99>10ms' or 'read p99.9>50ms'; figures are mean, p50, p99, p99.9 and max",
            )
        };
        let (left, right) = text.split_once('>').ok_or_else(bad)?;
        let words: Vec<&str> = left.split_whitespace().collect();
        let (operation, figure) = match words.as_slice() {
            [figure] => (None, *figure),
            [operation, figure] => (Some(operation.to_ascii_uppercase()), *figure),
            _ => return Err(bad()),
        };
        let (_, figure) = FIGURES.into_iter().find(|(name, _)| *name == figure).ok_or_else(bad)?;
        let limit: Nanos = right.trim().parse().map_err(|_| bad())?;
        Ok(FailCondition { operation, figure, limit })
    }
}

impl FailCondition {
    /// Whether it holds for the loads of a run, and a sentence with the reason. Times count from when an operation was due.
    pub fn check(&self, results: &[Entry]) -> (ConditionAnswer, String) {
        let loads = || {
            results.iter().filter_map(|entry| if let Entry::Load(load) = entry { Some(load) } else { None })
        };
        // The load phase counts only if nothing else ran.
        let has_run = loads().any(|load| load.workload != "load");
        let operations = loads()
            .filter(|load| !has_run || load.workload != "load")
            .flat_map(|load| &load.by_operation)
            .filter(|one| self.operation.as_ref().is_none_or(|name| *name == one.name));
        let values = operations.filter_map(|one| Some((one, self.value_of(one)?)));
        let Some((worst, value)) = values.max_by_key(|(_, value)| *value) else {
            let what = self.operation.as_deref().unwrap_or("an operation");
            let why = format!(
                "cannot tell whether {self}: the run has no {} of {what} as a client saw it",
                self.figure_name()
            );
            return (ConditionAnswer::Unknown, why);
        };
        let holds = value > self.limit;
        let sentence = format!(
            "{} of {} is {value}: {} the limit of {}",
            self.figure_name(),
            worst.name,
            if holds { "above" } else { "within" },
            self.limit
        );
        (if holds { ConditionAnswer::Yes } else { ConditionAnswer::No }, sentence)
    }

    fn value_of(&self, operation: &LoadOperation) -> Option<Nanos> {
        let latency: &Latency = operation.response.as_ref().or(operation.service.as_ref())?;
        match self.figure {
            LatencyFigure::Mean => Some(Nanos(latency.mean_ns.max(0.0).round() as u64)),
            LatencyFigure::P50 => Some(Nanos(latency.p50_ns)),
            LatencyFigure::P99 => latency.p99_ns.map(Nanos),
            LatencyFigure::P999 => latency.p999_ns.map(Nanos),
            LatencyFigure::Max => Some(Nanos(latency.max_ns)),
        }
    }

    fn figure_name(&self) -> &'static str {
        FIGURES.into_iter().find(|(_, figure)| *figure == self.figure).map_or("", |(name, _)| name)
    }
}

impl std::fmt::Display for FailCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(operation) = &self.operation {
            write!(f, "{operation} ")?;
        }
        write!(f, "{}>{}", self.figure_name(), self.limit)
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::load::Load;

    use super::*;

    fn load(workload: &str, name: &str, p99_ns: Option<u64>) -> Entry {
        let latency =
            Latency { mean_ns: 1e6, min_ns: 1, p50_ns: 900_000, p99_ns, p999_ns: None, max_ns: 40_000_000 };
        Entry::Load(Load {
            server: "localhost".into(),
            workload: workload.into(),
            connections: 1,
            seconds: 1.0,
            operations: 1000,
            per_s: 1000.0,
            offered_per_s: None,
            by_operation: vec![LoadOperation {
                name: name.into(),
                count: 1000,
                failed: 0,
                service: None,
                response: Some(latency),
            }],
            client_cpu_share: 0.1,
            client_limited: false,
        })
    }

    #[test]
    fn the_slowest_operation_that_is_meant_decides() {
        let results = [
            load("load", "INSERT", Some(90_000_000)),
            load("a", "READ", Some(2_000_000)),
            load("a", "UPDATE", Some(12_000_000)),
        ];
        let held = |text: &str| text.parse::<FailCondition>().unwrap().check(&results);
        assert_eq!(
            held("p99>10ms"),
            (ConditionAnswer::Yes, "p99 of UPDATE is 12.0 ms: above the limit of 10.0 ms".to_owned())
        );
        assert_eq!(held("read p99 > 10ms").0, ConditionAnswer::No);
        assert_eq!(held("mean>1ms").0, ConditionAnswer::No);
        assert_eq!(held("max>39ms").0, ConditionAnswer::Yes);
        let (unknown, why) = held("p99.9>10ms");
        assert_eq!(unknown, ConditionAnswer::Unknown);
        assert!(why.starts_with("cannot tell whether p99.9>10.0 ms"), "{why}");
        assert_eq!(held("scan p99>1ms").0, ConditionAnswer::Unknown);
        let loading = [load("load", "INSERT", Some(90_000_000))];
        assert_eq!("p99>10ms".parse::<FailCondition>().unwrap().check(&loading).0, ConditionAnswer::Yes);
        assert_eq!("p99>10ms".parse::<FailCondition>().unwrap().check(&[]).0, ConditionAnswer::Unknown);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_an_example() {
        for text in ["p99<10ms", "p98>10ms", "p99>", "p99>ten", "a b p99>1ms", ""] {
            let error = text.parse::<FailCondition>().unwrap_err().to_string();
            assert!(error.contains("is not a condition"), "{error}");
        }
    }
}
