//! The steps of `make proof`, as `xtask/proof.toml` lists them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// The path of the list, from the root.
const LIST: &str = "xtask/proof.toml";

/// All steps in the order in which they run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// The maximum for all steps together.
    max_total_seconds: u64,
    #[serde(rename = "step")]
    pub(super) steps: Vec<Step>,
}

/// One row of the table: a group of tests, or a command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// The name by which `ONLY=` selects it.
    pub(super) name: String,
    /// One clause: what is true when the step passes.
    pub(super) proves: String,
    budget_seconds: u64,
    /// A filter expression of cargo-nextest.
    pub(super) tests: Option<String>,
    /// A command and its arguments, instead of tests.
    pub(super) command: Option<Vec<String>>,
    /// The number of tests that run at the same time.
    pub(super) threads: Option<u32>,
    /// True if ignored tests run, as in a group whose long form is the proof.
    #[serde(default)]
    pub(super) ignored: bool,
}

impl Plan {
    pub(super) fn read(root: &Path) -> Result<Plan> {
        let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
        Plan::parse(&text).with_context(|| format!("cannot understand {LIST}"))
    }

    fn parse(text: &str) -> Result<Plan> {
        let plan: Plan = toml::from_str(text)?;
        let mut names = BTreeSet::new();
        for step in &plan.steps {
            ensure!(names.insert(&step.name), "two steps have the name {}", step.name);
            let is_one = step.tests.is_some() != step.command.is_some();
            ensure!(is_one, "the step {} has to have either tests or a command", step.name);
            ensure!(step.budget_seconds > 0, "the step {} has no budget", step.name);
        }
        Ok(plan)
    }

    pub(super) fn max_total(&self) -> Duration {
        Duration::from_secs(self.max_total_seconds)
    }

    /// The steps of these names, or all if none is given.
    pub(super) fn select(&self, only: &[String]) -> Result<Vec<&Step>> {
        if let Some(unknown) = only.iter().find(|name| self.steps.iter().all(|step| step.name != **name)) {
            let names: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
            bail!("there is no step '{unknown}'; the steps are: {}", names.join(", "));
        }
        Ok(self.steps.iter().filter(|step| only.is_empty() || only.contains(&step.name)).collect())
    }
}

impl Step {
    pub(super) fn budget(&self) -> Duration {
        Duration::from_secs(self.budget_seconds)
    }

    /// The time after which the step has failed, whatever its result.
    pub(super) fn limit(&self) -> Duration {
        self.budget() * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        max_total_seconds = 100
        [[step]]
        name = "faults"
        proves = "each fault is named"
        budget_seconds = 60
        tests = "binary(faults)"
        threads = 1
        [[step]]
        name = "checkup"
        proves = "the main job runs"
        budget_seconds = 40
        command = ["make", "checkup"]
    "#;

    #[test]
    fn steps_are_selected_by_name_in_the_order_of_the_list() {
        let plan = Plan::parse(LIST).unwrap();
        let names = |only: &[&str]| -> Result<Vec<String>> {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            Ok(plan.select(&only)?.iter().map(|step| step.name.clone()).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["faults", "checkup"]);
        assert_eq!(names(&["checkup", "faults"]).unwrap(), ["faults", "checkup"]);
        let error = names(&["fault"]).unwrap_err().to_string();
        assert_eq!(error, "there is no step 'fault'; the steps are: faults, checkup");
    }

    #[test]
    fn a_step_that_proves_nothing_is_rejected() {
        let without = LIST.replace("tests = \"binary(faults)\"", "");
        assert!(Plan::parse(&without).unwrap_err().to_string().contains("either tests or a command"));
        let twice = LIST.replace("\"checkup\"\n", "\"faults\"\n");
        assert!(Plan::parse(&twice).unwrap_err().to_string().contains("two steps"));
    }

    #[test]
    fn a_step_may_overrun_its_budget_by_half() {
        let plan = Plan::parse(LIST).unwrap();
        assert_eq!(plan.steps[0].limit(), Duration::from_secs(90));
    }

    #[test]
    fn the_list_of_this_tree_is_sound() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let plan = Plan::read(root).unwrap();
        assert_eq!(plan.steps[0].name, "checkup", "the main job is proven first");
        let budgets: Duration = plan.steps.iter().map(Step::budget).sum();
        assert!(budgets <= plan.max_total(), "the budgets sum to {budgets:?}");
    }
}
