//! Finds files of a package that use each other in a cycle, so that none can be read, tested or moved without the others.
//!
//! The present ones are listed in `xtask/ratchet.toml`, by package with the sizes of its circles, and can only shrink: no size may be
//! added or raised against the last committed list. `make refresh` lowers a size that became smaller.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Complaint;
use super::function_length::RATCHET;
use super::modules::cycles;
use super::tree::Tree;

/// The circles of a package, the largest first.
struct Circles<'t> {
    package: &'t str,
    manifest: &'t str,
    groups: Vec<Circle>,
}

/// Files that all reach each other.
struct Circle {
    size: usize,
    /// The uses between these files.
    edges: Vec<(String, String)>,
}

impl Circles<'_> {
    fn sizes(&self) -> Vec<usize> {
        self.groups.iter().map(|group| group.size).collect()
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut entries = tree.ratchet.circles.clone();
    for circles in of_packages(tree) {
        let (sizes, allowed) = (circles.sizes(), entries.remove(circles.package).unwrap_or_default());
        if exceeds(&sizes, &allowed) {
            let what = format!(
                "files use each other in circles of {}, allowed are {}",
                list(&sizes),
                list(&allowed)
            );
            let advice = "move what both need below both; cargo xtask tidy --cycles shows who uses whom";
            complaints.push(Complaint::new(circles.manifest, 1, what, advice));
        } else if sizes != allowed {
            let what = format!("{} has circles of {} files only", circles.package, list(&sizes));
            complaints.push(Complaint::stale(RATCHET, tree.line_with(RATCHET, circles.package), what));
        }
    }
    for package in entries.keys() {
        let what = format!("{package} is no package, and needs no exception");
        complaints.push(Complaint::stale(RATCHET, tree.line_with(RATCHET, package), what));
    }
    // The first list has no earlier one.
    let before = tree.ratchet_before.iter().map(|before| &before.circles).filter(|before| !before.is_empty());
    for before in before {
        for (package, sizes) in &tree.ratchet.circles {
            if exceeds(sizes, before.get(package).map_or(&[][..], Vec::as_slice)) {
                let what = format!("the exception for {package} is new or larger");
                let line = tree.line_with(RATCHET, package);
                complaints.push(Complaint::new(
                    RATCHET,
                    line,
                    what,
                    "open the circle: this list only shrinks",
                ));
            }
        }
    }
    complaints
}

/// The exceptions that the tree needs, none larger than its entry.
pub(super) fn needed(tree: &Tree) -> BTreeMap<String, Vec<usize>> {
    let entries = of_packages(tree).into_iter().filter_map(|circles| {
        let (sizes, allowed) = (circles.sizes(), tree.ratchet.circles.get(circles.package)?);
        let needed = if exceeds(&sizes, allowed) { allowed.clone() } else { sizes };
        (!needed.is_empty()).then(|| (circles.package.to_owned(), needed))
    });
    entries.collect()
}

/// Writes one line on all circles, and with `shows_edges` the uses within each.
pub(super) fn write(tree: &Tree, shows_edges: bool, out: &mut impl Write) -> io::Result<()> {
    let mut sizes = Vec::new();
    for circles in of_packages(tree).into_iter().filter(|circles| !circles.groups.is_empty()) {
        if shows_edges {
            writeln!(out, "{}: circles of {} files", circles.package, list(&circles.sizes()))?;
            for (from, to) in circles.groups.iter().flat_map(|group| &group.edges) {
                writeln!(out, "  {from} -> {to}")?;
            }
        }
        sizes.extend(circles.sizes());
    }
    let largest = sizes.iter().max().copied().unwrap_or(0);
    writeln!(out, "modules: {} circles of files, the largest of {largest}", sizes.len())
}

/// Returns whether more files are in circles than allowed, or more in one of them. A circle may fall into several smaller ones.
fn exceeds(sizes: &[usize], allowed: &[usize]) -> bool {
    let sum = |sizes: &[usize]| sizes.iter().sum::<usize>();
    sum(sizes) > sum(allowed) || sizes.iter().max() > allowed.iter().max()
}

fn list(sizes: &[usize]) -> String {
    if sizes.is_empty() {
        return "none".to_owned();
    }
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn of_packages(tree: &Tree) -> Vec<Circles<'_>> {
    let found = tree.packages.iter().filter_map(|package| {
        let graph = tree.graph(&package.name)?;
        let mut groups: Vec<Circle> = cycles(graph.files.len(), &graph.edges)
            .iter()
            .map(|group| Circle { size: group.len(), edges: graph.edges_within(group) })
            .collect();
        groups.sort_by_key(|group| Reverse(group.size));
        Some(Circles { package: &package.name, manifest: &package.manifest, groups })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::Ratchet;
    use crate::tidy::workspace::package;

    const FILES: [(&str, &str); 5] = [
        ("crates/a/src/lib.rs", "mod one;\nmod two;\nmod shown;\npub use two::Two;"),
        ("crates/a/src/one.rs", "use crate::Two;\npub struct One(Two);"),
        ("crates/a/src/two.rs", "pub struct Two;\nfn f() { println!(\"{}\", super::one::One::NAME) }"),
        ("crates/a/src/shown/mod.rs", "mod inner;\npub use inner::Inner;\npub struct Shown;"),
        (
            "crates/a/src/shown/inner.rs",
            "pub struct Inner;\n#[cfg(test)]\nmod tests { use super::super::Shown; }",
        ),
    ];

    fn complaints(allowed: &[usize], before: &[usize]) -> Vec<String> {
        let mut tree = Tree::from_texts(&FILES);
        tree.packages = vec![package("a", &[])];
        tree.floors = toml::from_str("floors = { a = 0 }").unwrap();
        let ratchet = |sizes: &[usize]| Ratchet {
            circles: if sizes.is_empty() { [].into() } else { [("a".to_owned(), sizes.to_vec())].into() },
            ..Ratchet::default()
        };
        tree.ratchet = ratchet(allowed);
        tree.ratchet_before = Some(ratchet(before));
        check(&tree).iter().map(|complaint| complaint.what.clone()).collect()
    }

    #[test]
    fn a_circle_is_seen_through_a_reexport_and_a_macro() {
        assert_eq!(complaints(&[], &[]), ["files use each other in circles of 2, allowed are none"]);
        assert_eq!(complaints(&[2], &[2]), Vec::<String>::new());
    }

    #[test]
    fn the_list_only_shrinks() {
        assert_eq!(complaints(&[3], &[3]), ["a has circles of 2 files only"]);
        assert_eq!(complaints(&[2], &[1]), ["the exception for a is new or larger"]);
        assert_eq!(complaints(&[2], &[5]), Vec::<String>::new());
        assert!(!exceeds(&[3, 2], &[6]) && exceeds(&[3, 3], &[5]) && exceeds(&[4], &[3, 2]));
    }
}
