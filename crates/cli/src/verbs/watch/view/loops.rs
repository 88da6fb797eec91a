//! Where the mean time goes: a row for each server and kind of operation, a part for each layer.

use fathom_explain::Judgement;
use fathom_record::budget::Budget;
use serde::Serialize;

use super::reading::Look;

/// The rows, of which the screen shows the first.
const ROWS_MOST: usize = 8;

/// One server's operations of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LoopRow {
    pub(crate) member: String,
    pub(crate) operations: String,
    /// What the client waited, or the server took, on average.
    pub(crate) mean_ms: f64,
    /// Whether the client was watched.
    pub(crate) of_client: bool,
    pub(crate) parts: Vec<LoopPart>,
    /// Whether the parts add up.
    pub(crate) closes: bool,
}

/// One layer's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LoopPart {
    pub(crate) name: String,
    pub(crate) ms: f64,
    pub(crate) share: f64,
}

/// The rows of the newest budgets; before there are any, the servers' own means.
pub(super) fn rows(look: Look<'_>, judgement: &Judgement) -> Vec<LoopRow> {
    let mut rows: Vec<LoopRow> = judgement.budgets.iter().map(row).collect();
    if rows.is_empty() {
        for member in
            look.evidence.members().into_iter().filter(|member| !super::members::follows(look, member))
        {
            rows.extend(["reads", "writes"].into_iter().filter_map(|kind| bare(look, &member, kind)));
        }
    }
    rows.truncate(ROWS_MOST);
    rows
}

fn row(budget: &Budget) -> LoopRow {
    let mean_us = budget.whole_us();
    let layers = budget.layers.iter().filter(|layer| layer.mean_us > 0.0);
    let mut parts: Vec<LoopPart> = layers
        .map(|layer| LoopPart {
            name: layer.name.replace('_', " "),
            ms: layer.mean_us / 1000.0,
            share: layer.share,
        })
        .collect();
    // What the layers do not explain is drawn as a part of its own, the last.
    if budget.unexplained_us > 0.0 {
        let share = budget.unexplained_us / mean_us.max(f64::MIN_POSITIVE);
        parts.push(LoopPart { name: "unexplained".to_owned(), ms: budget.unexplained_us / 1000.0, share });
    }
    LoopRow {
        member: budget.member.clone(),
        operations: budget.operations.clone(),
        mean_ms: mean_us / 1000.0,
        of_client: budget.client_mean_us.is_some(),
        parts,
        closes: budget.closes,
    }
}

fn bare(look: Look<'_>, member: &str, kind: &str) -> Option<LoopRow> {
    let of = |what: &str| format!("server.{member}.{kind}.{what}");
    let mean_us = look.mean(&of("latency_us"), &of("operations"))?;
    Some(LoopRow {
        member: member.to_owned(),
        operations: kind.to_owned(),
        mean_ms: mean_us / 1000.0,
        of_client: false,
        parts: Vec::new(),
        closes: true,
    })
}
