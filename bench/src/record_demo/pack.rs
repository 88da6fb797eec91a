//! Removes names of the machine from a run folder, and packs the folder as a bundle.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use fathom_record::bundle;
use fathom_record::folders::look;
use serde_json::{Value, json};

/// Facts of the environment that are kept: those needed for judging and display that do not identify an owner.
const KEPT_FACTS: [&str; 3] = ["server.", "device.", "note."];
/// Of these, names of the process and of folders are removed.
const LOST_ENDINGS: [&str; 2] = [".pid", ".dbpath"];

/// Removes the machine from the manifest: the facts that judging does not need, and the paths of the command line.
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
    // It is written again when the page is requested.
    let page = folder.join("report.html");
    if page.exists() {
        fs::remove_file(page)?;
    }
    Ok(())
}

/// Options whose value is a folder of this machine.
const LOST_OPTIONS: [&str; 2] = ["--runs", "--dir"];

/// The program by its name only, and no option with a folder.
fn without_paths(words: &[Value]) -> Vec<Value> {
    let mut kept = vec![json!("fathom")];
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if word.as_str().is_some_and(|word| LOST_OPTIONS.contains(&word)) {
            words.next();
        } else {
            kept.push(word.clone());
        }
    }
    kept
}

/// Packs the folder as a bundle for `fathom runs import`; the same record gives the same bundle.
pub(super) fn packed(folder: &Path) -> Result<Vec<u8>> {
    let run = look(folder).map_err(|why| anyhow!("the recording {why}"))?;
    let mut bytes = Vec::new();
    let packed = bundle::pack(&run, &mut bytes)?;
    ensure!(
        packed.left_out.is_empty(),
        "what is not of the record lies in the folder: {:?}",
        packed.left_out
    );
    Ok(bytes)
}
