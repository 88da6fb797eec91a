//! The host's settings that differ from the advice, as one table: the setting, the priority of changing it, and the commands.

use fathom_record::{Finding, Priority};
use serde::Serialize;

use crate::findings::Rank;

/// A row of the table.
#[derive(Serialize)]
pub(super) struct SettingRow<'r> {
    kind: &'static str,
    word: &'static str,
    id: &'r str,
    claim: &'r str,
    advice: Option<&'r str>,
    command: Option<&'r str>,
}

/// Whether a finding is a row of the table: a setting that should be changed.
pub(super) fn is_row(finding: &Finding) -> bool {
    finding.is_setting() && matches!(Rank::from_finding(finding), Rank::Due(_))
}

/// The rows, the highest priority first.
pub(super) fn rows(findings: &[Finding]) -> Vec<SettingRow<'_>> {
    let mut settings: Vec<&Finding> = findings.iter().filter(|finding| is_row(finding)).collect();
    settings.sort_by_key(|finding| std::cmp::Reverse(finding.priority()));
    settings.into_iter().map(row).collect()
}

fn row(finding: &Finding) -> SettingRow<'_> {
    let (kind, word) = match finding.priority() {
        Some(Priority::Critical) => ("bad", "critical"),
        Some(Priority::WorthDoing) => ("due", "worth doing"),
        Some(Priority::Hygiene) | None => ("", "hygiene"),
    };
    SettingRow {
        kind,
        word,
        id: &finding.id,
        claim: &finding.claim,
        // The command replaces the advice.
        advice: finding.advice.as_deref().filter(|_| finding.command.is_none()),
        command: finding.command.as_deref(),
    }
}

/// The lines that undo all commands of the table.
pub(super) fn undo(findings: &[Finding]) -> Option<String> {
    let undo =
        findings.iter().filter(|finding| is_row(finding)).filter_map(|finding| finding.undo.as_deref());
    let lines: Vec<&str> = undo.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use fathom_record::Severity;

    use super::*;

    #[test]
    fn settings_are_rows_and_what_was_measured_is_none() {
        let setting = |id: &str, priority| Finding {
            priority: Some(priority),
            ..Finding::new(id, Severity::Warning, id).evidence("/proc/sys/vm/x = 1").advice("Recommended: 0.")
        };
        let findings = [
            setting("hygiene", Priority::Hygiene).command("sysctl -w vm.x=0"),
            setting("due", Priority::WorthDoing),
            Finding::new("measured", Severity::Warning, "It is slow.").evidence("Reads took 5 ms."),
            Finding::new("note", Severity::Note, "Worth knowing.").evidence("/proc/sys/vm/y = 1"),
        ];
        let rows = rows(&findings);
        let seen: Vec<_> = rows.iter().map(|row| (row.id, row.word, row.advice, row.command)).collect();
        assert_eq!(
            seen,
            [
                ("due", "worth doing", Some("Recommended: 0."), None),
                ("hygiene", "hygiene", None, Some("sysctl -w vm.x=0"))
            ]
        );
    }
}
