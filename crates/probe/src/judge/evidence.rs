//! The input of every judgement on a disk: the record of a probe, and the selection of the steps that a question concerns.
//!
//! This module judges nothing, so that each judgement can have a file of its own and depend on no other.

use fathom_host::cgroup::Limit;
use fathom_record::burst_allowance::BurstAllowance;
use fathom_record::disk::{Knee, Layout, Step};

use super::medium::Medium;

/// The evidence on which the findings about a disk rest.
#[derive(Default)]
pub struct DiskEvidence<'a> {
    /// Every step, in order.
    pub steps: &'a [Step],
    pub knee: Option<&'a Knee>,
    /// The burst allowance, if a drive looked for it.
    pub burst_allowance: Option<&'a BurstAllowance>,
    pub layout: Option<&'a Layout>,
    /// I/O limits of our own cgroup on the devices under test, with the device's name.
    pub limits: Vec<(String, Limit)>,
    /// Whether the devices have a volatile cache; `None` if unknown.
    pub cache_is_volatile: Option<bool>,
    /// The kind of the devices; `None` if none is visible.
    pub medium: Option<Medium>,
    /// Whether the data lie in memory.
    pub in_memory: Option<&'a str>,
}

/// The steps of a shape: pattern, block and durability.
pub(super) fn of_shape<'a>(
    steps: &'a [Step],
    pattern: &'a str,
    block_bytes: u64,
) -> impl Iterator<Item = &'a Step> {
    steps.iter().filter(move |step| {
        matches!(step.streams.as_slice(), [stream]
            if stream.pattern == pattern && stream.block_bytes == block_bytes && stream.rate_per_s.is_none())
    })
}

/// The step with single-stream durable appends, which determines the meaning of a commit.
pub(super) fn journal_step(steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| {
        matches!(step.streams.as_slice(), [stream] if stream.pattern == "append" && stream.depth == 1 && stream.durable != "none" && stream.rate_per_s.is_none())
    })
}
