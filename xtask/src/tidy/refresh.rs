//! `cargo xtask refresh`: rewrites files whose rules the tree more than meets, so that no change fails for an improvement: the
//! limits of `xtask/ratchet.toml`, and the order of CHANGELOG.md.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::function_length::RATCHET;
use super::rules::{IdiomLimits, Ratchet};
use super::tree::Tree;
use super::{changelog, cycles, function_length, idioms};

/// Rewrites what is out of date in the tree at `root`, and names it.
pub fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    if let Some(word) = arguments.first() {
        bail!("refresh takes no argument, but got '{word}'");
    }
    let tree = Tree::read(&root)?;
    let needed = Ratchet {
        functions: function_length::needed(&tree),
        circles: cycles::needed(&tree),
        idioms: idioms::needed(&tree),
    };
    let mut out = io::stdout().lock();
    for (path, refreshed) in [
        (RATCHET, tree.file(RATCHET).map(|file| ratchet_text(&file.text, &needed))),
        (changelog::DOCUMENT, tree.file(changelog::DOCUMENT).map(|file| changelog::in_order(&file.text))),
    ] {
        if let (Some(file), Some(text)) = (tree.file(path), refreshed)
            && file.text != text
        {
            fs::write(root.join(path), text).with_context(|| format!("cannot write {path}"))?;
            writeln!(out, "refresh: {path} is brought up to date")?;
        }
    }
    Ok(true)
}

/// The text of the ratchet with the needed limits. An entry that is not needed is removed with the comment in front of it.
fn ratchet_text(text: &str, needed: &Ratchet) -> String {
    let limits = limits(needed);
    let (mut lines, mut section): (Vec<String>, String) = (Vec::new(), String::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('[') {
            section = title.trim_end_matches(']').to_owned();
        }
        let entry = line.split_once(" = ").filter(|_| !line.starts_with('#'));
        let Some((key, _)) = entry else {
            lines.push(line.to_owned());
            continue;
        };
        match limits.get(&(section.as_str(), key.trim_matches('"'))) {
            Some(limit) => lines.push(format!("{key} = {limit}")),
            None => {
                while lines.last().is_some_and(|last| last.starts_with('#')) {
                    lines.pop();
                }
            }
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The limits as the file writes them, by section and key.
fn limits(needed: &Ratchet) -> BTreeMap<(&str, &str), String> {
    let IdiomLimits { comments, pages } = needed.idioms;
    let functions =
        needed.functions.iter().map(|(key, lines)| (("functions", key.as_str()), lines.to_string()));
    let circles = needed.circles.iter().map(|(key, sizes)| (("circles", key.as_str()), format!("{sizes:?}")));
    let idioms = [(("idioms", "comments"), comments), (("idioms", "pages"), pages)];
    functions.chain(circles).chain(idioms.map(|(key, limit)| (key, limit.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Limits.\n\n[functions]\n\"a.rs::f\" = 90\n\"a.rs::g\" = 80\n\n[circles]\n# Why.\nx = [3, 2]\n# Why not.\ny = [2]\n\n[idioms]\ncomments = 5\npages = 7\n";

    #[test]
    fn limits_are_lowered_and_entries_without_need_are_removed() {
        let needed: Ratchet = toml::from_str(
            "functions = { \"a.rs::f\" = 71 }\ncircles = { x = [2, 2] }\nidioms = { comments = 4, pages = 7 }\n",
        )
        .unwrap();
        let text = ratchet_text(TEXT, &needed);
        assert_eq!(
            text,
            "# Limits.\n\n[functions]\n\"a.rs::f\" = 71\n\n[circles]\n# Why.\nx = [2, 2]\n\n[idioms]\ncomments = 4\npages = 7\n"
        );
        assert_eq!(toml::from_str::<Ratchet>(&text).unwrap(), needed);
    }

    #[test]
    fn limits_that_are_met_exactly_stay() {
        let present: Ratchet = toml::from_str(TEXT).unwrap();
        assert_eq!(ratchet_text(TEXT, &present), TEXT);
    }
}
