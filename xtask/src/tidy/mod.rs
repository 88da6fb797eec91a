//! `cargo xtask tidy`: checks by machine what reviewers would otherwise have to point out repeatedly.
//!
//! A check is one file that exports a function from the `Tree` to its complaints, and one row of `CHECKS`. Each complaint names the
//! file, the line and the remedy. Faults that rustc and clippy already report (printing, unwrapping) are left to them.

mod architecture;
mod book;
mod changelog;
mod cycles;
mod doc_comments;
mod empty_tests;
mod exits;
mod file_length;
mod file_size;
mod floors;
mod function_length;
mod glossary;
mod headers;
mod idioms;
mod ids;
mod links;
mod machine_names;
mod manifests;
mod markdown;
mod module_layers;
mod modules;
mod notes;
mod quarantine;
mod real_machine;
mod refresh;
mod rules;
mod timed_tests;
mod tree;
mod type_names;
mod unreached;
mod unsafe_code;
mod workspace;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};

pub use refresh::run as refresh;
pub(crate) use tree::Tree;
pub(crate) use workspace::Package;
#[cfg(test)]
pub(crate) use workspace::{ImportPurpose, package};

/// The path of the floors' file from the root; it also identifies the root.
pub(crate) const FLOORS: &str = "xtask/floors.toml";

/// A breach of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Complaint {
    path: String,
    line: usize,
    what: String,
    advice: String,
    /// True if nothing is wrong, and `make refresh` brings the file up to date.
    is_stale: bool,
}

impl Complaint {
    fn new(path: &str, line: usize, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Complaint { path: path.to_owned(), line, what: what.into(), advice: advice.into(), is_stale: false }
    }

    /// A note on something that improved.
    fn stale(path: &str, line: usize, what: impl Into<String>) -> Self {
        let advice = "make refresh brings the file up to date";
        Complaint { is_stale: true, ..Complaint::new(path, line, what, advice) }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}, {}", self.path, self.line, self.what, self.advice)
    }
}

struct Check {
    name: &'static str,
    run: fn(&Tree) -> Vec<Complaint>,
}

static CHECKS: &[Check] = &[
    Check { name: "floors", run: floors::check },
    Check { name: "manifests", run: manifests::check },
    Check { name: "headers", run: headers::check },
    Check { name: "file length", run: file_length::check },
    Check { name: "function length", run: function_length::check },
    Check { name: "cycles", run: cycles::check },
    Check { name: "module layers", run: module_layers::check },
    Check { name: "unreached files", run: unreached::check },
    Check { name: "unsafe code", run: unsafe_code::check },
    Check { name: "exits", run: exits::check },
    Check { name: "empty tests", run: empty_tests::check },
    Check { name: "quarantine", run: quarantine::check },
    Check { name: "timed tests", run: timed_tests::check },
    Check { name: "real machine", run: real_machine::check },
    Check { name: "notes", run: notes::check },
    Check { name: "doc comments", run: doc_comments::check },
    Check { name: "type names", run: type_names::check },
    Check { name: "idioms", run: idioms::check },
    Check { name: "ids", run: ids::check },
    Check { name: "glossary", run: glossary::check },
    Check { name: "file size", run: file_size::check },
    Check { name: "machine names", run: machine_names::check },
    Check { name: "links", run: links::check },
    Check { name: "book", run: book::check },
    Check { name: "architecture", run: architecture::check },
    Check { name: "changelog", run: changelog::check },
];

/// Runs every check over the tree at `root`; returns `true` if no check complains.
pub fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let (shows_edges, lists_idioms) = match arguments {
        [] => (false, false),
        [word] if word == "--cycles" => (true, false),
        [word] if word == "--idioms" => (false, true),
        [word, ..] => bail!("tidy takes --cycles, --idioms or nothing, but got '{word}'"),
    };
    let tree = Tree::read(&root)?;
    if lists_idioms {
        idioms::write(&tree, &mut io::stdout().lock())?;
        return Ok(true);
    }
    let mut complaints = 0;
    let mut out = io::stdout().lock();
    for check in CHECKS {
        let mut found = (check.run)(&tree);
        found.sort();
        complaints += found.iter().filter(|complaint| !complaint.is_stale).count();
        for complaint in found {
            writeln!(out, "{complaint} [{}]", check.name)?;
        }
    }
    module_layers::write(&tree, &mut out)?;
    cycles::write(&tree, shows_edges, &mut out)?;
    writeln!(out, "tidy: {} files, {} checks, {complaints} complaints", tree.files.len(), CHECKS.len())?;
    Ok(complaints == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_the_place_the_fault_and_the_way_out() {
        let complaint = Complaint::new("crates/x/src/lib.rs", 7, "it is long", "split it");
        assert_eq!(complaint.to_string(), "crates/x/src/lib.rs:7: it is long, split it");
    }

    #[test]
    fn every_check_has_its_own_name() {
        let mut names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
    }
}
