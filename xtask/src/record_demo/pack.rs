//! A run folder without what names the machine, and as one compressed archive that is the same for the same folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Facts of the environment that stay: what judging and showing need, and what nobody can be found by.
const KEPT_FACTS: [&str; 3] = ["server.", "device.", "note."];
/// And of these, what names the process or a folder goes.
const LOST_ENDINGS: [&str; 2] = [".pid", ".dbpath"];
/// As far as zstd goes without more memory for whoever unpacks.
const LEVEL: i32 = 19;

/// Takes the machine out of the manifest: its facts but those that judging needs, and the paths of the command line.
pub(super) fn clean(folder: &Path) -> Result<()> {
    let path = folder.join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    let head = manifest.as_object_mut().context("the manifest is no object")?;
    let words = head.get("command_line").and_then(Value::as_array).cloned().unwrap_or_default();
    head.insert("command_line".to_owned(), Value::Array(without_paths(&words)));
    if let Some(facts) = head.get_mut("environment").and_then(Value::as_object_mut) {
        let is_kept = |name: &String| KEPT_FACTS.iter().any(|kept| name.starts_with(kept));
        facts.retain(|name, _| is_kept(name) && !LOST_ENDINGS.iter().any(|lost| name.ends_with(lost)));
    }
    fs::write(&path, format!("{manifest:#}\n"))?;
    // It is made anew for the page that is wanted.
    let page = folder.join("report.html");
    if page.exists() {
        fs::remove_file(page)?;
    }
    Ok(())
}

/// The program by its name only, and no '--runs FOLDER'.
fn without_paths(words: &[Value]) -> Vec<Value> {
    let mut kept = vec![json!("fathom")];
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if word.as_str() == Some("--runs") {
            words.next();
        } else {
            kept.push(word.clone());
        }
    }
    kept
}

/// The folder's files as a compressed tar: sorted, without owners and times.
pub(super) fn packed(folder: &Path) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    list(folder, folder, &mut files)?;
    files.sort();
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let bytes = fs::read(folder.join(&file))?;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, &file, bytes.as_slice())?;
    }
    zstd::encode_all(archive.into_inner()?.as_slice(), LEVEL).context("cannot compress")
}

fn list(top: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(top, &path, files)?;
        } else {
            files.push(path.strip_prefix(top)?.to_owned());
        }
    }
    Ok(())
}
