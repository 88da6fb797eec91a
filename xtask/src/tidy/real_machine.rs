//! Checks that `make test` uses a real disk, network, guest or browser only in the files of `[real_machine_tests]` in
//! `xtask/floors.toml`, each listed with the reason why its outcome does not depend on the machine's speed.
//!
//! Modules named `timed` or `proof` may use any fixture, as `make proof` runs them; so may the test kit. A fixture is identified by the
//! beginning of a path, in code and in macros. A name that the file defines, or imports from a crate other than the kit, is not a
//! fixture. A `use` alone does not count unless it renames or exports a fixture, which would hide later uses.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::UseTree;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::empty_tests::{is_cfg_test, is_test_file};
use super::timed_tests::{check_entries, is_kit, is_of_proof, is_outside_make_test};
use super::tree::{Tree, TreeFile};
use super::{Complaint, FLOORS};

/// The fixtures whose speed, or that of the machine behind them, could decide the outcome of a test. Those that judge how disturbed the
/// machine was are among them. A file system in memory and a mount in user space have no speed that a test could see.
const FIXTURES: [&str; 11] = [
    "Browser",
    "DelayProxy",
    "Guest",
    "LimitGroup",
    "Manner::Stalls",
    "Network",
    "RealDisk",
    "SlowDisk",
    "need_loop_devices",
    "undisturbed",
    "with_disturbance",
];
const KIT: &str = "fathom_testkit";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut users = BTreeSet::new();
    for file in tree.rust().filter(|file| !is_outside_make_test(file) && !is_kit(file)) {
        let uses = uses_of(file);
        if !uses.is_empty() {
            users.insert(file.path.as_str());
        }
        if !tree.floors.real_machine_tests.contains_key(&file.path) {
            complaints.extend(uses.into_iter().map(|(fixture, line)| complaint(file, fixture, line)));
        }
    }
    let is_user = |path: &str| users.contains(path);
    let fault = "does not exist or uses no fixture of a real machine";
    complaints.extend(check_entries(tree, &tree.floors.real_machine_tests, is_user, fault));
    complaints
}

fn complaint(file: &TreeFile, fixture: &str, line: usize) -> Complaint {
    let advice = format!(
        "move it to a module named timed, or list the file in {FLOORS} with the reason why its outcome does not depend on the machine's speed"
    );
    Complaint::new(&file.path, line, format!("a test uses {fixture}"), advice)
}

/// The fixtures that the tests of a file use, each with the line of its first use.
fn uses_of(file: &TreeFile) -> Vec<(&'static str, usize)> {
    let Some(syntax) = file.parsed() else { return Vec::new() };
    let mut names = Names::default();
    names.visit_file(syntax);
    let foreign = &names.foreign - &names.of_kit;
    let mut finder = Finder { in_tests: is_test_file(file), foreign, uses: Vec::new() };
    finder.visit_file(syntax);
    finder.uses
}

/// The names that a file defines or imports.
#[derive(Default)]
struct Names {
    of_kit: BTreeSet<String>,
    foreign: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.foreign.insert(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.foreign.insert(item.ident.to_string());
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        visit_leaves(&item.tree, None, &mut |root, leaf| {
            let names = if may_be_kit(root) { &mut self.of_kit } else { &mut self.foreign };
            match leaf {
                UseTree::Name(name) => names.insert(name.ident.to_string()),
                UseTree::Rename(name) => names.insert(name.rename.to_string()),
                UseTree::Path(_) | UseTree::Glob(_) | UseTree::Group(_) => false,
            };
        });
    }
}

/// Calls `see` for each name that a `use` imports, with the first name of its path.
fn visit_leaves(
    tree: &UseTree,
    root: Option<&syn::Ident>,
    see: &mut dyn FnMut(Option<&syn::Ident>, &UseTree),
) {
    match tree {
        UseTree::Path(path) => visit_leaves(&path.tree, root.or(Some(&path.ident)), see),
        UseTree::Group(group) => group.items.iter().for_each(|one| visit_leaves(one, root, see)),
        UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => see(root, tree),
    }
}

/// Returns whether a path with this first name may lead to the kit: a parent module may have imported it.
fn may_be_kit(root: Option<&syn::Ident>) -> bool {
    root.is_some_and(|root| root == KIT || root == "super")
}

struct Finder {
    in_tests: bool,
    /// Names that are not those of fixtures in this file.
    foreign: BTreeSet<String>,
    uses: Vec<(&'static str, usize)>,
}

impl Finder {
    fn add(&mut self, fixture: &'static str, line: usize) {
        if self.in_tests && self.uses.iter().all(|(one, _)| *one != fixture) {
            self.uses.push((fixture, line));
        }
    }

    /// Adds the fixture that a path names, if it names one.
    fn read_path(&mut self, path: &[&proc_macro2::Ident]) {
        let (is_kit, rest) = match path {
            [first, rest @ ..] if *first == KIT => (true, rest),
            _ => (false, path),
        };
        let mut rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
        rest.drain(..rest.iter().take_while(|name| *name == "super" || *name == "self").count());
        let Some(first) = rest.first() else { return };
        if !is_kit && self.foreign.contains(first) {
            return;
        }
        let begins = |fixture: &&&str| {
            let names: Vec<&str> = fixture.split("::").collect();
            rest.iter().map(String::as_str).take(names.len()).eq(names)
        };
        if let (Some(fixture), [.., last]) = (FIXTURES.iter().find(begins), path) {
            self.add(fixture, last.span().start().line);
        }
    }

    /// Reads the tokens of a macro, in which a path is names with `::` between them.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut path = Vec::new();
        let mut colons = 0;
        for token in &tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.read_path(&path);
                        path.clear();
                    }
                    path.push(word);
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.read_path(&path);
                    (path, colons) = (Vec::new(), 0);
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.read_path(&path);
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_of_proof(item) {
            return;
        }
        let outer = self.in_tests;
        self.in_tests |= is_cfg_test(item);
        visit::visit_item_mod(self, item);
        self.in_tests = outer;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_exported = !matches!(item.vis, syn::Visibility::Inherited);
        visit_leaves(&item.tree, None, &mut |root, leaf| {
            let name = match leaf {
                UseTree::Name(name) if is_exported => &name.ident,
                UseTree::Rename(name) => &name.ident,
                _ => return,
            };
            if let Some(fixture) = FIXTURES.iter().find(|fixture| may_be_kit(root) && name == **fixture) {
                self.add(fixture, leaf.span().start().line);
            }
        });
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.read_path(&path.segments.iter().map(|segment| &segment.ident).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        visit::visit_macro(self, item);
        self.read_tokens(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        check(&Tree::from_texts(&[("tests/a.rs", text)])).iter().map(ToString::to_string).collect()
    }

    /// The complaints about a listed file that uses a disk, and one that does so in `timed` alone, with one more entry in the list.
    fn listed(path: &str, reason: &str) -> Vec<String> {
        let text = "fn t() { RealDisk::new(size); }\n";
        let idle =
            "use fathom_testkit::RealDisk;\nfn t() {}\nmod timed { fn t() { RealDisk::new(size); } }\n";
        let mut tree = Tree::from_texts(&[("tests/a.rs", text), ("tests/idle.rs", idle)]);
        for (path, reason) in [("tests/a.rs", "sizes alone are compared"), (path, reason)] {
            tree.floors.real_machine_tests.insert(path.to_owned(), reason.to_owned());
        }
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_use_is_named_with_its_line_and_the_way_out() {
        let found = complaints("#[test]\nfn t() {\n    let disk = RealDisk::new(size);\n    f(&disk);\n}\n");
        assert_eq!(
            found,
            [
                "tests/a.rs:3: a test uses RealDisk, move it to a module named timed, or list the file in xtask/floors.toml with the reason why its outcome does not depend on the machine's speed"
            ]
        );
    }

    #[test]
    fn every_fixture_is_named_in_calls_types_and_macros() {
        for fixture in FIXTURES {
            for code in [
                format!("fn t() {{ {fixture}(x); }}\n"),
                format!("fn t() {{ fathom_testkit::{fixture}::new(); }}\n"),
                format!("fn t(x: &[{fixture}]) {{}}\n"),
                format!("struct Rig {{ x: Option<{fixture}> }}\n"),
                format!("fn t() {{ assert!(a, \"{{}}\", f({fixture}::is_here())); }}\n"),
                format!("fn t() {{ assert!(x == fathom_testkit::{fixture}); }}\n"),
                format!("mod inner {{ use super::*; fn t() {{ super::{fixture}(); }} }}\n"),
            ] {
                assert_eq!(complaints(&code).len(), 1, "{code}");
            }
        }
    }

    #[test]
    fn an_import_counts_only_if_it_hides_later_uses() {
        let plain = "use fathom_testkit::{Bytes, Network, RealDisk};\n/// On a RealDisk.\nfn t() { f(\"RealDisk\"); }\n";
        assert_eq!(complaints(plain), Vec::<String>::new());
        for hiding in
            ["use fathom_testkit::RealDisk as Disk;\n", "pub(crate) use fathom_testkit::{Bytes, Guest};\n"]
        {
            assert_eq!(complaints(hiding).len(), 1, "{hiding}");
        }
    }

    #[test]
    fn another_thing_of_the_same_name_is_left_alone() {
        for text in [
            "fn t() { assert_eq!(error.kind(), Kind::Network); f(Need::Network, Manner::Silent); }\n",
            "struct Network { loss: u8 }\nfn t() { Network { loss: 1 }; }\n",
            "use crate::world::{Network, World};\nfn t() { vec![Network::GOOD]; }\n",
        ] {
            assert_eq!(complaints(text), Vec::<String>::new(), "{text}");
        }
        let both = "use crate::world::Network;\nfn t() { Network::GOOD; fathom_testkit::Network::new(2); }\n";
        assert_eq!(complaints(both).len(), 1);
    }

    #[test]
    fn a_listed_file_passes_and_an_entry_out_of_date_is_named() {
        assert_eq!(listed("tests/a.rs", "no rate is asserted"), Vec::<String>::new());
        let fault = "does not exist or uses no fixture of a real machine, remove it";
        for path in ["tests/b.rs", "tests/idle.rs"] {
            assert_eq!(listed(path, "no rate is asserted"), [format!("xtask/floors.toml:1: {path} {fault}")]);
        }
        assert_eq!(listed("tests/a.rs", " "), ["xtask/floors.toml:1: tests/a.rs gives no reason, say why"]);
    }

    #[test]
    fn the_product_the_kit_and_the_tests_of_make_proof_are_left_alone() {
        let text = "fn t() { SlowDisk::new(size); }\n";
        let within = format!("mod timed {{ {text} }}\nmod proof {{ {text} }}\n");
        let files = [
            ("tests/a.rs", within.as_str()),
            ("tests/proof/b.rs", text),
            ("tests/verdicts/rig.rs", text),
            ("bench/src/c.rs", text),
            ("testkit/src/slow_disk.rs", text),
            ("crates/a/src/d.rs", text),
        ];
        assert_eq!(check(&Tree::from_texts(&files)), []);
        let unit = format!("#[cfg(test)]\nmod tests {{ {text} }}\n");
        assert_eq!(check(&Tree::from_texts(&[("crates/a/src/d.rs", unit.as_str())])).len(), 1);
    }
}
