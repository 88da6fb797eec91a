//! Checks that the outcome of `make test` does not depend on the machine's speed: outside modules named `timed` or `proof`, which
//! `make proof` runs, test code asserts no upper bound on elapsed time, and sleeps only in a loop that waits for an event.
//!
//! A variable that was set from an elapsed time counts as one. A lower bound is allowed, as a slow machine cannot break it. So is a limit
//! by a constant named `TIMEOUT`, which only a program that hangs reaches. A sleep in a closure is the delay of a simulated peer. `xtask/floors.toml` lists the files with other sleeps,
//! each with the reason why the outcome does not depend on the machine's speed.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::empty_tests::{is_cfg_test, is_test_file};
use super::tree::{Tree, TreeFile};
use super::{Complaint, FLOORS};

const SLEEP: &str = "a test sleeps for a result";
/// The name of a limit that only a program that hangs reaches.
const HANG_LIMIT: &str = "TIMEOUT";
const ELAPSED: &str = "elapsed";

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
    /// The variables of the visited function that hold an elapsed time.
    times: BTreeSet<String>,
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

/// The line of an elapsed time that a comparison bounds from above, as `elapsed() < x` and `x > elapsed()` do.
fn upper_bound(tokens: TokenStream, is_time: &dyn Fn(&str) -> bool) -> Option<usize> {
    let mut elapsed = None;
    let (mut is_greater, mut is_limit) = (false, false);
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if is_time(&word.to_string()) => {
                let line = word.span().start().line;
                if is_greater && !is_limit {
                    return Some(line);
                }
                elapsed = Some(line);
            }
            TokenTree::Ident(word) if word == HANG_LIMIT => is_limit = true,
            TokenTree::Punct(punct) if punct.as_char() == '<' && elapsed.is_some() => {
                let is_limit = tokens.by_ref().take(2).any(|token| token.to_string() == HANG_LIMIT);
                return elapsed.filter(|_| !is_limit);
            }
            TokenTree::Punct(punct) if punct.as_char() == '>' => is_greater = true,
            // The next comparison begins.
            TokenTree::Punct(punct) if matches!(punct.as_char(), '&' | '|') => {
                (elapsed, is_greater, is_limit) = (None, false, false);
            }
            // The condition is over.
            TokenTree::Punct(punct) if punct.as_char() == ',' => return None,
            TokenTree::Group(group) if group.delimiter() != Delimiter::Brace => {
                if let Some(line) = upper_bound(group.stream(), is_time) {
                    return Some(line);
                }
            }
            _ => {}
        }
    }
    None
}

/// Finds an elapsed time in an expression whose value is a time as well, so not in a comparison.
struct TimeFinder<'a> {
    times: &'a BTreeSet<String>,
    is_found: bool,
}

impl<'ast> Visit<'ast> for TimeFinder<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.is_found |= call.method == ELAPSED;
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.is_found |= path.path.get_ident().is_some_and(|name| self.times.contains(&name.to_string()));
    }

    fn visit_expr_binary(&mut self, item: &'ast syn::ExprBinary) {
        use syn::BinOp::{Eq, Ge, Gt, Le, Lt, Ne};
        if !matches!(item.op, Eq(_) | Ge(_) | Gt(_) | Le(_) | Lt(_) | Ne(_)) {
            visit::visit_expr_binary(self, item);
        }
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}
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

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let outer = self.times.clone();
        visit::visit_block(self, block);
        self.times = outer;
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        let pattern = match &local.pat {
            syn::Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        if let (syn::Pat::Ident(name), Some(value)) = (pattern, &local.init) {
            let mut finder = TimeFinder { times: &self.times, is_found: false };
            finder.visit_expr(&value.expr);
            let (name, is_time) = (name.ident.to_string(), finder.is_found);
            if is_time {
                self.times.insert(name);
            } else {
                self.times.remove(&name);
            }
        }
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
        let is_time = |word: &str| word == ELAPSED || self.times.contains(word);
        let bound = upper_bound(item.tokens.clone(), &is_time);
        if let Some(line) = bound.filter(|_| is_assertion && self.in_tests) {
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
    fn a_bound_is_named_in_either_order_and_by_way_of_a_variable() {
        for body in [
            "assert!(LIMIT > begun.elapsed());",
            "assert!(x > 0 && LIMIT >= begun.elapsed());",
            "let took = begun.elapsed(); assert!(took.as_secs() < 5, \"{took:?}\");",
            "let took = begun.elapsed(); let each: Duration = took / rounds; assert!(each < LIMIT);",
            "let took = f(a.elapsed()); { let took = 1; } assert!(took < LIMIT);",
        ] {
            assert_eq!(complaints(&format!("fn t() {{ {body} }}\n")).len(), 1, "{body}");
        }
        for body in [
            "let took = begun.elapsed(); assert!(took >= WAIT && x < y);",
            "let took = begun.elapsed(); let took = 3; assert!(took < LIMIT);",
            "let is_late = begun.elapsed() > WAIT; assert!(is_late < x);",
            "let took = begun.elapsed(); println!(\"{}\", took < LIMIT);",
            "let took = begun.elapsed(); assert!(took < TIMEOUT && TIMEOUT > took);",
        ] {
            assert_eq!(complaints(&format!("fn t() {{ {body} }}\n")), Vec::<String>::new(), "{body}");
        }
        let two = "fn a() { let took = x.elapsed(); }\nfn b(took: u64) { assert!(took < 3); }\n";
        assert_eq!(complaints(two), Vec::<String>::new());
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
