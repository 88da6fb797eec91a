//! The tree as the checks see it: its files, its packages, and the rules in files.
//!
//! Read once, so that a check is a pure function and its tests need no disk. Files are those that git tracks or would
//! track; ignored files do not matter.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::modules::ModuleGraph;
use super::rules::{Floors, Ratchet};
use super::workspace::{self, Package};

/// Larger files are complained about, and never read.
pub(crate) const MAX_FILE_SIZE: u64 = 1 << 20;

/// One file of the tree.
pub(crate) struct TreeFile {
    /// From the root, with `/` between folders.
    pub(crate) path: String,
    pub(crate) size: u64,
    /// The text; empty for other files.
    pub(crate) text: String,
    syntax: OnceCell<syn::Result<syn::File>>,
}

impl TreeFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let size = text.len() as u64;
        TreeFile { path: path.to_owned(), size, text: text.to_owned(), syntax: OnceCell::new() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Lines with their number, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The text of the lines of Rust that are comments, with their number.
    pub(crate) fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().filter(|_| self.is_rust()).filter_map(|(number, line)| {
            let text = line.trim_start().strip_prefix("//")?;
            Some((number, text.strip_prefix(['/', '!']).unwrap_or(text).trim()))
        })
    }

    /// The number of the first line that holds `needle`, else 1.
    pub(crate) fn line_with(&self, needle: &str) -> usize {
        self.lines().find(|(_, line)| line.contains(needle)).map_or(1, |(number, _)| number)
    }

    /// The parsed file, if it is Rust.
    pub(crate) fn syntax(&self) -> Option<&syn::Result<syn::File>> {
        self.is_rust().then(|| self.syntax.get_or_init(|| syn::parse_file(&self.text)))
    }

    /// The parsed file, if it is valid Rust; the function length check reports files that do not.
    pub(crate) fn parsed(&self) -> Option<&syn::File> {
        self.syntax()?.as_ref().ok()
    }
}

/// All the data that the checks use.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<TreeFile>,
    pub(crate) packages: Vec<Package>,
    pub(super) floors: Floors,
    pub(super) ratchet: Ratchet,
    /// The ratchet as it was before its last change, where git remembers.
    pub(super) ratchet_before: Option<Ratchet>,
    /// The day of the last commit, as `2026-11-28`.
    pub(super) commit_day: String,
    pub(super) graphs: OnceCell<BTreeMap<String, ModuleGraph>>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in list(root)? {
            let full = root.join(&path);
            // Deleted tracked files and links are skipped.
            let Ok(facts) = fs::symlink_metadata(&full) else { continue };
            if !facts.is_file() {
                continue;
            }
            let bytes = if facts.len() > MAX_FILE_SIZE {
                Vec::new()
            } else {
                fs::read(&full).context(path.clone())?
            };
            let mut file = TreeFile::new(&path, &String::from_utf8(bytes).unwrap_or_default());
            file.size = facts.len();
            files.push(file);
        }
        let mut tree = Tree { files, ..Tree::default() };
        tree.packages = workspace::read(root)?;
        tree.floors = tree.rules(super::FLOORS)?;
        tree.ratchet = tree.rules(super::function_length::RATCHET)?;
        tree.commit_day = git(root, &["log", "-1", "--format=%cs"])?.trim().to_owned();
        tree.ratchet_before = ratchet_before(root, &tree.ratchet);
        Ok(tree)
    }

    /// A tree of these files and nothing else, for the tests of checks.
    #[cfg(test)]
    pub(crate) fn from_texts(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| TreeFile::new(path, text)).collect();
        Tree { files, ..Tree::default() }
    }

    /// The modules of a package of the product.
    pub(super) fn graph(&self, package: &str) -> Option<&ModuleGraph> {
        let graphs = self.graphs.get_or_init(|| {
            let of_product =
                self.packages.iter().filter(|package| self.floors.floors.contains_key(&package.name));
            let graph = |package: &Package| {
                Some((package.name.clone(), ModuleGraph::read(self, package.main_root()?)))
            };
            of_product.filter_map(graph).collect()
        });
        graphs.get(package)
    }

    pub(crate) fn file(&self, path: &str) -> Option<&TreeFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &TreeFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    pub(crate) fn markdown(&self) -> impl Iterator<Item = &TreeFile> {
        self.files.iter().filter(|file| file.is_markdown())
    }

    /// The line of `path` that holds `needle`; 1 if the file does not exist.
    pub(crate) fn line_with(&self, path: &str, needle: &str) -> usize {
        self.file(path).map_or(1, |file| file.line_with(needle))
    }

    fn rules<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T> {
        let file = self.file(path).with_context(|| format!("{path} is missing"))?;
        toml::from_str(&file.text).with_context(|| format!("cannot understand {path}"))
    }
}

/// Tracked files and new ones that are not ignored.
fn list(root: &Path) -> Result<BTreeSet<String>> {
    let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// The newest committed ratchet that differs from the present one: the last commit's for an edit not yet committed, and
/// the one before the last change for CI. `None` in a shallow clone or for the first version.
fn ratchet_before(root: &Path, now: &Ratchet) -> Option<Ratchet> {
    let path = super::function_length::RATCHET;
    let commits = git(root, &["log", "-2", "--format=%H", "--", path]).ok()?;
    commits
        .lines()
        .filter_map(|commit| git(root, &["show", &format!("{commit}:{path}")]).ok())
        .filter_map(|text| toml::from_str::<Ratchet>(&text).ok())
        .find(|before| before != now)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("git").arg("-C").arg(root).args(arguments).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_we_stand_in_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.file("xtask/src/tidy/tree.rs").is_some_and(|file| file.parsed().is_some()));
        assert!(tree.packages.iter().any(|package| package.name == "xtask"));
        assert!(tree.floors.floors.contains_key("fathom"));
    }

    #[test]
    fn lines_are_counted_from_one() {
        let file = TreeFile::new("a.md", "one\ntwo\n");
        assert_eq!(file.line_with("two"), 2);
        assert_eq!(file.line_with("three"), 1);
        assert_eq!(file.lines().count(), 2);
    }
}
