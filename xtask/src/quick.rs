//! `cargo xtask quick [REVISION]` (`make quick`): tidy, and the tests of what changed since a revision, to have an answer within a
//! minute. The revision is the commit at which the upstream branch was left, or the last commit of a branch without one.
//!
//! Selected are the tests of the changed packages, and the unit tests of packages above them with a source file that names both the
//! package and a public item of a changed file. Of the tests that run the whole program only those whose own files changed are
//! selected, and tests that took long in the last `make test` are left out. The output says so.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use fancy_regex::Regex;

use crate::tidy;
use crate::tidy::{Package, Tree};

/// The package whose tests run the whole program.
const PROGRAM: &str = "fathom";
/// The folder of these tests.
const PROGRAM_TESTS: &str = "tests/";
/// The times of the tests in the last `make test`, which setup/test.sh copies here.
const TIMES: &str = "target/nextest/last.xml";
/// Tests that took longer are left out.
const MAX_TEST_SECONDS: f64 = 2.0;
/// Shorter names of items are too common to tell who uses them.
const MIN_NAME_LENGTH: usize = 4;

/// The tests to run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Selection {
    /// Changed packages below the program, all of whose tests run.
    packages: BTreeSet<String>,
    /// Packages that use a changed item, whose unit tests run.
    users: BTreeSet<String>,
    /// True if the unit tests of the program's package run.
    has_program: bool,
    /// Modules of the tests that run the program.
    modules: BTreeSet<String>,
}

/// Runs tidy and the selected tests; `true` if all passed.
pub fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let revision = match arguments {
        [] => upstream(&root),
        [revision] => revision.clone(),
        [_, word, ..] => bail!("quick takes one revision, but got '{word}' besides"),
    };
    let changed = changed_files(&root, &revision)?;
    if changed.is_empty() {
        writeln!(io::stdout(), "quick: no file has changed since {revision}")?;
        return Ok(true);
    }
    let selection = select(&Tree::read(&root)?, &changed);
    writeln!(io::stdout(), "quick: {} files have changed since {revision}; {selection}", changed.len())?;
    let slow = slow_tests(&std::fs::read_to_string(root.join(TIMES)).unwrap_or_default());
    if !slow.is_empty() {
        let count = slow.len();
        writeln!(
            io::stdout(),
            "quick: {count} tests that take over {MAX_TEST_SECONDS} s are left to make test"
        )?;
    }
    let is_tidy = tidy::run(root.clone(), &[])?;
    let mut is_passed = true;
    for mut command in selection.commands(&filter(&slow)) {
        let status = command.current_dir(&root).status();
        is_passed &= status.context("cannot run cargo nextest; setup/nextest.sh installs it")?.success();
    }
    Ok(is_tidy && is_passed)
}

/// The commit at which the upstream branch was left, or the last commit.
fn upstream(root: &Path) -> String {
    let base = git(root, &["merge-base", "HEAD", "@{upstream}"]);
    base.map_or_else(|_| "HEAD".to_owned(), |base| base.trim().to_owned())
}

/// Files that differ from the revision, and new files that are not ignored.
fn changed_files(root: &Path, revision: &str) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for arguments in [
        &["diff", "--name-only", "-z", revision, "--"][..],
        &["ls-files", "--others", "--exclude-standard", "-z"],
    ] {
        let listed = git(root, arguments)?;
        files.extend(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned));
    }
    Ok(files)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("git").arg("-C").arg(root).args(arguments).output().context("cannot run git")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The program and the path of each test of a report in JUnit's format that took long.
fn slow_tests(report: &str) -> BTreeSet<(String, String)> {
    const TEST: &str = r#"<testcase name="([^"]+)" classname="([^"]+)"[^>]* time="([0-9.]+)""#;
    let Ok(test) = Regex::new(TEST) else { return BTreeSet::new() };
    let tests = test.captures_iter(report).filter_map(|found| {
        let found = found.ok()?;
        let text = |index| found.get(index).map(|group: fancy_regex::Match| group.as_str());
        let seconds: f64 = text(3)?.parse().ok()?;
        (seconds > MAX_TEST_SECONDS).then_some((text(2)?.to_owned(), text(1)?.to_owned()))
    });
    tests.collect()
}

/// The filter expression of cargo-nextest that selects these tests.
fn filter(tests: &BTreeSet<(String, String)>) -> String {
    let tests = tests.iter().map(|(program, path)| format!("(binary_id(={program}) & test(={path}))"));
    ["none()".to_owned()].into_iter().chain(tests).collect::<Vec<_>>().join(" | ")
}

fn select(tree: &Tree, changed: &BTreeSet<String>) -> Selection {
    let mut selection = Selection::default();
    let mut items: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for path in changed {
        if let Some(test) = path.strip_prefix(PROGRAM_TESTS) {
            let module = test.split(['/', '.']).next().unwrap_or_default();
            selection.modules.insert(module.to_owned());
        } else if let Some(package) = package_of(&tree.packages, path) {
            selection.add(&package.name);
            let text = tree.file(path).map_or("", |file| &file.text);
            items.entry(&package.name).or_default().extend(public_items(text));
        }
    }
    for (package, items) in &items {
        for user in tree.packages.iter().filter(|user| imports(user, package)) {
            if tree.rust().any(|file| {
                package_of(&tree.packages, &file.path).is_some_and(|owner| owner.name == user.name)
                    && uses(&file.text, package, items)
            }) {
                selection.add_user(&user.name);
            }
        }
    }
    selection
}

/// The member of the workspace in whose folder the file is.
fn package_of<'p>(packages: &'p [Package], path: &str) -> Option<&'p Package> {
    let folder = |package: &Package| package.manifest.trim_end_matches("Cargo.toml").len();
    let owners = packages.iter().filter(|package| path.starts_with(&package.manifest[..folder(package)]));
    let owner = owners.max_by_key(|package| folder(package))?;
    owner.member.then_some(owner)
}

fn imports(user: &Package, package: &str) -> bool {
    user.member && user.imports.iter().any(|import| import.name == package)
}

/// The names of public items and methods, but for the shortest.
fn public_items(text: &str) -> BTreeSet<String> {
    const ITEM: &str =
        r"(?m)^\s*pub (?:const |async |unsafe )*(?:fn|struct|enum|trait|type|const|static|mod) (\w+)";
    let Ok(item) = Regex::new(ITEM) else { return BTreeSet::new() };
    let names = item.captures_iter(text).filter_map(|found| Some(found.ok()?.get(1)?.as_str().to_owned()));
    names.filter(|name| name.len() >= MIN_NAME_LENGTH).collect()
}

/// Whether a source names both the package and one of its items.
fn uses(text: &str, package: &str, items: &BTreeSet<String>) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words: BTreeSet<&str> = text.split(|letter| !is_word(letter)).collect();
    words.contains(package.replace('-', "_").as_str())
        && items.iter().any(|item| words.contains(item.as_str()))
}

impl Selection {
    fn add(&mut self, package: &str) {
        if package == PROGRAM {
            self.has_program = true;
        } else {
            self.packages.insert(package.to_owned());
        }
    }

    fn add_user(&mut self, package: &str) {
        if package == PROGRAM {
            self.has_program = true;
        } else if !self.packages.contains(package) {
            self.users.insert(package.to_owned());
        }
    }

    /// The runs of cargo-nextest: one for the changed packages, one for their users, and one for changed tests of the program. Tests
    /// of the filter `slow` are left out.
    fn commands(&self, slow: &str) -> Vec<Command> {
        let mut commands = Vec::new();
        let mut add = |packages: &mut dyn Iterator<Item = &str>, arguments: &[&str], filter: &str| {
            let mut command = Command::new("cargo");
            command
                .args(["nextest", "run", "--locked", "--cargo-quiet", "--no-tests", "pass"])
                .args(arguments);
            command.args(packages.flat_map(|package| ["--package", package]));
            command.args(["-E", &format!("{filter} - ({slow})")]);
            commands.push(command);
        };
        if !self.packages.is_empty() {
            add(&mut self.packages.iter().map(String::as_str), &[], "all()");
        }
        let program = self.has_program.then_some(PROGRAM);
        let mut users = self.users.iter().map(String::as_str).chain(program).peekable();
        if users.peek().is_some() {
            add(&mut users, &["--lib", "--bins"], "all()");
        }
        if !self.modules.is_empty() {
            let modules: Vec<&str> = self.modules.iter().map(String::as_str).collect();
            let filter = format!("test(/^({})::/)", modules.join("|"));
            add(&mut [PROGRAM].into_iter(), &["--test", "tests"], &filter);
        }
        commands
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut names: Vec<&str> = self.packages.iter().chain(&self.users).map(String::as_str).collect();
        names.extend(self.has_program.then_some(PROGRAM));
        match names.as_slice() {
            [] => write!(f, "no package is tested")?,
            names => write!(f, "the tests of {} run", names.join(", "))?,
        }
        let modules: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        match modules.as_slice() {
            [] => write!(f, ", and none that runs the whole program (make test)"),
            modules => write!(f, ", and of those that run the whole program {}", modules.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{ImportPurpose, package};

    fn tree() -> Tree {
        let mut tree = Tree::from_texts(&[
            ("crates/low/src/lib.rs", "pub struct Sample;\npub fn run() {}\nfn private() {}\n"),
            ("crates/user/src/lib.rs", "use low::Sample;\n"),
            ("crates/other/src/lib.rs", "use low::Another;\n// A Samples of private().\n"),
            ("crates/fathom/src/lib.rs", "use low::{Another, Sample};\n"),
            ("tests/disk.rs", "mod disk;\n"),
        ]);
        let low = [("low", ImportPurpose::Run)];
        tree.packages =
            vec![package("low", &[]), package("user", &low), package("other", &low), package("fathom", &low)];
        tree
    }

    fn selection(changed: &[&str]) -> Selection {
        select(&tree(), &changed.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn packages_that_use_a_changed_item_are_selected_and_others_are_not() {
        let selection = selection(&["crates/low/src/lib.rs"]);
        assert_eq!(selection.packages, ["low".to_owned()].into());
        assert_eq!(selection.users, ["user".to_owned()].into());
        assert!(selection.has_program && selection.modules.is_empty());
        assert_eq!(
            selection.to_string(),
            "the tests of low, user, fathom run, and none that runs the whole program (make test)"
        );
    }

    #[test]
    fn a_changed_test_of_the_program_selects_its_module() {
        let selection = selection(&["tests/disk.rs", "tests/faults/device.rs", "README.md"]);
        assert!(selection.packages.is_empty() && !selection.has_program);
        let commands = selection.commands("none()");
        assert_eq!(commands.len(), 1);
        let last = commands[0].get_args().last().unwrap().to_string_lossy().into_owned();
        assert_eq!(last, "test(/^(disk|faults)::/) - (none())");
    }

    #[test]
    fn changes_outside_of_packages_select_no_test() {
        let selection = selection(&["README.md"]);
        assert_eq!(selection, Selection::default());
        assert!(selection.commands("none()").is_empty());
    }

    #[test]
    fn tests_that_took_long_are_left_out() {
        let report = "<testcase name=\"a::b\" classname=\"low::tests\" timestamp=\"x\" time=\"2.1\"/>\n\
                      <testcase name=\"a::c\" classname=\"low::tests\" timestamp=\"x\" time=\"1.9\">\n";
        let slow = slow_tests(report);
        assert_eq!(filter(&slow), "none() | (binary_id(=low::tests) & test(=a::b))");
        assert_eq!(filter(&slow_tests("")), "none()");
    }

    #[test]
    fn names_of_public_items_are_read() {
        let text = "pub const fn median() {}\n    pub async fn send() {}\npub(crate) fn hidden() {}\npub fn run() {}\npub static TABLE: u8 = 0;\n";
        assert_eq!(public_items(text), ["TABLE", "median", "send"].map(str::to_owned).into());
    }
}
