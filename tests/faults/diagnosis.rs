//! What `fathom explain RUN --json` says of a run folder.

use std::path::{Path, PathBuf};

use fathom_record::Run;
use fathom_testkit::{Fathom, assert, assert_eq};
use serde_json::Value;

use super::study::PROGRAM;

/// The diagnosis of one run.
pub(crate) struct Diagnosis {
    folder: PathBuf,
    pub(crate) document: Value,
}

impl Diagnosis {
    pub(crate) fn of_run(folder: &Path) -> Diagnosis {
        Diagnosis::explain(folder, &[])
    }

    /// The same, with the curve of the run's device from a probe.
    pub(crate) fn with_probe(folder: &Path, probe: &Path) -> Diagnosis {
        Diagnosis::explain(folder, &["--probe", &probe.to_string_lossy()])
    }

    fn explain(folder: &Path, words: &[&str]) -> Diagnosis {
        let output = Fathom::new(PROGRAM).arg("explain").arg(folder).arg("--json").args(words).run();
        assert!([0, 1, 4].contains(&output.code), "{}\n{}", output.stdout, output.stderr);
        let code = i64::from(output.code);
        let document = output.json();
        let expected = match document["verdict"]["outcome"].as_str() {
            Some("held_back") => 1,
            Some("not_held_back") => 0,
            _ => 4,
        };
        assert_eq!(code, expected, "{:#}", document["verdict"]);
        Diagnosis { folder: folder.to_owned(), document }
    }

    /// Fails unless the verdict names the cause of this finding.
    #[track_caller]
    pub(crate) fn expect_held_back_by(&self, id: &str) {
        let verdict = &self.document["verdict"];
        let named = (verdict["outcome"].as_str(), verdict["cause"].as_str());
        assert_eq!(named, (Some("held_back"), Some(id)), "{verdict:#}");
    }

    /// The ids of the findings that are certain or likely.
    pub(crate) fn ids(&self) -> Vec<String> {
        let findings = self.document["findings"].as_array().into_iter().flatten();
        let told = findings.filter(|finding| finding["confidence"] != "cannot_tell");
        told.filter_map(|finding| finding["id"].as_str().map(str::to_owned)).collect()
    }

    /// The sum of a series of the run.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.series(name).unwrap_or_else(|| panic!("no {name}")).iter().sum()
    }

    /// The values of a series of the run.
    pub(crate) fn series(&self, name: &str) -> Option<Vec<f64>> {
        let series = Run::open(&self.folder).unwrap().series().unwrap();
        series.get(name).map(|series| series.points.iter().map(|point| point.value).collect())
    }

    /// The finding of this name, if there is one.
    pub(crate) fn finding(&self, id: &str) -> Option<&Value> {
        self.findings().find(|finding| finding["id"] == id)
    }

    /// The finding of this name, which must be there.
    #[track_caller]
    pub(crate) fn expect_finding(&self, id: &str) -> &Value {
        self.finding(id).unwrap_or_else(|| panic!("no finding {id} in {:#?}", self.document))
    }

    pub(crate) fn findings(&self) -> impl Iterator<Item = &Value> {
        self.document["findings"].as_array().into_iter().flatten()
    }

    /// The names of those that are alarms.
    pub(crate) fn alarms(&self) -> Vec<&str> {
        let alarm = |finding: &&Value| finding["severity"] == "warning" || finding["severity"] == "critical";
        self.findings().filter(alarm).filter_map(|finding| finding["id"].as_str()).collect()
    }

    /// The budget of some operations (`reads`, `writes`, `all`).
    pub(crate) fn budget(&self, operations: &str) -> &Value {
        let layers = self.document["layers"].as_array().unwrap();
        let found = layers.iter().find(|budget| budget["operations"] == operations);
        found.unwrap_or_else(|| panic!("no budget of {operations} in {layers:#?}"))
    }

    /// Milliseconds of the mean operation in a layer; 0 if the budget lacks it.
    pub(crate) fn layer_ms(&self, operations: &str, layer: &str) -> f64 {
        self.layer(operations, layer, "mean_us") / 1000.0
    }

    /// The share of a layer in the mean operation; 0 if the budget lacks it.
    pub(crate) fn share(&self, operations: &str, layer: &str) -> f64 {
        self.layer(operations, layer, "share")
    }

    /// The mean time of a layer of the only server's budget, in microseconds.
    pub(crate) fn mean_us(&self, operations: &str, layer: &str) -> f64 {
        self.layer(operations, layer, "mean_us")
    }

    /// The interval of that.
    pub(crate) fn interval_us(&self, operations: &str, layer: &str) -> (f64, f64) {
        let layers = self.budget(operations)["layers"].as_array().unwrap();
        let found = layers.iter().find(|one| one["name"] == layer).unwrap();
        let bound = |at: usize| found["interval_us"][at].as_f64().unwrap();
        (bound(0), bound(1))
    }

    fn layer(&self, operations: &str, layer: &str, field: &str) -> f64 {
        let layers = self.budget(operations)["layers"].as_array().unwrap();
        let found = layers.iter().find(|one| one["name"] == layer);
        found.map_or(0.0, |one| one[field].as_f64().unwrap())
    }

    /// The layers of some operations by name, in milliseconds.
    pub(crate) fn layers(&self, operations: &str) -> Vec<(String, f64)> {
        let layers = self.budget(operations)["layers"].as_array().unwrap();
        layers
            .iter()
            .map(|one| (one["name"].as_str().unwrap().to_owned(), one["mean_us"].as_f64().unwrap() / 1000.0))
            .collect()
    }
}
