//! Checks manifests: versions are only in the workspace; every member takes its lints; no dependency is unused; some
//! dependencies are reserved (anyhow is for the command line, libraries carry kinds).

use toml::Table;

use super::tree::Tree;
use super::workspace::Package;
use super::{Complaint, FLOORS};

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints: Vec<_> = tree.packages.iter().flat_map(|package| reserved(tree, package)).collect();
    complaints.extend(tree.packages.iter().filter(|p| p.member).flat_map(|package| inherits(tree, package)));
    complaints.extend(unused(tree));
    complaints
}

fn reserved(tree: &Tree, package: &Package) -> Vec<Complaint> {
    let forbidden =
        |name: &str| tree.floors.reserved.get(name).is_some_and(|for_whom| !for_whom.contains(&package.name));
    let imports = package.imports.iter().filter(|import| forbidden(&import.name));
    let complain = |name: &str| {
        let line = tree.line_with(&package.manifest, name);
        let what = format!("{} imports {name}, which {FLOORS} reserves for others", package.name);
        Complaint::new(&package.manifest, line, what, "use the error type or the seam of a lower floor")
    };
    imports.map(|import| complain(&import.name)).collect()
}

/// A member must write `name.workspace = true` for every dependency, and for its lints.
fn inherits(tree: &Tree, package: &Package) -> Vec<Complaint> {
    let Some((file, manifest)) =
        tree.file(&package.manifest).and_then(|file| Some((file, parse(&file.text)?)))
    else {
        return Vec::new();
    };
    let mut complaints = Vec::new();
    let from_workspace = |entry: Option<&toml::Value>| {
        entry.and_then(|entry| entry.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    if !from_workspace(manifest.get("lints")) {
        complaints.push(Complaint::new(
            &file.path,
            1,
            "it has its own lints",
            "write [lints] workspace = true",
        ));
    }
    for (name, entry) in SECTIONS.iter().filter_map(|s| manifest.get(*s)?.as_table()).flatten() {
        if !from_workspace(Some(entry)) {
            let what = format!("the version of {name} stands here");
            let advice = "move it to [workspace.dependencies] in the root Cargo.toml and inherit it";
            complaints.push(Complaint::new(&file.path, file.line_with(name), what, advice));
        }
    }
    complaints
}

fn unused(tree: &Tree) -> Vec<Complaint> {
    let Some(root) = tree.file("Cargo.toml") else { return Vec::new() };
    let used =
        |name: &str| tree.packages.iter().any(|p| p.member && p.imports.iter().any(|i| i.name == name));
    shared(&root.text)
        .into_iter()
        .filter(|(name, _)| !used(name))
        .map(|(name, _)| {
            let line = root.line_with(&format!("{name} ="));
            Complaint::new("Cargo.toml", line, format!("no member uses {name}"), "remove it")
        })
        .collect()
}

/// The names in `[workspace.dependencies]`, and whether each is a package of this tree.
pub(super) fn shared(manifest: &str) -> Vec<(String, bool)> {
    let manifest = parse(manifest).unwrap_or_default();
    let shared = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let entries = shared.and_then(toml::Value::as_table).into_iter().flatten();
    entries.map(|(name, entry)| (name.clone(), entry.get("path").is_some())).collect()
}

/// `None` for text that cargo itself would refuse with a better message.
fn parse(text: &str) -> Option<Table> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::Floors;
    use crate::tidy::workspace::{ImportPurpose, package};

    const ROOT: &str =
        "[workspace.dependencies]\nserde = \"1\"\nhost = { path = \"crates/host\" }\nidle = \"2\"\n";

    fn complaints(manifest: &str) -> Vec<String> {
        let mut tree = Tree::from_texts(&[("Cargo.toml", ROOT), ("crates/host/Cargo.toml", manifest)]);
        tree.packages = vec![
            package("host", &[("serde", ImportPurpose::Run), ("anyhow", ImportPurpose::Test)]),
            package("cli", &[("host", ImportPurpose::Run), ("anyhow", ImportPurpose::Run)]),
        ];
        tree.floors = toml::from_str::<Floors>("floors = {}\nreserved = { anyhow = ['cli'] }").unwrap();
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reserved_and_unused_dependencies_are_named() {
        let found = complaints("[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("crates/host/Cargo.toml:1: host imports anyhow, which xtask/floors.toml")
        );
        assert_eq!(found[1], "Cargo.toml:4: no member uses idle, remove it");
    }

    #[test]
    fn a_version_and_lints_of_ones_own_are_named() {
        let found = complaints("[dependencies]\nserde = \"1.0.1\"\n").join("\n");
        assert!(found.contains("crates/host/Cargo.toml:2: the version of serde stands here"), "{found}");
        assert!(found.contains("it has its own lints"), "{found}");
    }
}
