//! The steps of `make proof`, as `xtask/proof.toml` lists them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::join;

/// The path of the list, from the root.
const LIST: &str = "xtask/proof.toml";
/// The limit of a test (.config/nextest.toml).
const TEST_TIMEOUT: Duration = Duration::from_secs(900);
const MIN_LIMIT: Duration = Duration::from_secs(1_800);
/// An error lists no more names of a module.
const MAX_NAMES: usize = 20;

/// All steps in the order in which they run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofPlan {
    #[serde(rename = "step")]
    pub(super) steps: Vec<ProofStep>,
}

/// One row of the table: a group of tests, or a command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofStep {
    /// The name by which `ONLY=` selects it.
    pub(super) name: String,
    /// One clause: what is true when the step passes.
    pub(super) proves: String,
    /// The time on two cores at rest and a quarter more. The report shows it next to the time taken; nothing fails for it.
    pub(super) budget_seconds: u64,
    /// A filter expression of cargo-nextest.
    pub(super) tests: Option<String>,
    /// A command and its arguments, instead of tests.
    pub(super) command: Option<Vec<String>>,
    /// The number of tests that run at the same time.
    pub(super) threads: Option<u32>,
    /// True if ignored tests run, as in a group whose long form is the proof.
    #[serde(default)]
    pub(super) ignored: bool,
    /// The tests of a step that is not in the list.
    #[serde(skip)]
    pub(super) selected: BTreeSet<String>,
}

impl ProofPlan {
    pub(super) fn read(root: &Path) -> Result<ProofPlan> {
        let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
        ProofPlan::parse(&text).with_context(|| format!("cannot understand {LIST}"))
    }

    fn parse(text: &str) -> Result<ProofPlan> {
        let plan: ProofPlan = toml::from_str(text)?;
        let mut names = BTreeSet::new();
        for step in &plan.steps {
            ensure!(names.insert(&step.name), "two steps have the name {}", step.name);
            let is_one = step.tests.is_some() != step.command.is_some();
            ensure!(is_one, "the step {} has to have either tests or a command", step.name);
            ensure!(step.budget_seconds > 0, "the step {} has no budget", step.name);
        }
        Ok(plan)
    }

    /// The steps of these names, and a step of the tests among them, whose paths contain `::`; all steps if no name is given.
    pub(super) fn select(&self, only: &[String]) -> Result<Vec<ProofStep>> {
        let (tests, names): (Vec<&String>, Vec<&String>) = only.iter().partition(|word| word.contains("::"));
        if let Some(unknown) = names.iter().find(|name| self.steps.iter().all(|step| step.name != ***name)) {
            let names: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
            bail!(
                "there is no step '{unknown}'; the steps are: {}; the path of a test or of a module has '::' in it",
                names.join(", ")
            );
        }
        let is_selected = |step: &&ProofStep| only.is_empty() || names.contains(&&step.name);
        let mut steps: Vec<ProofStep> = self.steps.iter().filter(is_selected).cloned().collect();
        if !tests.is_empty() {
            steps.push(ProofStep::of_tests(&tests));
        }
        Ok(steps)
    }
}

/// Fails for the first path that is neither that of one of these tests nor that of one of their modules, and names the paths nearby.
pub(super) fn check_paths(paths: &BTreeSet<String>, tests: &BTreeSet<String>) -> Result<()> {
    let below = |module: &str| -> Vec<&str> {
        let inner = tests.iter().filter_map(|test| test.strip_prefix(module)?.strip_prefix("::"));
        inner.filter_map(|rest| rest.split("::").next()).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let Some(wrong) = paths.iter().find(|path| !tests.contains(*path) && below(path).is_empty()) else {
        return Ok(());
    };
    let mut module = wrong.as_str();
    while let Some((outer, _)) = module.rsplit_once("::") {
        let names = below(outer);
        if !names.is_empty() {
            let rest = names.len().saturating_sub(MAX_NAMES);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            let names = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
            bail!("no test and no module has the path '{wrong}'; {outer} contains: {names}{more}");
        }
        module = outer;
    }
    bail!("no test and no module has the path '{wrong}'; cargo nextest list --profile proof prints the paths")
}

/// The filter expression of cargo-nextest that selects tests by their paths, and all tests of a module by its path.
pub(super) fn filter<'n>(tests: impl IntoIterator<Item = &'n String>) -> String {
    let tests: Vec<String> =
        tests.into_iter().map(|name| format!("test(={name}) | test(/^{name}::/)")).collect();
    tests.join(" | ")
}

impl ProofStep {
    /// A step of tests with these paths, one at a time.
    pub(super) fn of_tests(tests: &[&String]) -> ProofStep {
        ProofStep {
            name: "tests".to_owned(),
            proves: "the selected tests".to_owned(),
            budget_seconds: 0,
            tests: Some(filter(tests.iter().copied())),
            command: None,
            threads: Some(1),
            ignored: false,
            selected: tests.iter().map(|name| (*name).clone()).collect(),
        }
    }

    /// The words of `ONLY` that select it.
    pub(super) fn selection(&self) -> String {
        if self.selected.is_empty() { self.name.clone() } else { join(&self.selected) }
    }

    /// The time that only a step that hangs reaches.
    pub(super) fn limit(&self) -> Duration {
        let of_tests = TEST_TIMEOUT * u32::try_from(self.selected.len()).unwrap_or(u32::MAX);
        MIN_LIMIT.max(Duration::from_secs(self.budget_seconds) * 6).max(of_tests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
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
        let plan = ProofPlan::parse(LIST).unwrap();
        let names = |only: &[&str]| -> Result<Vec<String>> {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            Ok(plan.select(&only)?.iter().map(|step| step.name.clone()).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["faults", "checkup"]);
        assert_eq!(names(&["checkup", "faults"]).unwrap(), ["faults", "checkup"]);
        let error = names(&["fault"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no step 'fault'; the steps are: faults, checkup; the path of a test or of a module has '::' in it"
        );
    }

    #[test]
    fn a_step_that_proves_nothing_is_rejected() {
        let without = LIST.replace("tests = \"binary(faults)\"", "");
        assert!(ProofPlan::parse(&without).unwrap_err().to_string().contains("either tests or a command"));
        let twice = LIST.replace("\"checkup\"\n", "\"faults\"\n");
        assert!(ProofPlan::parse(&twice).unwrap_err().to_string().contains("two steps"));
    }

    #[test]
    fn a_step_has_six_times_its_usual_time_and_half_an_hour_at_least() {
        let limit = |budget_seconds| ProofStep { budget_seconds, ..ProofStep::of_tests(&[]) }.limit();
        assert_eq!((limit(60), limit(400)), (MIN_LIMIT, Duration::from_secs(2_400)));
    }

    #[test]
    fn tests_are_selected_by_their_paths() {
        let plan = ProofPlan::parse(LIST).unwrap();
        let only = ["a::b", "checkup", "c::d"].map(str::to_owned);
        let steps = plan.select(&only).unwrap();
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["checkup", "tests"]);
        assert_eq!(
            steps[1].tests.as_deref(),
            Some("test(=a::b) | test(/^a::b::/) | test(=c::d) | test(/^c::d::/)")
        );
    }

    #[test]
    fn a_path_that_selects_nothing_is_named_next_to_others_that_do() {
        let set =
            |paths: &[&str]| -> BTreeSet<String> { paths.iter().map(|path| (*path).to_owned()).collect() };
        let many: Vec<String> = (0..25).map(|number| format!("many::t{number:02}")).collect();
        let mut tests =
            set(&["faults::device::proof::a", "faults::device::proof::b", "faults::cache::proof::c"]);
        tests.extend(many);
        let check = |paths: &[&str]| check_paths(&set(paths), &tests).map_err(|error| error.to_string());
        assert_eq!(check(&["faults::device::proof::a", "faults::cache", "many"]), Ok(()));
        for (wrong, nearby) in [
            ("faults::device::proof::d", "faults::device::proof contains: a, b"),
            ("faults::device::prof::a", "faults::device contains: proof"),
            // The beginning of a name is no path.
            ("faults::dev", "faults contains: cache, device"),
            ("fault::device", "cargo nextest list --profile proof prints the paths"),
        ] {
            let expected = format!("no test and no module has the path '{wrong}'; {nearby}");
            assert_eq!(check(&["faults::cache", wrong]), Err(expected));
        }
        let error = check(&["many::x"]).unwrap_err();
        assert!(error.contains(" t18, t19 and 5 more"), "{error}");
    }

    #[test]
    fn the_list_of_this_tree_is_sound() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let plan = ProofPlan::read(root).unwrap();
        assert_eq!(plan.steps[0].name, "checkup", "the main job is proven first");
        let studies = plan.steps.iter().find(|step| step.name == "faults").unwrap();
        assert_eq!(studies.threads, Some(1), "fault studies disturb each other");
    }
}
