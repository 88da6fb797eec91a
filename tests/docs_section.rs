//! Sections of `docs/` that tests generate from recordings, between two marks.
//!
//! A section that differs fails a test only if a figure got worse or the page says something false. Otherwise it is noted as out of
//! date, and `make refresh` writes it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_testkit::{assert, assert_eq, note_stale, test};

/// The folder of the documentation.
pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns whether tests write their sections in place of comparing them.
pub(crate) fn is_update() -> bool {
    env::var_os("FATHOM_UPDATE_DOCS").is_some()
}

/// Compares the text between two marks of a page with `section`; with `FATHOM_UPDATE_DOCS=1` writes it. `worse` takes the cells of a
/// row of the table on the page and of the same row in `section`, and says whether the latter are worse. A row is known by its first
/// `keys` cells.
///
/// # Panics
/// If a row got worse, or if the page has a row that `section` lacks.
pub(crate) fn check(
    page: &str,
    (begin, end): (&str, &str),
    section: &str,
    keys: usize,
    worse: fn(&[String], &[String]) -> bool,
) {
    let path = docs().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).expect("the begin of the section");
    let (shown, after) = rest.split_once(end).expect("the end of the section");
    if is_update() {
        fs::write(&path, format!("{before}{begin}\n{section}{end}{after}")).unwrap();
        return;
    }
    let regressions = regressions(shown, section, keys, worse);
    assert!(
        regressions.is_empty(),
        "docs/{page}: {regressions:#?}; make refresh writes the page as it is now"
    );
    if shown.trim() != section.trim() {
        note_stale(&format!("docs/{page}"));
    }
}

/// The rows of the shown table that got worse or are no longer true.
fn regressions(
    shown: &str,
    section: &str,
    keys: usize,
    worse: fn(&[String], &[String]) -> bool,
) -> Vec<String> {
    let present = rows(section, keys);
    let regressions = rows(shown, keys).into_iter().filter_map(|(key, shown)| match present.get(&key) {
        None => Some(format!("{} is shown, and is not there", key.join(", "))),
        Some(cells) if worse(&shown, cells) => {
            Some(format!("{}: {} became {}", key.join(", "), shown.join(" | "), cells.join(" | ")))
        }
        Some(_) => None,
    });
    regressions.collect()
}

/// The cells of each row of the tables in Markdown, by the first `keys` of them.
fn rows(section: &str, keys: usize) -> BTreeMap<Vec<String>, Vec<String>> {
    let rows = section.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells = line.trim_matches(&['|', ' '][..]).split(" | ");
        let cells: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
        let (key, rest) = cells.split_at(keys.min(cells.len()));
        (key.to_vec(), rest.to_vec())
    });
    rows.collect()
}

#[test]
fn a_row_that_got_worse_or_is_not_there_is_a_regression_and_others_are_not() {
    let table = |rows: &str| format!("| cell | score |\n|---|---|\n{rows}");
    let shown = table("| a | 2 |\n| b | 2 |\n");
    let worse = |shown: &[String], present: &[String]| present[0] < shown[0];
    let regressions = |rows: &str| regressions(&shown, &table(rows), 1, worse);
    assert_eq!(regressions("| a | 2 |\n| b | 2 |\n| c | 1 |\n"), Vec::<String>::new());
    assert_eq!(regressions("| a | 3 |\n| b | 2 |\n"), Vec::<String>::new());
    assert_eq!(regressions("| a | 1 |\n| b | 2 |\n"), ["a: 2 became 1"]);
    assert_eq!(regressions("| a | 2 |\n"), ["b is shown, and is not there"]);
}
