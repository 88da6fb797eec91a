//! The operations that servers run now: kind, namespace, plan, time and disk bytes, the longest time first.
//!
//! They are asked for only while a server is busy, so an idle server has none.

use fathom_explain::{WorkRow, WorkTable, work_table};
use serde::Serialize;

use super::reading::{EvidenceView, LATELY_NS, SECOND_NS};
use crate::metrics::OperationNumbers;

/// The number of operations that are shown of each server.
const MAX_OPERATIONS: usize = 5;
/// A kind of operation that ran for a smaller share of the time is not shown.
const MIN_RUNNING_SHARE: f64 = 0.01;

/// Alike operations of one server over the last ten seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OperationView {
    pub(crate) member: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    /// The command without values; empty if no part of it matters.
    pub(crate) shape: String,
    pub(crate) plan: Option<String>,
    /// The cause of the wait of most of them, and the share of them that waits, 0 to 1.
    pub(crate) wait: Option<String>,
    pub(crate) waiting_share: f64,
    pub(crate) phase: Option<String>,
    pub(crate) progress: Option<f64>,
    pub(crate) application: Option<String>,
    pub(crate) driver: Option<String>,
    pub(crate) client: Option<String>,
    /// How many ran at once, on average.
    pub(crate) running: f64,
    /// The share of the time of all operations, 0 to 1.
    pub(crate) time_share: f64,
    /// Processors in use by the threads of these operations, and bytes that they read and wrote a second.
    pub(crate) processors: Option<f64>,
    pub(crate) disk_bytes_per_s: Option<f64>,
    pub(crate) longest_ms: f64,
    /// The number of the longest one, for `killOp`.
    pub(crate) longest_operation: Option<String>,
}

impl OperationView {
    /// The operation in words: `find shop.orders COLLSCAN`, with its wait or its progress.
    pub(crate) fn words(&self) -> String {
        let mut words = format!("{} {}", self.kind, self.namespace);
        for part in [&self.plan, &self.phase].into_iter().flatten() {
            words.push(' ');
            words.push_str(part);
        }
        if let Some(progress) = self.progress {
            words.push_str(&format!(" {:.0}%", 100.0 * progress));
        }
        if let Some(wait) = self.wait.as_ref().filter(|_| self.waiting_share >= 0.5) {
            words.push_str(&format!(" waits for {wait}"));
        }
        words
    }

    /// The client in words: its application, else its driver.
    pub(crate) fn client_words(&self) -> Option<&str> {
        [&self.application, &self.driver, &self.client].into_iter().flatten().next().map(String::as_str)
    }

    /// Its numbers on the page of metrics. The keys of its plan are left out, of which there may be many.
    pub(crate) fn numbers(&self) -> OperationNumbers {
        let plan = self.plan.as_deref().unwrap_or_default();
        let is_stage =
            |word: &&str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let mut stages: Vec<&str> = plan.split_whitespace().filter(is_stage).collect();
        stages.dedup();
        OperationNumbers {
            member: self.member.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            plan: stages.join(" "),
            running: self.running,
            longest_s: self.longest_ms / 1e3,
            disk_bytes_per_s: self.disk_bytes_per_s,
        }
    }
}

/// The operations of each server over the last seconds.
pub(super) fn operations(look: EvidenceView<'_>) -> Vec<OperationView> {
    let window_ns = (look.now_ns.saturating_sub(LATELY_NS), look.now_ns);
    let of_member = |member: String| {
        let table = work_table(&look.evidence.results, member.parse().ok()?, window_ns)?;
        let is_shown = |one: &OperationView| one.running >= MIN_RUNNING_SHARE;
        let rows = table.rows.iter().map(|row| view(&member, row, &table));
        Some(rows.filter(is_shown).take(MAX_OPERATIONS).collect::<Vec<_>>())
    };
    look.evidence.members().into_iter().filter_map(of_member).flatten().collect()
}

fn view(member: &str, row: &WorkRow, table: &WorkTable) -> OperationView {
    let seconds = if table.observed_s > 0.0 { table.observed_s } else { LATELY_NS as f64 / SECOND_NS as f64 };
    OperationView {
        member: member.to_owned(),
        kind: row.kind.clone(),
        namespace: row.namespace.clone(),
        shape: row.shape.clone(),
        plan: row.plan.clone(),
        wait: row.wait.clone(),
        waiting_share: row.waiting_share,
        phase: row.phase.clone(),
        progress: row.progress,
        application: row.application.clone(),
        driver: row.driver.clone(),
        client: row.client.clone(),
        running: row.used.time_us / 1e6 / seconds,
        time_share: row.time_share,
        processors: row.used.processor_us.map(|us| us / 1e6 / seconds),
        disk_bytes_per_s: row.used.disk_bytes().map(|bytes| bytes / seconds),
        longest_ms: row.longest_us as f64 / 1e3,
        longest_operation: row.longest_operation.clone(),
    }
}
