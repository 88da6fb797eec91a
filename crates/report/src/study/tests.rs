//! The text of a study of 2 x 2 x 3 cells at 80 columns, and that nothing in it steers a terminal or breaks the lines.

use super::*;

/// Markup and escapes that a study's file, or a run folder of others, may contain.
pub(crate) const HOSTILE: &str =
    "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}\u{1b}[2J";

fn fixture(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/studies");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Two file systems, capped and not, at three numbers of threads; one trial is broken.
pub(crate) fn file_systems() -> StudyResult {
    serde_json::from_str(&fixture("file-systems.json")).unwrap()
}

/// The same with every text hostile; names of factors and metrics still refer to each other.
pub(crate) fn hostile() -> StudyResult {
    let mut value = serde_json::to_value(file_systems()).unwrap();
    spoil(&mut value, "");
    serde_json::from_value(value).unwrap()
}

fn spoil(value: &mut serde_json::Value, key: &str) {
    match value {
        // Fields with few possible values are not text.
        serde_json::Value::String(text) if !["better", "verdict"].contains(&key) => {
            text.insert_str(0, HOSTILE)
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(|one| spoil(one, key)),
        serde_json::Value::Object(object) => object.iter_mut().for_each(|(key, one)| spoil(one, key)),
        _ => {}
    }
}

#[test]
fn a_study_reads_from_its_question_to_what_may_not_be_concluded() {
    let lines = study_lines(&file_systems(), 80);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    let text = lines.join("\n");
    assert_eq!(text, fixture("file-systems.txt").trim_end(), "{text}");
}

#[test]
fn it_fits_whatever_it_is_called_and_nothing_steers_the_terminal() {
    let mut study = hostile();
    study.cells[0].levels[0] = "x".repeat(500);
    for width in [40, 80, 200] {
        for line in study_lines(&study, width) {
            assert!(!line.contains('\x1b'), "{line}");
            // A word longer than the line has a line of its own, complete.
            assert!(line.chars().count() <= width.max(140), "{width}: {line}");
        }
    }
}

#[test]
fn a_study_of_which_nothing_ran_says_so() {
    let mut study = file_systems();
    study.comparisons.clear();
    study.cells.clear();
    (study.published, study.cautions) = (None, vec!["Every trial failed.".to_owned()]);
    let text = study_lines(&study, 80).join("\n");
    assert!(text.contains("Answer. Nothing could be compared."), "{text}");
    assert!(text.ends_with("Limits of this study\n  ! Every trial failed."), "{text}");
}

#[test]
fn what_would_tell_is_said_once() {
    let mut one = file_systems().comparisons[1].clone();
    assert!(sentence(&one).ends_with("needs about 11 more blocks."), "{}", sentence(&one));
    one.words = "It cannot be determined.".to_owned();
    assert_eq!(sentence(&one), "It cannot be determined. Needs 11 more blocks to tell.");
    one.verdict = StudyVerdict::Same;
    assert_eq!(sentence(&one), "It cannot be determined.");
}
