//! Finds dead source files, which no `mod`, `include!` or manifest reaches: they are neither compiled nor tested.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::Complaint;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut walk = Walk { tree, reached: BTreeSet::new() };
    for root in tree.packages.iter().flat_map(|package| &package.roots) {
        walk.file(root, Folder::OwnParent);
    }
    let dead = tree.rust().filter(|file| !walk.reached.contains(&file.path));
    let advice = "declare it with mod where it belongs, or delete it";
    dead.map(|file| Complaint::new(&file.path, 1, "nothing reaches this file", advice)).collect()
}

/// The place of a file's own modules (Rust reference, "Module source filenames").
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folder {
    /// In its own folder: crate roots, `mod.rs`, and files named by `#[path]`.
    OwnParent,
    /// In the folder of its name.
    OwnName,
}

struct Walk<'a> {
    tree: &'a Tree,
    reached: BTreeSet<String>,
}

impl Walk<'_> {
    fn file(&mut self, path: &str, folder: Folder) {
        let Some(file) = self.tree.file(path) else { return };
        if !self.reached.insert(path.to_owned()) {
            return;
        }
        let Some(syntax) = file.parsed() else { return };
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        let modules = match folder {
            Folder::OwnParent => parent.clone(),
            Folder::OwnName => path.trim_end_matches(".rs").to_owned(),
        };
        let mut finder = Finder { parent, modules, inline: Vec::new(), found: Vec::new() };
        finder.visit_file(syntax);
        for (path, folder) in finder.found {
            self.file(&path, folder);
        }
    }
}

/// Collects the files that one file names; missing ones are simply not in the tree.
struct Finder {
    parent: String,
    modules: String,
    inline: Vec<String>,
    found: Vec<(String, Folder)>,
}

impl Finder {
    fn module(&mut self, item: &syn::ItemMod) {
        let folder = [std::slice::from_ref(&self.modules), &self.inline].concat().join("/");
        if let Some(path) = item.attrs.iter().find_map(path_attribute) {
            let base = if self.inline.is_empty() { &self.parent } else { &folder };
            self.found.push((normal(&format!("{base}/{path}")), Folder::OwnParent));
            return;
        }
        let name = item.ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name);
        self.found.push((normal(&format!("{folder}/{name}.rs")), Folder::OwnName));
        self.found.push((normal(&format!("{folder}/{name}/mod.rs")), Folder::OwnParent));
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() {
            self.module(item);
            return;
        }
        self.inline.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inline.pop();
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if item.path.is_ident("include")
            && let Ok(path) = item.parse_body::<syn::LitStr>()
        {
            self.found.push((normal(&format!("{}/{}", self.parent, path.value())), Folder::OwnParent));
        }
        visit::visit_macro(self, item);
    }
}

/// The value of `#[path = "..."]`.
pub(super) fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let pair = attribute.meta.require_name_value().ok().filter(|pair| pair.path.is_ident("path"))?;
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
        _ => None,
    }
}

/// The path without empty parts, `.` and `..`.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::package;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::from_texts(files);
        tree.packages = vec![package("a", &[])];
        check(&tree).into_iter().map(|complaint| complaint.path).collect()
    }

    #[test]
    fn every_way_to_reach_a_file_counts() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod one;\nmod two;\nmod inner { mod three; }\n#[path = \"../odd/x.rs\"] mod four;",
            ),
            ("crates/a/src/one.rs", "mod deep;"),
            ("crates/a/src/one/deep.rs", "include!(\"rows.rs\");"),
            ("crates/a/src/one/rows.rs", ""),
            ("crates/a/src/two/mod.rs", "#[cfg(test)] mod tests;"),
            ("crates/a/src/two/tests.rs", ""),
            ("crates/a/src/inner/three.rs", ""),
            ("crates/a/odd/x.rs", "mod y;"),
            ("crates/a/odd/y.rs", ""),
        ];
        assert_eq!(dead(&files), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_nothing_names_is_dead_and_so_is_what_it_names() {
        let files = [
            ("crates/a/src/lib.rs", "mod one;"),
            ("crates/a/src/one.rs", ""),
            ("crates/a/src/old.rs", "mod older;"),
            ("crates/a/src/old/older.rs", ""),
            ("crates/a/src/deep.rs", ""),
        ];
        assert_eq!(
            dead(&files),
            ["crates/a/src/old.rs", "crates/a/src/old/older.rs", "crates/a/src/deep.rs"]
        );
    }
}
