//! Checks that ARCHITECTURE.md matches the tree: each package has a section (its name in backticks in the heading) with
//! one paragraph that opens `**Invariant:**`, and each outside dependency has one row with the reason for its choice.

use std::collections::BTreeSet;

use super::Complaint;
use super::manifests::shared;
use super::markdown::{Section, sections};
use super::tree::{Tree, TreeFile};

const DOCUMENT: &str = "ARCHITECTURE.md";
const MARK: &str = "**Invariant:**";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(document) = tree.file(DOCUMENT) else {
        return vec![Complaint::new(DOCUMENT, 1, "the file is missing", "write it")];
    };
    let mut complaints = packages(tree, document);
    complaints.extend(dependencies(tree, document));
    complaints
}

fn packages(tree: &Tree, document: &TreeFile) -> Vec<Complaint> {
    let sections = sections(&document.text);
    let mut complaints = Vec::new();
    for package in &tree.packages {
        let own: Vec<_> = sections.iter().filter(|s| quoted(&s.title) == Some(&package.name)).collect();
        match own.as_slice() {
            [] => {
                let what = format!("{} has no section", package.name);
                let advice =
                    format!("add a heading with `{}` and a paragraph that opens {MARK}", package.name);
                complaints.push(Complaint::new(DOCUMENT, 1, what, advice));
            }
            [section] => complaints.extend(invariant(section)),
            [_, second, ..] => {
                let what = format!("{} has {} sections", package.name, own.len());
                complaints.push(Complaint::new(DOCUMENT, second.line, what, "keep one"));
            }
        }
    }
    // A section with an invariant whose package no longer exists.
    let known = |name: &str| tree.packages.iter().any(|package| package.name == name);
    for section in sections.iter().filter(|section| section.body.contains(MARK)) {
        if !quoted(&section.title).is_some_and(known) {
            let what = format!("there is no package for the section '{}'", section.title);
            complaints.push(Complaint::new(
                DOCUMENT,
                section.line,
                what,
                "name the package, or remove the section",
            ));
        }
    }
    complaints
}

fn invariant(section: &Section) -> Option<Complaint> {
    let marked = section.body.lines().filter(|line| line.starts_with(MARK)).count();
    let what = format!("the section '{}' has {marked} invariants", section.title);
    let advice =
        format!("write one paragraph that opens {MARK}: what always holds, and what is absent on purpose");
    (marked != 1).then(|| Complaint::new(DOCUMENT, section.line, what, advice))
}

/// The first code span of a heading.
fn quoted(title: &str) -> Option<&str> {
    title.split('`').nth(1)
}

fn dependencies(tree: &Tree, document: &TreeFile) -> Vec<Complaint> {
    let inside: BTreeSet<&str> = tree.packages.iter().map(|package| package.name.as_str()).collect();
    let mut wanted: BTreeSet<String> = tree.file("Cargo.toml").map_or_else(BTreeSet::new, |root| {
        shared(&root.text).into_iter().filter(|(_, ours)| !ours).map(|(name, _)| name).collect()
    });
    let imports =
        tree.packages.iter().flat_map(|package| &package.imports).map(|import| import.name.as_str());
    wanted.extend(imports.filter(|name| !inside.contains(name)).map(str::to_owned));

    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for (line, cells) in rows(document) {
        let Some(name) = cells.first().and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`')) else {
            continue;
        };
        if !wanted.contains(name) {
            let what = format!("{name} is not a dependency");
            complaints.push(Complaint::new(DOCUMENT, line, what, "remove the row"));
        } else if !seen.insert(name.to_owned()) {
            complaints.push(Complaint::new(DOCUMENT, line, format!("{name} has a row already"), "keep one"));
        } else if cells.len() < 3 || cells.iter().any(|cell| cell.is_empty()) {
            let what = format!("the row of {name} is not filled in");
            complaints.push(Complaint::new(DOCUMENT, line, what, "say what it is for and why not its rival"));
        }
    }
    for name in wanted.difference(&seen) {
        let what = format!("the dependency {name} has no row");
        let advice = format!("add | `{name}` | what for | why it and not its rival |");
        complaints.push(Complaint::new(DOCUMENT, 1, what, advice));
    }
    complaints
}

/// The table rows of the sections on dependencies, cell by cell.
fn rows(document: &TreeFile) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for section in sections(&document.text).iter().filter(|s| s.title.to_lowercase().contains("dependenc")) {
        for (index, line) in section.body.lines().enumerate() {
            if let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) {
                let cells = row.split('|').map(|cell| cell.trim().to_owned()).collect();
                found.push((section.line + 1 + index, cells));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::{ImportPurpose, package};

    const GOOD: &str = "# A\n\n### `units`\nOwns.\n\n**Invariant:** no clock.\n\n## Dependencies\n\n\
                        | crate | for | why |\n|---|---|---|\n| `serde` | records | a standard |\n";

    fn complaints(document: &str) -> Vec<String> {
        let manifest = "[workspace.dependencies]\nserde = \"1\"\nunits = { path = \"crates/units\" }\n";
        let mut tree = Tree::from_texts(&[(DOCUMENT, document), ("Cargo.toml", manifest)]);
        tree.packages = vec![package("units", &[("serde", ImportPurpose::Run)])];
        check(&tree).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn a_document_that_keeps_up_is_fine() {
        assert_eq!(complaints(GOOD), Vec::<String>::new());
    }

    #[test]
    fn missing_sections_invariants_and_rows_are_named() {
        assert_eq!(complaints("# A\n"), ["units has no section", "the dependency serde has no row"]);
        let silent = GOOD.replace(MARK, "Note:");
        assert_eq!(complaints(&silent), ["the section '`units`' has 0 invariants"]);
        let empty = GOOD.replace("a standard", "");
        assert_eq!(complaints(&empty), ["the row of serde is not filled in"]);
    }

    #[test]
    fn what_is_no_longer_there_is_named() {
        let document = format!("{GOOD}| `old` | x | y |\n\n### `gone`\n\n{MARK} held.\n");
        let found = complaints(&document);
        assert_eq!(found, ["there is no package for the section '`gone`'", "old is not a dependency"]);
    }
}
