//! How much is written and read for each byte of a user, level by level, and the servers of a run side by side
//! (facts/analysis.md A8, articles.md 2).
//!
//! Only the devices at the bottom count: adding those above them would count everything twice. Their counters are everybody's; where the
//! server's process asked for less than nine tenths, its own count is the last level, and the devices' totals are a note.

mod levels;
mod side_by_side;
mod windows;

use fathom_record::members::MemberRow;

use crate::{Evidence, Judgement};

/// The series that amplification is computed from.
pub(crate) const NEEDS: &[&str] = &[
    "client.user_bytes",
    "server.{member}.network.in_bytes",
    "server.{member}.journal.written_bytes",
    "server.{member}.engine.written_bytes",
    "server.{member}.checkpoint.count",
    "device.{device}.written_bytes",
    "device.{device}.read_bytes",
    "server.{member}.process.written_bytes",
    "server.{member}.process.read_bytes",
    "server.{member}.storage.allocated_bytes",
];

/// Adds the amplification of each server, and the servers side by side where there are several.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let members = writers(evidence);
    judgement.amplifications.extend(members.iter().filter_map(|member| levels::of(evidence, member)));
    if members.len() > 1 {
        judgement.members.extend(member_rows(evidence));
    }
}

/// What each server asks of its devices, also where there is only one.
pub fn member_rows(evidence: &Evidence) -> Vec<MemberRow> {
    side_by_side::rows(evidence, &writers(evidence))
}

/// The servers with data: a router writes nothing.
fn writers(evidence: &Evidence) -> Vec<String> {
    let mut members = evidence.members();
    members.retain(|member| !crate::member::is_router(evidence, member));
    members
}

#[cfg(test)]
mod tests;
