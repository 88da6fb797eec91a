//! Writes all changes of a diagnosis as one shell script with the undo of each, for review.
//!
//! Changes of notes are comments, since they are not advised in general. The undo restores the values that the doctor read. A comment with text
//! from the host is one line, so that a name cannot become a command.

use std::fmt::Write;

use fathom_record::{Finding, Priority};

use super::{Diagnosis, RULES};

const FRAME_END: &str = "\
case \"${1-}\" in
apply) apply ;;
undo) undo ;;
*) echo \"usage: sh $0 apply|undo\" >&2; exit 2 ;;
esac
exit \"$failed\"
";

/// A script, and its numbers of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub text: String,
    /// Changes that it makes.
    pub changes: usize,
    /// Changes that it only describes: those of notes, and those for an editor.
    pub comments: usize,
}

impl Script {
    /// The script of a diagnosis; `None` if no finding has a command.
    pub fn new(diagnosis: &Diagnosis) -> Option<Script> {
        let mut findings: Vec<&Finding> =
            diagnosis.findings.iter().filter(|finding| finding.command.is_some()).collect();
        if findings.is_empty() {
            return None;
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.priority()));
        let is_made = |finding: &Finding| finding.priority().is_some() && finding.undo.is_some();
        let mut text = heading(diagnosis);
        text.push_str("apply() {\n    :\n");
        findings.iter().for_each(|finding| block(&mut text, finding, finding.command.as_deref()));
        text.push_str("}\n\nundo() {\n    :\n");
        findings.iter().rev().for_each(|finding| block(&mut text, finding, finding.undo.as_deref()));
        text.push_str("}\n\n");
        text.push_str(FRAME_END);
        let changes = findings.iter().filter(|finding| is_made(finding)).count();
        Some(Script { text, changes, comments: findings.len() - changes })
    }
}

fn heading(diagnosis: &Diagnosis) -> String {
    let subject = &diagnosis.subject;
    let origin = match subject.origin {
        "live" => "It is written for this host.",
        _ => "It is written for a saved host: run it on that host only.",
    };
    format!(
        "#!/bin/sh\n\
         # Host settings for MongoDB {} with its data in {}.\n\
         # {origin}\n\
         # Nothing has been run. Read this file, then as root:\n\
         #\n\
         #   sh FILE apply    makes the changes\n\
         #   sh FILE undo     sets back the values that were read when this file was written\n\
         #\n\
         # A change that fails does not stop the others; the exit code is then 1. Applied\n\
         # twice is the same as once. \"By hand\" marks what needs an editor. Changes that\n\
         # nobody advises in general are comments: measure with and without. By fathom {}.\n\n\
         failed=0\n\
         fail() {{ echo \"failed: $1\" >&2; failed=1; }}\n\n",
        comment(&subject.mongodb),
        comment(&subject.dir),
        env!("CARGO_PKG_VERSION"),
    )
}

/// One finding: its claim and its reason as comments, then its lines.
fn block(text: &mut String, finding: &Finding, lines: Option<&str>) {
    let Some(lines) = lines else { return };
    let word = match finding.priority() {
        Some(Priority::Critical) => "critical",
        Some(Priority::WorthDoing) => "worth doing",
        Some(Priority::Hygiene) => "hygiene",
        None => "note, not made",
    };
    let _ = write!(text, "\n    # {word}: {}\n", comment(&finding.claim));
    if let Some(rule) = RULES.iter().find(|rule| rule.id == finding.id) {
        let _ = writeln!(text, "    # {} ({})", rule.reason, rule.id);
    }
    for line in lines.lines() {
        let _ = match line.strip_prefix("# ") {
            Some(words) => writeln!(text, "    # By hand: {}", comment(words)),
            None if finding.priority().is_none() => writeln!(text, "    # {line}"),
            None => writeln!(text, "    {line} || fail {}", finding.id),
        };
    }
}

/// Text on one line.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Output};

    use fathom_record::Severity;

    use super::super::change::Change;
    use super::*;
    use crate::View;
    use crate::doctor::{DoctorOptions, examine};

    fn fixture(name: &str) -> Diagnosis {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/hosts").join(name);
        examine(&View::snapshot(folder).unwrap(), &DoctorOptions::default()).unwrap()
    }

    fn finding(id: &str, severity: Severity, change: &Change) -> Finding {
        Finding {
            command: change.commands(),
            undo: change.undo(),
            ..Finding::new(id, severity, "A name\nreboot # of a host.")
        }
    }

    fn sh(script: &Script, word: &str) -> Output {
        Command::new("sh").arg("-c").arg(&script.text).arg("fix.sh").arg(word).output().unwrap()
    }

    #[test]
    fn every_saved_host_gets_a_script_that_a_shell_reads() {
        for name in ["cloud", "container", "iscsi", "lvm", "md-raid0", "nvme"] {
            let diagnosis = fixture(name);
            let script = Script::new(&diagnosis).unwrap();
            let read = Command::new("sh").args(["-n", "-c", &script.text]).output().unwrap();
            assert!(read.status.success(), "{name}: {read:?}\n{}", script.text);
            let made = diagnosis.findings.iter().filter(|one| one.priority().is_some() && one.undo.is_some());
            assert_eq!(made.count(), script.changes, "{name}");
            for finding in diagnosis.findings.iter().filter(|one| one.undo.is_some()) {
                assert!(script.text.contains(&format!("({})", finding.id)), "{name}: {}", finding.id);
            }
        }
    }

    #[test]
    fn changes_are_made_once_undone_and_notes_are_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name).display().to_string();
        for name in ["value", "note"] {
            std::fs::write(path(name), "before\n").unwrap();
        }
        let mut diagnosis = fixture("nvme");
        diagnosis.findings = vec![
            finding("note", Severity::Note, &Change::value(&path("note"), "after", "before")),
            finding("gone", Severity::Warning, &Change::value("no/such/folder/value", "1", "0")),
            finding("value", Severity::Critical, &Change::value(&path("value"), "it's after", "before")),
            finding("file", Severity::Warning, &Change::file(&path("it's a file"), &["a", "b"])),
            finding("editor", Severity::Warning, &Change::by_hand("look\nreboot")),
        ];
        let script = Script::new(&diagnosis).unwrap();
        assert_eq!((script.changes, script.comments), (3, 1), "{}", script.text);
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        for _ in 0..2 {
            let applied = sh(&script, "apply");
            assert_eq!(applied.status.code(), Some(1), "one of them fails: {applied:?}");
            assert!(String::from_utf8_lossy(&applied.stderr).contains("failed: gone"), "{applied:?}");
            assert_eq!((read("value"), read("note")), ("it's after\n".to_owned(), "before\n".to_owned()));
            assert_eq!(read("it's a file"), "a\nb\n");
        }
        assert_eq!(sh(&script, "undo").status.code(), Some(1));
        assert_eq!(read("value"), "before\n");
        assert!(!Path::new(&path("it's a file")).exists());
        assert_eq!(sh(&script, "").status.code(), Some(2), "it does nothing unless it is told what");
        let first = script.text.find("critical: A name reboot # of a host.").unwrap();
        assert!(first < script.text.find("worth doing").unwrap(), "the costly ones come first");
    }

    #[test]
    fn nothing_to_change_is_no_script() {
        let mut diagnosis = fixture("nvme");
        diagnosis.findings.retain(|finding| finding.severity == Severity::Ok);
        assert_eq!(Script::new(&diagnosis), None);
    }
}
