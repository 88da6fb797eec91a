//! Checks that the outcome of `make test` does not depend on the machine's speed: outside modules named `timed` or `proof`, which
//! `make proof` runs, test code asserts no upper bound on elapsed time, and sleeps only in a loop that waits for an event.
//!
//! A lower bound is allowed, as a slow machine cannot break it. So is a limit by a constant named `TIMEOUT`, which only a program
//! that hangs reaches. A sleep in a closure is the delay of a simulated peer. `xtask/floors.toml` lists the files with other sleeps,
//! each with the reason why the outcome does not depend on the machine's speed.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::empty_tests::{is_cfg_test, is_test_file};
use super::tree::{Tree, TreeFile};
use super::{Complaint, FLOORS};

const SLEEP: &str = "a test sleeps for a result";
/// The name of a limit that only a program that hangs reaches.
const HANG_LIMIT: &str = "TIMEOUT";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust().filter(|file| !is_outside_make_test(file)) {
        if let Some(syntax) = file.parsed() {
            let mut finder = Finder {
                path: &file.path,
                in_tests: is_test_file(file) && !is_kit(file),
                ..Finder::default()
            };
            finder.visit_file(syntax);
            let is_listed = tree.floors.sleeping_tests.contains_key(&file.path);
            complaints.extend(finder.complaints.into_iter().filter(|one| !is_listed || one.what != SLEEP));
        }
    }
    let exists = |path: &str| tree.file(path).is_some();
    complaints.extend(check_entries(tree, &tree.floors.sleeping_tests, exists, "does not exist"));
    complaints
}

/// Checks a table of files with their reasons: names each entry that is not needed, in the words `fault`, or gives no reason.
pub(super) fn check_entries(
    tree: &Tree,
    entries: &BTreeMap<String, String>,
    is_needed: impl Fn(&str) -> bool,
    fault: &str,
) -> Vec<Complaint> {
    let check_entry = |(path, reason): (&String, &String)| {
        let (what, advice) = match () {
            () if !is_needed(path) => (fault, "remove it"),
            () if reason.trim().is_empty() => ("gives no reason", "say why"),
            () => return None,
        };
        Some(Complaint::new(FLOORS, tree.line_with(FLOORS, path), format!("{path} {what}"), advice))
    };
    entries.iter().filter_map(check_entry).collect()
}

/// Returns whether the file belongs to the test kit, whose fixtures are slow on purpose.
pub(super) fn is_kit(file: &TreeFile) -> bool {
    file.path.starts_with("testkit/")
}

/// Returns whether the whole file belongs to `make proof` or `make bench`.
pub(super) fn is_outside_make_test(file: &TreeFile) -> bool {
    file.path.split('/').any(|part| matches!(part, "proof" | "proof.rs" | "timed" | "timed.rs"))
        || ["tests/faults/", "tests/capacity/", "tests/verdicts/", "bench/"]
            .iter()
            .any(|folder| file.path.starts_with(folder))
}

/// Returns whether the module belongs to `make proof`.
pub(super) fn is_of_proof(item: &syn::ItemMod) -> bool {
    item.ident == "timed" || item.ident == "proof"
}

#[derive(Default)]
struct Finder<'a> {
    path: &'a str,
    in_tests: bool,
    /// The number of loops and closures around the visited place.
    loops: usize,
    complaints: Vec<Complaint>,
}

impl Finder<'_> {
    fn complain(&mut self, line: usize, what: &str, advice: &str) {
        self.complaints.push(Complaint::new(self.path, line, what, advice));
    }

    fn in_loop(&mut self, visit: impl FnOnce(&mut Self)) {
        self.loops += 1;
        visit(self);
        self.loops -= 1;
    }
}

/// The line of an `elapsed` that a comparison bounds from above.
fn upper_bound(tokens: TokenStream) -> Option<usize> {
    let mut elapsed = None;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "elapsed" => elapsed = Some(word.span().start().line),
            TokenTree::Punct(punct) if punct.as_char() == '<' && elapsed.is_some() => {
                let is_limit = tokens.by_ref().take(2).any(|token| token.to_string() == HANG_LIMIT);
                return elapsed.filter(|_| !is_limit);
            }
            // The condition is over.
            TokenTree::Punct(punct) if punct.as_char() == ',' => return None,
            TokenTree::Group(group) if group.delimiter() != Delimiter::Brace => {
                if let Some(line) = upper_bound(group.stream()) {
                    return Some(line);
                }
            }
            _ => {}
        }
    }
    None
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_of_proof(item) {
            return;
        }
        let outer = self.in_tests;
        self.in_tests |= is_cfg_test(item);
        visit::visit_item_mod(self, item);
        self.in_tests = outer;
    }

    fn visit_expr_loop(&mut self, item: &'ast syn::ExprLoop) {
        self.in_loop(|finder| visit::visit_expr_loop(finder, item));
    }

    fn visit_expr_while(&mut self, item: &'ast syn::ExprWhile) {
        self.in_loop(|finder| visit::visit_expr_while(finder, item));
    }

    fn visit_expr_for_loop(&mut self, item: &'ast syn::ExprForLoop) {
        self.in_loop(|finder| visit::visit_expr_for_loop(finder, item));
    }

    fn visit_expr_closure(&mut self, item: &'ast syn::ExprClosure) {
        self.in_loop(|finder| visit::visit_expr_closure(finder, item));
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func
            && let Some(last) = function.path.segments.last()
            && last.ident == "sleep"
            && self.in_tests
            && self.loops == 0
        {
            let advice = "wait for an event in a loop, or move the test to a module named timed";
            self.complain(last.ident.span().start().line, SLEEP, advice);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let is_assertion = item.path.segments.last().is_some_and(|last| last.ident == "assert");
        if let Some(line) = upper_bound(item.tokens.clone()).filter(|_| is_assertion && self.in_tests) {
            let advice = "order the test by events, or move it to a module named timed";
            self.complain(line, "a test asserts an upper bound on elapsed time", advice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        check(&Tree::from_texts(&[("tests/a.rs", text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_upper_bound_on_elapsed_time_is_named_with_its_line() {
        let found = complaints(
            "#[test]\nfn t() {\n    assert!(begun.elapsed() < Duration::from_secs(9), \"{x}\");\n}\n",
        );
        assert_eq!(
            found,
            [
                "tests/a.rs:3: a test asserts an upper bound on elapsed time, order the test by events, or move it to a module named timed"
            ]
        );
        assert_eq!(complaints("fn t() { assert!(ok && (a.elapsed() <= LIMIT)); }\n").len(), 1);
    }

    #[test]
    fn a_lower_bound_and_the_limit_of_a_hang_are_allowed() {
        for condition in
            ["begun.elapsed() >= WAIT", "begun.elapsed() < TIMEOUT", "x < y, \"{:?} < 5\", z.elapsed()"]
        {
            assert_eq!(
                complaints(&format!("fn t() {{ assert!({condition}); }}\n")),
                Vec::<String>::new(),
                "{condition}"
            );
        }
    }

    #[test]
    fn a_sleep_outside_a_loop_is_named() {
        let found = complaints("fn t() {\n    thread::sleep(WAIT);\n    assert!(x);\n}\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(complaints("fn t() { while !done() { thread::sleep(NAP); } }\n"), Vec::<String>::new());
        let mut tree = Tree::from_texts(&[("tests/a.rs", "fn t() { sleep(WAIT); }\n")]);
        tree.floors.sleeping_tests.insert("tests/a.rs".to_owned(), "nothing may happen meanwhile".to_owned());
        assert_eq!(check(&tree), []);
        tree.floors.sleeping_tests.insert("tests/b.rs".to_owned(), "it is gone".to_owned());
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn what_make_proof_runs_is_left_alone() {
        let text = "mod timed { fn t() { sleep(WAIT); assert!(begun.elapsed() < LIMIT); } }\n";
        assert_eq!(complaints(text), Vec::<String>::new());
        let product = "fn f() { thread::sleep(NAP) }\n";
        let found = check(&Tree::from_texts(&[("crates/a/src/b.rs", product), ("tests/proof/c.rs", text)]));
        assert_eq!(found, []);
    }
}
