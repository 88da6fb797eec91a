//! The modules of a package as a graph of uses: an edge links a file to one whose items it uses.
//!
//! A path is followed to the file that defines its item, through re-exports, so that a `mod.rs` that only re-exports is not a link of a
//! chain. Code of tests does not count. Uses through types alone (methods, fields) are not seen, but these need the type, which is named.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::tree::Tree;
use super::unreached::normal;

/// The maximum depth of re-exports of re-exports; more must be a circle of them.
const MAX_REEXPORTS: usize = 16;

/// The files of a package that its first file reaches, and the uses between them.
pub(super) struct ModuleGraph {
    /// Paths from the root of the tree.
    pub(super) files: Vec<String>,
    /// From the file that uses to the file that defines, by their places in `files`.
    pub(super) edges: BTreeSet<(usize, usize)>,
    modules: Vec<Module>,
}

/// A module: a file, or a part of one.
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    /// Names that `use` brings in, with their paths.
    aliases: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Paths that the module's code holds.
    paths: Vec<Vec<String>>,
}

/// The target of a path.
enum Target {
    Module(usize),
    /// An item, by the module that defines it.
    Item(usize),
}

impl ModuleGraph {
    /// The graph of the package whose first file this is.
    pub(super) fn read(tree: &Tree, root: &str) -> ModuleGraph {
        let mut graph = ModuleGraph { files: Vec::new(), edges: BTreeSet::new(), modules: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        graph.add_file(tree, root, folder, None);
        for module in 0..graph.modules.len() {
            let file = graph.modules[module].file;
            for path in &graph.modules[module].paths {
                if let Some(Target::Item(defining)) = graph.resolve(module, path, 0) {
                    let used = graph.modules[defining].file;
                    if used != file {
                        graph.edges.insert((file, used));
                    }
                }
            }
        }
        graph
    }

    /// Adds a file whose own modules are in `folder`, and returns its module.
    fn add_file(&mut self, tree: &Tree, path: &str, folder: &str, parent: Option<usize>) -> Option<usize> {
        let syntax = tree.file(path)?.parsed()?;
        let file = self.files.len();
        self.files.push(path.to_owned());
        Some(self.add_module(tree, (file, folder), &syntax.items, parent))
    }

    fn add_module(
        &mut self,
        tree: &Tree,
        (file, folder): (usize, &str),
        items: &[syn::Item],
        parent: Option<usize>,
    ) -> usize {
        let mut found = ModuleItems::default();
        items.iter().for_each(|item| found.visit_item(item));
        let ModuleItems { items, aliases, globs, paths, modules } = found;
        let id = self.modules.len();
        self.modules.push(Module { file, parent, children: BTreeMap::new(), items, aliases, globs, paths });
        for module in modules {
            let name = module.ident.to_string();
            let below = format!("{folder}/{name}");
            let child = match &module.content {
                Some((_, items)) => Some(self.add_module(tree, (file, &below), items, Some(id))),
                None => self.add_named(tree, module, folder, id),
            };
            self.modules[id].children.extend(child.map(|child| (name, child)));
        }
        id
    }

    /// Adds the file of `mod name;`.
    fn add_named(
        &mut self,
        tree: &Tree,
        module: &syn::ItemMod,
        folder: &str,
        parent: usize,
    ) -> Option<usize> {
        let name = module.ident.to_string();
        if let Some(path) = module.attrs.iter().find_map(super::unreached::path_attribute) {
            let path = normal(&format!("{folder}/{path}"));
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            return self.add_file(tree, &path, &folder, Some(parent));
        }
        let below = normal(&format!("{folder}/{name}"));
        self.add_file(tree, &format!("{below}.rs"), &below, Some(parent))
            .or_else(|| self.add_file(tree, &format!("{below}/mod.rs"), &below, Some(parent)))
    }

    /// The target of a path in `module`; `None` if it is outside the package.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(0, rest, depth),
            "self" => self.walk(module, rest, depth),
            "super" => self.walk(self.modules[module].parent?, rest, depth),
            "Self" => None,
            name => self.look_up(module, name, rest, depth),
        }
    }

    fn walk(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        match path.split_first() {
            None => Some(Target::Module(module)),
            Some((first, rest)) if first == "super" => self.walk(self.modules[module].parent?, rest, depth),
            // Items that a macro defines are not seen.
            Some((first, rest)) => self.look_up(module, first, rest, depth).or(Some(Target::Item(module))),
        }
    }

    fn look_up(&self, module: usize, name: &str, rest: &[String], depth: usize) -> Option<Target> {
        let Module { children, items, aliases, globs, .. } = &self.modules[module];
        if let Some(child) = children.get(name) {
            return self.walk(*child, rest, depth);
        }
        if items.contains(name) {
            return Some(Target::Item(module));
        }
        if depth == MAX_REEXPORTS {
            return None;
        }
        if let Some(alias) = aliases.get(name).filter(|alias| alias.first().is_none_or(|first| first != name))
        {
            return self.resolve(module, &[alias, rest].concat(), depth + 1);
        }
        globs.iter().find_map(|glob| match self.resolve(module, glob, depth + 1)? {
            Target::Module(other) if other != module => self.look_up(other, name, rest, depth + 1),
            _ => None,
        })
    }

    /// The top modules of the package, each with the others that its files use.
    pub(super) fn used_modules(&self) -> BTreeMap<String, BTreeSet<String>> {
        // The first file is the package's own.
        let Some(root) = self.files.first() else { return BTreeMap::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let top = |file: usize| {
            let path = self.files[file].strip_prefix(folder).unwrap_or_default().trim_start_matches('/');
            path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()
        };
        let is_below_root = |file: &usize| *file != 0;
        let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in (0..self.files.len()).filter(is_below_root) {
            used.entry(top(file)).or_default();
        }
        for (from, to) in self.edges.iter().filter(|(from, to)| is_below_root(from) && is_below_root(to)) {
            if top(*from) != top(*to) {
                used.entry(top(*from)).or_default().insert(top(*to));
            }
        }
        used
    }

    /// The uses between these files, by their paths.
    pub(super) fn edges_within(&self, group: &[usize]) -> Vec<(String, String)> {
        let within = self.edges.iter().filter(|(from, to)| group.contains(from) && group.contains(to));
        within.map(|(from, to)| (self.files[*from].clone(), self.files[*to].clone())).collect()
    }
}

/// The strongly connected groups of more than one node, each sorted: by a search in both directions (Kosaraju's algorithm; Sharir 1981).
pub(super) fn cycles(count: usize, edges: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let reach =
        |edges: &BTreeMap<usize, Vec<usize>>, from: usize, seen: &mut Vec<bool>, out: &mut Vec<usize>| {
            let mut stack = vec![(from, 0)];
            seen[from] = true;
            while let Some((node, next)) = stack.pop() {
                match edges.get(&node).and_then(|to| to.get(next)) {
                    Some(to) => {
                        stack.push((node, next + 1));
                        if !std::mem::replace(&mut seen[*to], true) {
                            stack.push((*to, 0));
                        }
                    }
                    None => out.push(node),
                }
            }
        };
    let (mut forward, mut backward) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    for (from, to) in edges {
        forward.entry(*from).or_default().push(*to);
        backward.entry(*to).or_default().push(*from);
    }
    let (mut seen, mut order) = (vec![false; count], Vec::new());
    for node in 0..count {
        if !seen[node] {
            reach(&forward, node, &mut seen, &mut order);
        }
    }
    let (mut seen, mut groups) = (vec![false; count], Vec::new());
    for node in order.into_iter().rev() {
        if !seen[node] {
            let mut group = Vec::new();
            reach(&backward, node, &mut seen, &mut group);
            group.sort_unstable();
            groups.extend((group.len() > 1).then_some(group));
        }
    }
    groups.sort();
    groups
}

/// The contents of a module, without child modules.
#[derive(Default)]
struct ModuleItems<'ast> {
    items: BTreeSet<String>,
    aliases: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    paths: Vec<Vec<String>>,
    modules: Vec<&'ast syn::ItemMod>,
}

impl ModuleItems<'_> {
    fn take_use(&mut self, tree: &syn::UseTree, before: &[String], is_reexport: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let mut bring = |name: String, path: Vec<String>| {
            if !is_reexport {
                self.paths.push(path.clone());
            }
            self.aliases.insert(name, path);
        };
        match tree {
            syn::UseTree::Path(path) => self.take_use(&path.tree, &with(&path.ident), is_reexport),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.take_use(tree, before, is_reexport));
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                before.last().cloned().into_iter().for_each(|last| bring(last, before.to_vec()));
            }
            syn::UseTree::Name(name) => bring(name.ident.to_string(), with(&name.ident)),
            syn::UseTree::Rename(rename) if rename.ident == "self" => {
                bring(rename.rename.to_string(), before.to_vec());
            }
            syn::UseTree::Rename(rename) => bring(rename.rename.to_string(), with(&rename.ident)),
            syn::UseTree::Glob(_) => self.globs.push(before.to_vec()),
        }
    }
}

/// Returns whether an item is compiled for tests alone.
fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let of_cfg = attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                let words = list.tokens.to_string();
                words == "test" || words.starts_with("all (test")
            });
        of_cfg || attribute.path().is_ident("test")
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &syn::Item) -> Option<&syn::Ident> {
    match item {
        syn::Item::Const(item) => Some(&item.ident),
        syn::Item::Enum(item) => Some(&item.ident),
        syn::Item::Fn(item) => Some(&item.sig.ident),
        syn::Item::Macro(item) => item.ident.as_ref(),
        syn::Item::Static(item) => Some(&item.ident),
        syn::Item::Struct(item) => Some(&item.ident),
        syn::Item::Trait(item) => Some(&item.ident),
        syn::Item::Type(item) => Some(&item.ident),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for ModuleItems<'ast> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_of_tests(attributes(item)) {
            return;
        }
        self.items.extend(name_of(item).map(ToString::to_string));
        match item {
            syn::Item::Mod(module) => self.modules.push(module),
            syn::Item::Use(item) => {
                let is_reexport = !matches!(item.vis, syn::Visibility::Inherited);
                self.take_use(&item.tree, &[], is_reexport);
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_of_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.visit_path(&invocation.path);
        token_paths(invocation.tokens.clone(), &mut self.paths);
    }
}

/// The paths among the tokens of a macro.
fn token_paths(tokens: proc_macro2::TokenStream, paths: &mut Vec<Vec<String>>) {
    let (mut path, mut colons) = (Vec::new(), 0);
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Ident(ident) => {
                if colons != 2 {
                    paths.push(std::mem::take(&mut path));
                }
                path.push(ident.to_string());
                colons = 0;
            }
            proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                paths.push(std::mem::take(&mut path));
                colons = 0;
                if let proc_macro2::TokenTree::Group(group) = other {
                    token_paths(group.stream(), paths);
                }
            }
        }
    }
    paths.push(path);
}
