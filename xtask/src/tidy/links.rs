//! Checks links between documents, and citations of documents in Rust: the file is in the tree, and has the heading.
//!
//! Outside links are not followed: a check must not depend on other machines.

use std::iter;

use super::Complaint;
use super::markdown::{anchor, links, sections};
use super::tree::{Tree, TreeFile};
use super::unreached::normal;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.markdown() {
        for (line, target) in links(&file.text) {
            if let Some(what) = broken(tree, file, &target) {
                complaints.push(Complaint::new(&file.path, line, what, "correct or remove the link"));
            }
        }
    }
    for file in tree.rust() {
        for (line, text) in file.lines() {
            // In comments every document is a citation; in code, only documents of the book, which messages and findings cite.
            let is_comment = text.trim_start().starts_with("//");
            let is_cited =
                |word: &&str| is_comment || file.path.starts_with("crates/") && word.starts_with("docs/");
            for citation in citations(text).filter(is_cited) {
                if let Some(what) = dangling(tree, file, citation) {
                    complaints.push(Complaint::new(
                        &file.path,
                        line,
                        what,
                        "cite docs/methods.md or a public source",
                    ));
                }
            }
        }
    }
    complaints
}

/// The documents that a text of Rust cites, with a heading after `#`. `owner/repository:path.md` is a file of a public repository.
fn citations(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_./:#-".contains(c));
    let words = words.map(|word| word.trim_end_matches(['.', ':']));
    words.filter(|word| (word.ends_with(".md") || word.contains(".md#")) && !word.contains(':'))
}

/// The reason that a citation is broken. Its path starts at the root or at a folder that the citing file is in.
fn dangling(tree: &Tree, file: &TreeFile, citation: &str) -> Option<String> {
    let folders = file.path.match_indices('/').map(|(end, _)| &file.path[..=end]);
    let reasons: Option<Vec<String>> =
        iter::once("").chain(folders).map(|folder| broken_from(tree, folder, file, citation)).collect();
    reasons?.into_iter().next()
}

fn broken(tree: &Tree, file: &TreeFile, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    broken_from(tree, folder, file, target)
}

/// The reason that a target relative to a folder is broken; one without a path is in `file` itself.
fn broken_from(tree: &Tree, folder: &str, file: &TreeFile, target: &str) -> Option<String> {
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() { file.path.clone() } else { normal(&format!("{folder}/{path}")) };
    let Some(other) = tree.file(&path) else {
        let is_folder = tree.files.iter().any(|other| other.path.starts_with(&format!("{path}/")));
        return (!is_folder).then(|| format!("the link to {target} leads nowhere"));
    };
    let heading = heading.filter(|_| other.is_markdown())?;
    let found = sections(&other.text).iter().any(|section| anchor(&section.title) == heading);
    (!found).then(|| format!("{path} has no heading #{heading}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let tree = Tree::from_texts(&[
            ("docs/a.md", text),
            ("README.md", "# Two words\n"),
            ("docs/journal/b.md", ""),
        ]);
        check(&tree).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "# Here\n[a](../README.md) [b](../README.md#two-words) [c](journal/b.md) [d](journal) [e](#here) \
                    [f](https://example.org/x.md) `[g](gone.md)`\n";
        assert_eq!(complaints(text), Vec::<String>::new());
    }

    #[test]
    fn links_that_do_not_are_named() {
        assert_eq!(complaints("[a](gone.md)\n"), ["the link to gone.md leads nowhere"]);
        assert_eq!(complaints("[a](../README.md#three)\n"), ["README.md has no heading #three"]);
        assert_eq!(complaints("[a]: #there\n"), ["docs/a.md has no heading #there"]);
    }

    #[test]
    fn citations_in_rust_lead_to_a_document_too() {
        let cited = |source: &str| {
            let tree = Tree::from_texts(&[
                ("crates/a/src/b.rs", source),
                ("docs/c.md", "# One thing\n"),
                ("crates/a/tests/d.md", ""),
            ]);
            check(&tree).into_iter().map(|complaint| complaint.what).collect::<Vec<_>>()
        };
        let fine = "//! See docs/c.md#one-thing, tests/d.md and owner/name:e.md.\nlet name = \"gone.md\";\n";
        assert_eq!(cited(fine), Vec::<String>::new());
        assert_eq!(cited("// As in (docs/c.md#two).\n"), ["docs/c.md has no heading #two"]);
        assert_eq!(cited("/// From notes.md 3.\n"), ["the link to notes.md leads nowhere"]);
        assert_eq!(cited("a.source(\"docs/gone.md\")\n"), ["the link to docs/gone.md leads nowhere"]);
    }
}
