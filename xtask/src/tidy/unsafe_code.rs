//! Checks that unsafe code is only in the files that `xtask/floors.toml` lists with a reason.
//!
//! It reads every token, so that macros hide nothing; words in comments and strings do not count.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use super::tree::{Tree, TreeFile};
use super::{Complaint, FLOORS};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        let allowed = tree.floors.unsafe_code.contains_key(&file.path);
        if let Some(line) = first_unsafe(file).filter(|_| !allowed) {
            let advice =
                format!("use rustix or another safe interface, or list the file with its reason in {FLOORS}");
            complaints.push(Complaint::new(&file.path, line, "unsafe code stands here", advice));
        }
    }
    for (path, reason) in &tree.floors.unsafe_code {
        let line = tree.line_with(FLOORS, path);
        if tree.file(path).and_then(first_unsafe).is_none() {
            complaints.push(Complaint::new(
                FLOORS,
                line,
                format!("{path} holds no unsafe code"),
                "remove it",
            ));
        } else if reason.trim().is_empty() {
            complaints.push(Complaint::new(FLOORS, line, format!("{path} gives no reason"), "say why"));
        }
    }
    complaints
}

fn first_unsafe(file: &TreeFile) -> Option<usize> {
    // Most files do not contain the word.
    file.text.contains("unsafe").then(|| TokenStream::from_str(&file.text).ok().and_then(search)).flatten()
}

fn search(tokens: TokenStream) -> Option<usize> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(word) if word == "unsafe" => Some(word.span().start().line),
        TokenTree::Group(group) => search(group.stream()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)], allowed: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::from_texts(files);
        let allowed = allowed.iter().map(|(path, reason)| ((*path).to_owned(), (*reason).to_owned()));
        tree.floors.unsafe_code = allowed.collect();
        check(&tree)
            .iter()
            .map(|complaint| format!("{}:{}: {}", complaint.path, complaint.line, complaint.what))
            .collect()
    }

    #[test]
    fn words_are_not_code() {
        let text = "//! No unsafe here.\n#![deny(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
        assert_eq!(complaints(&[("a.rs", text)], &[]), Vec::<String>::new());
    }

    #[test]
    fn code_is_found_also_inside_macros() {
        let block = "fn f() {\n    unsafe { g() }\n}\n";
        let hidden = "assert!(\n    unsafe { g() } == 1\n);\n";
        let found = complaints(&[("block.rs", block), ("hidden.rs", hidden)], &[]);
        assert_eq!(found, ["block.rs:2: unsafe code stands here", "hidden.rs:2: unsafe code stands here"]);
    }

    #[test]
    fn the_list_holds_only_what_is_needed_and_says_why() {
        let files = [("ring.rs", "unsafe fn f() {}"), ("safe.rs", "fn f() {}")];
        assert_eq!(complaints(&files, &[("ring.rs", "io_uring shares memory")]), Vec::<String>::new());
        let found =
            complaints(&files, &[("ring.rs", ""), ("safe.rs", "once"), ("gone.rs", "once")]).join("\n");
        assert!(found.contains("ring.rs gives no reason"), "{found}");
        assert!(found.contains("safe.rs holds no unsafe code"), "{found}");
        assert!(found.contains("gone.rs holds no unsafe code"), "{found}");
    }
}
