//! Where the mean time of an operation goes: a budget of layers for each server, and what follows from it.
//!
//! After analysis.md A1. Shares are computed on means only, never on percentiles. What the layers do not explain is a figure
//! of its own, and closure is a check that can fail: the client's mean against the operations that it had under way, the
//! server's remainder against the processor time of its process, and the gap between both against the round trip.

mod advice;
mod assemble;
mod columns;
mod conditions;
mod frame;
mod parts;
mod shape;
mod tail;

use crate::client::Client;
use crate::{Evidence, Judgement, causes, guard, member};
use frame::Frame;

/// Budgets of every server that served operations, who makes their tail, and what to try.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let client = Client::of(evidence);
    for member in evidence.members().into_iter().filter(|member| !member::is_router(evidence, member)) {
        let Some(frame) = Frame::of(evidence, &member, client.as_ref()) else { continue };
        let mut budgets = assemble::budgets(evidence, &frame);
        budgets.iter_mut().for_each(|budget| member::split(evidence, budget));
        for finding in advice::findings(evidence, client.as_ref(), &frame, &budgets) {
            // What a load that fills the machine does in vain is processor time, however long it waits for it.
            if causes::evicts_early(&finding) && guard::fills_the_machine(evidence) {
                judgement.findings.push(finding);
            } else {
                judgement.add_unless_withheld(finding);
            }
        }
        let all = budgets.iter().find(|budget| budget.operations == "all");
        judgement.findings.extend(all.and_then(|all| tail::tail(evidence, &frame, all)));
        judgement.budgets.extend(budgets);
    }
}

/// Whether a server's collection latency ends before the wait for the journal and the write concern.
pub(crate) fn waits_outside(evidence: &Evidence, member: &str) -> bool {
    let frame = Frame::of(evidence, member, None).filter(|frame| frame.of_namespace);
    frame.is_some_and(|frame| shape::waits_outside(true, &frame.total()))
}
