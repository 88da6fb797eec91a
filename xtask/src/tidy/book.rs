//! Checks that the book (book.toml, docs/SUMMARY.md) contains every page of docs/ once, and that its pages are self-contained.
//!
//! The journal is not part of the book, since it describes past days. A page may link only to pages of the book and to
//! outside addresses, since the built book contains nothing else; `links` checks that targets exist.

use std::collections::BTreeSet;

use super::Complaint;
use super::markdown::links;
use super::tree::{Tree, TreeFile};
use super::unreached::normal;

const SETTINGS: &str = "book.toml";
const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(summary) = tree.file(SUMMARY) else {
        return vec![Complaint::new(
            SUMMARY,
            1,
            "the file is missing",
            "write it: it is the book's contents",
        )];
    };
    let mut complaints = Vec::new();
    if tree.file(SETTINGS).is_none() {
        complaints.push(Complaint::new(SETTINGS, 1, "the file is missing", "write it: mdBook looks for it"));
    }
    let mut listed = BTreeSet::new();
    for (line, target) in links(&summary.text) {
        let path = normal(&format!("docs/{target}"));
        if !is_page(&path) {
            let what = format!("{target} is no page of the book");
            complaints.push(Complaint::new(SUMMARY, line, what, "list pages that lie in docs/ itself"));
        } else if !listed.insert(path) {
            complaints.push(Complaint::new(SUMMARY, line, format!("{target} is listed twice"), "keep one"));
        }
    }
    for page in tree.markdown().filter(|file| is_page(&file.path)) {
        if !listed.contains(&page.path) {
            let what = "the book's contents do not list it";
            complaints.push(Complaint::new(&page.path, 1, what, format!("add it to {SUMMARY}")));
        }
        complaints.extend(strays(page));
    }
    complaints
}

/// Returns whether it lies in docs/ itself and is not the list.
fn is_page(path: &str) -> bool {
    let name = path.strip_prefix("docs/").filter(|name| !name.contains('/') && name.ends_with(".md"));
    name.is_some() && path != SUMMARY
}

/// Links of a page that are broken in the built book.
fn strays(page: &TreeFile) -> Vec<Complaint> {
    let leads_out = |target: &str| {
        let path = target.split('#').next().unwrap_or(target);
        let is_outside = target.contains("://") || target.starts_with("mailto:") || path.is_empty();
        let file = normal(&format!("docs/{path}"));
        // Files that are not pages are copied unchanged.
        let is_copied =
            file.starts_with("docs/schemas/") && file.ends_with(".json") || file.ends_with(".svg");
        !is_outside && !is_page(&file) && !is_copied
    };
    let stray = links(&page.text).into_iter().filter(|(_, target)| leads_out(target));
    let complain = |(line, target): (usize, String)| {
        let what = format!("the link to {target} leads out of the book");
        Complaint::new(&page.path, line, what, "name the file as code, or link to a page of the book")
    };
    stray.map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(summary: &str, page: &str) -> Vec<String> {
        let files = [
            (SETTINGS, ""),
            (SUMMARY, summary),
            ("docs/a.md", page),
            ("docs/journal/b.md", ""),
            ("c.md", ""),
        ];
        check(&Tree::from_texts(&files)).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn a_book_of_all_pages_is_fine() {
        let page = "[x](https://example.org/) [y](#here) [z](a.md#there) `[w](../c.md)` [s](schemas/v1/a.json) ![p](a.svg)\n";
        assert_eq!(complaints("# Summary\n\n- [A](a.md)\n", page), Vec::<String>::new());
    }

    #[test]
    fn pages_that_are_left_out_or_listed_twice_are_named() {
        assert_eq!(complaints("# Summary\n", ""), ["the book's contents do not list it"]);
        assert_eq!(complaints("[A](a.md)\n[A](a.md)\n", ""), ["a.md is listed twice"]);
        assert_eq!(complaints("[A](a.md)\n[B](journal/b.md)\n", ""), ["journal/b.md is no page of the book"]);
        assert_eq!(check(&Tree::default())[0].what, "the file is missing");
    }

    #[test]
    fn links_out_of_the_book_are_named() {
        let wanted = |target: &str| format!("the link to {target} leads out of the book");
        assert_eq!(complaints("[A](a.md)\n", "[b](journal/b.md)\n"), [wanted("journal/b.md")]);
        assert_eq!(complaints("[A](a.md)\n", "[c](../c.md#x)\n"), [wanted("../c.md#x")]);
    }
}
