//! A run folder without what names the machine, and as a bundle.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use fathom_record::bundle;
use fathom_record::folders::look;
use serde_json::{Value, json};

/// Facts of the environment that stay: what judging and showing need, and what nobody can be found by.
const KEPT_FACTS: [&str; 3] = ["server.", "device.", "note."];
/// And of these, what names the process or a folder goes.
const LOST_ENDINGS: [&str; 2] = [".pid", ".dbpath"];

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

/// The folder as a bundle: the same for the same record, and what `fathom runs import` reads.
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
