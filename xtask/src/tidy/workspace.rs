//! The packages of the tree and their imports, as cargo sees them.
//!
//! The fuzz package is a separate workspace (cargo-fuzz builds it with other flags), so it is read separately.

use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// The purpose of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportPurpose {
    /// To build or run the package.
    Run,
    /// Only for its tests.
    Test,
}

/// One dependency that a manifest declares.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub(crate) name: String,
    pub(crate) need: ImportPurpose,
}

/// One package of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its `Cargo.toml`, from the root of the tree.
    pub(crate) manifest: String,
    /// The first file of each library, program, test and build script, from the root of the tree.
    pub(crate) roots: Vec<String>,
    pub(crate) imports: Vec<Import>,
    /// True if it is a member of the main workspace.
    pub(crate) member: bool,
}

impl Package {
    /// The first file of its library, or of its program.
    pub(crate) fn main_root(&self) -> Option<&str> {
        let is_main = |root: &&String| root.ends_with("/src/lib.rs") || root.ends_with("/src/main.rs");
        self.roots.iter().find(is_main).map(String::as_str)
    }
}

/// Packages that are separate workspaces: fuzz targets need other flags, and a reader of the bench brings other dependencies.
const OTHER_WORKSPACES: [&str; 2] = ["fuzz/Cargo.toml", "bench/mprobe/Cargo.toml"];

/// Asks cargo about the workspace and the packages outside it that exist. Needs no network.
pub(crate) fn read(root: &Path) -> Result<Vec<Package>> {
    let mut packages = packages_of(root, "Cargo.toml", true)?;
    for manifest in OTHER_WORKSPACES.iter().filter(|manifest| root.join(manifest).is_file()) {
        packages.extend(packages_of(root, manifest, false)?);
    }
    Ok(packages)
}

fn packages_of(root: &Path, manifest: &str, member: bool) -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join(manifest))
        .no_deps()
        .exec()
        .with_context(|| format!("cargo cannot read {manifest}"))?;
    let root = root.canonicalize().context("cannot find the root of the tree")?;
    let relative = |path: &Path| -> String {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned()
    };
    let packages = metadata.packages.iter().map(|package| Package {
        name: package.name.to_string(),
        manifest: relative(package.manifest_path.as_std_path()),
        roots: package.targets.iter().map(|target| relative(target.src_path.as_std_path())).collect(),
        imports: package
            .dependencies
            .iter()
            .map(|dependency| Import {
                name: dependency.name.clone(),
                need: if dependency.kind == DependencyKind::Development {
                    ImportPurpose::Test
                } else {
                    ImportPurpose::Run
                },
            })
            .collect(),
        member,
    });
    Ok(packages.collect())
}

/// A member with these imports, for the tests of checks.
#[cfg(test)]
pub(crate) fn package(name: &str, imports: &[(&str, ImportPurpose)]) -> Package {
    Package {
        name: name.to_owned(),
        manifest: format!("crates/{name}/Cargo.toml"),
        roots: vec![format!("crates/{name}/src/lib.rs")],
        imports: imports
            .iter()
            .map(|(name, need)| Import { name: (*name).to_owned(), need: *need })
            .collect(),
        member: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tells_members_roots_and_imports() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let packages = read(root).unwrap();
        let cli = packages.iter().find(|package| package.name == "fathom").unwrap();
        assert_eq!(cli.manifest, "crates/cli/Cargo.toml");
        assert!(cli.member && cli.roots.contains(&"tests/tests.rs".to_owned()), "{cli:?}");
        assert!(cli.imports.iter().any(|import| import.name == "clap" && import.need == ImportPurpose::Run));
        assert!(
            cli.imports
                .iter()
                .any(|import| import.name == "fathom-testkit" && import.need == ImportPurpose::Test)
        );
    }
}
