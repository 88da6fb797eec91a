//! A snapshot's description of itself.
//!
//! Judging reads it before any rule runs: some facts (the data's folder, the machine's name) are known only where the snapshot was
//! made. A snapshot of a newer layout, or one that was cut short, is refused.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

use crate::View;

/// The version of the layout; a newer one is refused.
pub(super) const SCHEMA: u32 = 1;
/// The file that holds it.
pub(super) const MANIFEST: &str = "snapshot.json";

/// The description of a snapshot, in `snapshot.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotManifest {
    pub(super) schema: u32,
    /// False while it is being written: a snapshot that was cut short is refused.
    pub(super) complete: bool,
    pub(super) made_by: String,
    /// The output of `uname -r`.
    pub(super) kernel: String,
    /// The output of `uname -m`.
    pub(super) architecture: String,
    /// The data's folder, resolved.
    pub(super) dir: PathBuf,
    /// The journal's folder, resolved.
    #[serde(default)]
    pub(super) journal: Option<PathBuf>,
    /// The device number of the mount that holds the data.
    #[serde(default)]
    pub(super) device: Option<String>,
    /// The running server's version, if a file shows it.
    #[serde(default)]
    pub(super) mongodb: Option<String>,
}

impl SnapshotManifest {
    /// The description of a snapshot; `None` for one that was put together by hand without a manifest.
    pub(super) fn read(view: &View) -> Result<Option<Self>> {
        let path = view.root().join(MANIFEST);
        let Some(text) = view.text(MANIFEST) else { return Ok(None) };
        let malformed = |what: String| {
            Error::new(Kind::Malformed, what).advise("save it again with fathom doctor --save")
        };
        let value: serde_json::Value = serde_json::from_str(&text)
            .map_err(|e| malformed(format!("{} is not JSON", path.display())).because(e))?;
        if let Some(schema) =
            value.get("schema").and_then(serde_json::Value::as_u64).filter(|s| *s > u64::from(SCHEMA))
        {
            let what = format!("{} has schema {schema}; this version reads up to {SCHEMA}", path.display());
            return Err(Error::new(Kind::Unsupported, what).advise("judge it with a newer fathom"));
        }
        let manifest: SnapshotManifest = serde_json::from_value(value).map_err(|e| {
            malformed(format!("{} is not a host snapshot's manifest", path.display())).because(e)
        })?;
        if !manifest.complete {
            return Err(malformed(format!("the snapshot in {} was cut short", view.root().display())));
        }
        if !manifest.dir.is_absolute() {
            return Err(malformed(format!("{}: dir is not an absolute path", path.display())));
        }
        Ok(Some(manifest))
    }

    /// Writes the manifest into the folder of a snapshot.
    pub(super) fn write(&self, into: &Path) -> Result<()> {
        let path = into.join(MANIFEST);
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(Kind::Malformed, "cannot write a snapshot's manifest").because(e))?;
        fs::write(&path, text + "\n").map_err(|e| Error::io("write", &path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_and_broken_manifests_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["proc", "sys"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let view = View::snapshot(folder.path()).unwrap();
        assert!(SnapshotManifest::read(&view).unwrap().is_none());
        for (text, kind) in [
            ("{\"schema\": 2}", Kind::Unsupported),
            ("{", Kind::Malformed),
            ("{\"schema\": 1}", Kind::Malformed),
            (
                "{\"schema\":1,\"complete\":false,\"made_by\":\"x\",\"kernel\":\"6\",\"architecture\":\"x86_64\",\"dir\":\"/\"}",
                Kind::Malformed,
            ),
        ] {
            fs::write(folder.path().join(MANIFEST), text).unwrap();
            assert_eq!(SnapshotManifest::read(&view).unwrap_err().kind(), kind, "{text}");
        }
    }
}
