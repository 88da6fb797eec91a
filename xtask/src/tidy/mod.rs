//! `cargo xtask tidy`: what reviewers would otherwise have to say again and again, said by a machine.
//!
//! A check is one file that exports a function from the `Tree` to its complaints, and one row of `CHECKS`.
//! Each complaint names the place and the way out. What rustc and clippy already say (missing documentation,
//! printing, unwrapping) is left to them.

mod architecture;
mod book;
mod changelog;
mod cycles;
mod empty_tests;
mod exits;
mod file_length;
mod file_size;
mod floors;
mod function_length;
mod headers;
mod links;
mod machine_names;
mod manifests;
mod markdown;
mod module_layers;
mod modules;
mod notes;
mod rules;
mod tree;
mod unreached;
mod unsafe_code;
mod workspace;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};

use tree::Tree;

/// Where the floors stand, from the root; also how the root is known.
pub(crate) const FLOORS: &str = "xtask/floors.toml";

/// One thing that is not as the house wants it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Complaint {
    path: String,
    line: usize,
    what: String,
    advice: String,
}

impl Complaint {
    fn new(path: &str, line: usize, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Complaint { path: path.to_owned(), line, what: what.into(), advice: advice.into() }
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
    Check { name: "notes", run: notes::check },
    Check { name: "file size", run: file_size::check },
    Check { name: "machine names", run: machine_names::check },
    Check { name: "links", run: links::check },
    Check { name: "book", run: book::check },
    Check { name: "architecture", run: architecture::check },
    Check { name: "changelog", run: changelog::check },
];

/// Runs every check over the tree at `root`; `true` when there is nothing to complain about.
pub fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let shows_edges = match arguments {
        [] => false,
        [word] if word == "--cycles" => true,
        [word, ..] => bail!("tidy takes --cycles or nothing, but got '{word}'"),
    };
    let tree = Tree::read(&root)?;
    let mut complaints = 0;
    let mut out = io::stdout().lock();
    for check in CHECKS {
        let mut found = (check.run)(&tree);
        found.sort();
        complaints += found.len();
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
