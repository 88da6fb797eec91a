//! Checks that a function fits on a screen: at most 70 lines from `fn` to its closing brace, also in tests.
//!
//! Exceptions are listed in `xtask/ratchet.toml` with their length and can only shrink: no entry may be added or raised against the
//! last committed list. `make refresh` lowers the entry of a function that became shorter, and removes one that is not needed.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Complaint;
use super::rules::Ratchet;
use super::tree::{Tree, TreeFile};

pub(super) const RATCHET: &str = "xtask/ratchet.toml";

const MAX_LINES: usize = 70;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        if let Some(Err(error)) = file.syntax() {
            let what = format!("it does not parse ({error})");
            complaints.push(Complaint::new(&file.path, error.span().start().line, what, "repair it"));
        }
        for function in functions(file).into_iter().filter(|function| function.lines > MAX_LINES) {
            let allowed = tree.ratchet.functions.get(&function.key).copied().unwrap_or(MAX_LINES);
            if function.lines > allowed {
                let what = format!("{} has {} lines of {allowed} at most", function.name, function.lines);
                complaints.push(Complaint::new(
                    &file.path,
                    function.line,
                    what,
                    "split it into steps with names",
                ));
            }
        }
    }
    complaints.extend(slack(tree));
    complaints.extend(tree.ratchet_before.iter().flat_map(|before| growth(tree, before)));
    complaints
}

/// The exceptions that the tree needs, none larger than its entry.
pub(super) fn needed(tree: &Tree) -> BTreeMap<String, usize> {
    let mut needed: BTreeMap<String, usize> = BTreeMap::new();
    for function in tree.rust().flat_map(functions).filter(|function| function.lines > MAX_LINES) {
        if let Some(&allowed) = tree.ratchet.functions.get(&function.key) {
            let longest = needed.entry(function.key).or_default();
            *longest = function.lines.max(*longest).min(allowed);
        }
    }
    needed
}

/// Entries that allow more than the present length.
fn slack(tree: &Tree) -> Vec<Complaint> {
    if tree.ratchet.functions.is_empty() {
        return Vec::new();
    }
    let needed = needed(tree);
    let stale = |key: &str, what: String| Some(Complaint::stale(RATCHET, tree.line_with(RATCHET, key), what));
    let entries = tree.ratchet.functions.iter();
    let stale = entries.filter_map(|(key, &allowed)| match needed.get(key) {
        None => stale(key, format!("{key} needs no exception")),
        Some(&lines) if lines < allowed => stale(key, format!("{key} has only {lines} lines of {allowed}")),
        Some(_) => None,
    });
    stale.collect()
}

/// Entries that are new, or allowed less before.
fn growth(tree: &Tree, before: &Ratchet) -> Vec<Complaint> {
    let grown = |key: &str, lines: usize| before.functions.get(key).is_none_or(|was| lines > *was);
    let entries = tree.ratchet.functions.iter().filter(|(key, lines)| grown(key, **lines));
    let complain = |key: &str| {
        let what = format!("the exception for {key} is new or larger");
        Complaint::new(
            RATCHET,
            tree.line_with(RATCHET, key),
            what,
            "shorten the function: this list only shrinks",
        )
    };
    entries.map(|(key, _)| complain(key)).collect()
}

struct Function {
    /// `path::Type::name`, as the ratchet writes it.
    key: String,
    name: String,
    line: usize,
    lines: usize,
}

fn functions(file: &TreeFile) -> Vec<Function> {
    let mut finder = Finder { path: &file.path, owner: None, found: Vec::new() };
    if let Some(syntax) = file.parsed() {
        finder.visit_file(syntax);
    }
    finder.found
}

struct Finder<'a> {
    path: &'a str,
    owner: Option<String>,
    found: Vec<Function>,
}

impl Finder<'_> {
    fn note(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = match &self.owner {
            Some(owner) => format!("{owner}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        let line = signature.span().start().line;
        let lines = block.span().end().line + 1 - line;
        self.found.push(Function { key: format!("{}::{name}", self.path), name, line, lines });
    }

    fn owned(&mut self, owner: Option<String>, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = outer;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.owned(owner, |finder| visit::visit_item_impl(finder, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.owned(Some(item.ident.to_string()), |finder| visit::visit_item_trait(finder, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.sig, &item.block);
        self.owned(None, |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.note(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of exactly `lines` lines.
    fn function(name: &str, lines: usize) -> String {
        format!(
            "/// Documentation does not count.\nfn {name}() {{\n{}}}\n",
            "    let _ = 1;\n".repeat(lines - 2)
        )
    }

    fn complaints(text: &str, now: &[(&str, usize)], before: Option<&[(&str, usize)]>) -> Vec<String> {
        let ratchet = |entries: &[(&str, usize)]| Ratchet {
            functions: entries.iter().map(|(key, lines)| ((*key).to_owned(), *lines)).collect(),
            ..Ratchet::default()
        };
        let mut tree = Tree::from_texts(&[("a.rs", text)]);
        tree.ratchet = ratchet(now);
        tree.ratchet_before = before.map(ratchet);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn seventy_lines_fit_and_seventy_one_do_not() {
        assert_eq!(complaints(&function("fits", 70), &[], None), Vec::<String>::new());
        let found = complaints(&function("long", 71), &[], None);
        assert_eq!(found, ["a.rs:2: long has 71 lines of 70 at most, split it into steps with names"]);
    }

    #[test]
    fn methods_are_named_by_their_type() {
        let text = format!("impl<T> Run<T> {{\n{}}}\n", function("long", 80));
        assert!(complaints(&text, &[], None)[0].contains("Run::long has 80 lines"));
        assert_eq!(complaints(&text, &[("a.rs::Run::long", 80)], None), Vec::<String>::new());
    }

    #[test]
    fn the_ratchet_only_shrinks() {
        let text = function("long", 80);
        let lower = complaints(&text, &[("a.rs::long", 90)], None);
        assert!(lower[0].contains("has only 80 lines of 90, make refresh"), "{lower:?}");
        let unneeded = complaints(&text, &[("a.rs::long", 80), ("a.rs::gone", 75)], None);
        assert!(unneeded[0].contains("a.rs::gone needs no exception"), "{unneeded:?}");
        let grown = complaints(&text, &[("a.rs::long", 80)], Some(&[("a.rs::long", 75)]));
        assert!(grown[0].contains("is new or larger"), "{grown:?}");
        let shrunk = complaints(&text, &[("a.rs::long", 80)], Some(&[("a.rs::long", 85), ("a.rs::old", 99)]));
        assert_eq!(shrunk, Vec::<String>::new());
    }

    #[test]
    fn what_does_not_parse_is_named() {
        assert!(complaints("//! Why.\nfn broken( {\n", &[], None)[0].contains("it does not parse"));
    }
}
