//! Checks that a test asserts something: it has no bare early `return`, and an assertion in it or in a function that it calls.
//!
//! Functions are identified by name alone, among those of test code. This finds tests that can pass without any check, but
//! sometimes misses one: another function of the same name may assert elsewhere. A test that cannot run on a machine ends by
//! `skip!` of the test kit, which counts it.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Complaint;
use super::tree::{Tree, TreeFile};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut functions = Vec::new();
    for file in tree.rust() {
        if let Some(syntax) = file.parsed() {
            let mut finder = Finder { path: &file.path, in_tests: is_test_file(file), found: Vec::new() };
            finder.visit_file(syntax);
            functions.extend(finder.found);
        }
    }
    let asserting = asserting(&functions);
    let mut complaints = Vec::new();
    for function in functions.iter().filter(|function| function.is_test) {
        let mut complain = |line: usize, what: &str, advice: &str| {
            complaints.push(Complaint::new(
                &function.path,
                line,
                format!("{} {what}", function.name),
                advice,
            ));
        };
        for line in &function.bare_returns {
            complain(*line, "returns early and passes", "end it with skip! of the test kit, or assert");
        }
        if !function.asserts && function.names.is_disjoint(&asserting) {
            complain(function.line, "asserts nothing", "assert what it is for");
        }
    }
    complaints
}

/// Names of functions and macros that assert, or call one that does.
fn asserting(functions: &[Function]) -> BTreeSet<String> {
    let mut asserting: BTreeSet<String> = BTreeSet::new();
    loop {
        let more =
            functions.iter().filter(|function| !function.is_test && !asserting.contains(&function.name));
        let more: Vec<String> = more
            .filter(|function| function.asserts || !function.names.is_disjoint(&asserting))
            .map(|function| function.name.clone())
            .collect();
        if more.is_empty() {
            return asserting;
        }
        asserting.extend(more);
    }
}

/// Returns whether the whole file is test code.
pub(super) fn is_test_file(file: &TreeFile) -> bool {
    let path = &file.path;
    path.starts_with("tests/")
        || path.starts_with("testkit/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Returns whether a module is compiled for tests alone.
pub(super) fn is_cfg_test(item: &syn::ItemMod) -> bool {
    let names_test = |one: &syn::Attribute| {
        one.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("test"))
    };
    item.attrs.iter().any(|one| one.path().is_ident("cfg") && names_test(one))
}

/// A function of test code, or a macro of it.
struct Function {
    path: String,
    name: String,
    line: usize,
    is_test: bool,
    asserts: bool,
    /// The names that it calls or mentions.
    names: BTreeSet<String>,
    bare_returns: Vec<usize>,
}

struct Finder<'a> {
    path: &'a str,
    in_tests: bool,
    found: Vec<Function>,
}

impl Finder<'_> {
    fn add(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute], block: &syn::Block) {
        let has = |name: &str| {
            attributes.iter().any(|one| one.path().segments.last().is_some_and(|last| last.ident == name))
        };
        let is_test = has("test");
        if !(self.in_tests || is_test) {
            return;
        }
        let mut body = Body::default();
        body.visit_block(block);
        self.found.push(Function {
            path: self.path.to_owned(),
            name: signature.ident.to_string(),
            line: signature.span().start().line,
            is_test,
            asserts: body.asserts || has("should_panic"),
            names: body.names,
            bare_returns: body.bare_returns,
        });
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outer = self.in_tests;
        self.in_tests |= is_cfg_test(item);
        visit::visit_item_mod(self, item);
        self.in_tests = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.attrs, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.attrs, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let Some(name) = item.ident.as_ref().filter(|_| self.in_tests) {
            let mut body = Body::default();
            body.read_tokens(item.mac.tokens.clone());
            self.found.push(Function {
                path: self.path.to_owned(),
                name: name.to_string(),
                line: item.span().start().line,
                is_test: false,
                asserts: body.asserts,
                names: body.names,
                bare_returns: Vec::new(),
            });
        }
    }
}

/// The contents of a function's body.
#[derive(Default)]
struct Body {
    asserts: bool,
    names: BTreeSet<String>,
    bare_returns: Vec<usize>,
    /// The number of closures and inner functions around the visited place.
    depth: usize,
}

impl Body {
    fn add_name(&mut self, name: &str) {
        self.asserts |= is_assertion(name);
        self.names.insert(name.to_owned());
    }

    /// Reads the tokens of a macro, in which calls and assertions look as elsewhere.
    fn read_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) => self.add_name(&word.to_string()),
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn deeper(&mut self, visit: impl FnOnce(&mut Self)) {
        self.depth += 1;
        visit(self);
        self.depth -= 1;
    }
}

/// Returns whether a macro or method of this name fails a test.
fn is_assertion(name: &str) -> bool {
    const WORDS: [&str; 4] = ["panic", "unreachable", "unwrap_err", "expect_err"];
    name.starts_with("assert") || name.starts_with("prop_assert") || WORDS.contains(&name)
}

impl<'ast> Visit<'ast> for Body {
    fn visit_expr_return(&mut self, item: &'ast syn::ExprReturn) {
        let is_bare = item.expr.as_deref().is_none_or(|value| matches!(value, syn::Expr::Macro(_)));
        if is_bare && self.depth == 0 {
            self.bare_returns.push(item.span().start().line);
        }
        visit::visit_expr_return(self, item);
    }

    fn visit_expr_closure(&mut self, item: &'ast syn::ExprClosure) {
        self.deeper(|body| visit::visit_expr_closure(body, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.deeper(|body| visit::visit_item_fn(body, item));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(last) = path.segments.last() {
            self.add_name(&last.ident.to_string());
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.add_name(&call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if let Some(last) = item.path.segments.last() {
            self.add_name(&last.ident.to_string());
        }
        self.read_tokens(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        check(&Tree::from_texts(&[("tests/a.rs", text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_test_that_returns_early_is_named_with_its_line() {
        let found =
            complaints("#[test]\nfn t() {\n    let Some(x) = y() else { return };\n    assert!(x);\n}\n");
        assert_eq!(
            found,
            ["tests/a.rs:3: t returns early and passes, end it with skip! of the test kit, or assert"]
        );
        let printed =
            complaints("#[test]\nfn t() {\n    if x { return eprintln!(\"no\"); }\n    assert!(x);\n}\n");
        assert_eq!(printed.len(), 1, "{printed:?}");
    }

    #[test]
    fn a_closure_and_a_helper_may_return_early() {
        let text =
            "fn help() { if x { return; } }\n#[test]\nfn t() { run(|| { if x { return; } }); assert!(y); }\n";
        assert_eq!(complaints(text), Vec::<String>::new());
    }

    #[test]
    fn an_assertion_counts_in_a_called_function_a_method_and_a_macro() {
        let called = "fn deep() { panic!() }\nfn near() { deep() }\n#[test]\nfn t() { near(); }\n";
        let method = "impl A { fn refuses(&self) { assert!(true) } }\n#[test]\nfn t() { a().refuses(); }\n";
        let passed =
            "fn near(x: u8) { assert_eq!(x, 1) }\n#[test]\nfn t() { [1].into_iter().for_each(near); }\n";
        let by_macro = "macro_rules! same { () => { assert!(true) } }\n#[test]\nfn t() { same!(); }\n";
        for text in [called, method, passed, by_macro] {
            assert_eq!(complaints(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_test_without_an_assertion_is_named() {
        let found = complaints("fn help() {}\n#[test]\nfn t() { help(); }\n");
        assert_eq!(found, ["tests/a.rs:3: t asserts nothing, assert what it is for"]);
    }
}
