//! Checks that no test stays in quarantine for more than 14 days, counted up to the day of the last commit, and that each has a reason.

use super::Complaint;
use super::tree::Tree;
use crate::quarantine::{LIST, Quarantine};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(file) = tree.file(LIST) else { return Vec::new() };
    let list = match Quarantine::parse(&file.text) {
        Ok(list) => list,
        Err(error) => {
            return vec![Complaint::new(LIST, 1, format!("{error:#}"), "write it as its head says")];
        }
    };
    let complaint =
        |what: String, needle: &str, advice: &str| Complaint::new(LIST, file.line_with(needle), what, advice);
    let mut complaints = Vec::new();
    for test in &list.tests {
        if test.reason.trim().is_empty() {
            complaints.push(complaint(
                format!("{} has no reason", test.filter),
                &test.filter,
                "say why it fails",
            ));
        }
        match test.is_overdue(&tree.commit_day) {
            Ok(false) => {}
            Ok(true) => complaints.push(complaint(
                format!("{} is in quarantine for more than 14 days", test.filter),
                &test.filter,
                "make it depend on the commit alone, or move it to a module named timed",
            )),
            Err(error) => complaints.push(complaint(format!("{error:#}"), &test.filter, "name a day")),
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let mut tree = Tree::from_texts(&[(LIST, text)]);
        tree.commit_day = "2026-12-13".to_owned();
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_test_that_stays_too_long_or_has_no_reason_is_named() {
        let entry =
            |day, reason| format!("[[test]]\nfilter = \"test(a)\"\nsince = {day}\nreason = \"{reason}\"\n");
        assert_eq!(complaints(&entry("2026-11-29", "a rate")), Vec::<String>::new());
        let late = complaints(&entry("2026-11-28", "a rate"));
        assert_eq!(
            late,
            [
                "xtask/quarantine.toml:2: test(a) is in quarantine for more than 14 days, make it depend on the commit alone, or move it to a module named timed"
            ]
        );
        assert_eq!(complaints(&entry("2026-12-01", "")).len(), 1);
        assert_eq!(complaints("[[tests]]\n").len(), 1);
        assert_eq!(complaints("# none\n"), Vec::<String>::new());
    }
}
