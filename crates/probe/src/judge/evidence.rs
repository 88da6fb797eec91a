//! What every judgement on a disk looks at: the record of a probe, and the steps in it that a question is about.
//!
//! It judges nothing, so that each judgement can stand in a file of its own and need no other.

use fathom_host::cgroup::Limit;
use fathom_record::disk::{Knee, Layout, Step};

/// Everything that the findings about a disk rest on.
#[derive(Default)]
pub struct Evidence<'a> {
    /// Every step, in order.
    pub steps: &'a [Step],
    /// The ladder's verdict.
    pub knee: Option<&'a Knee>,
    /// The layout pass.
    pub layout: Option<&'a Layout>,
    /// I/O limits of our own cgroup on the devices under test, with the device's name.
    pub limits: Vec<(String, Limit)>,
    /// Whether the devices have a volatile cache; `None` where unknown.
    pub cache_is_volatile: Option<bool>,
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

/// The step with single-stream durable appends, which the meaning of a commit rests on.
pub(super) fn journal_step(steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| {
        matches!(step.streams.as_slice(), [stream] if stream.pattern == "append" && stream.depth == 1 && stream.durable != "none" && stream.rate_per_s.is_none())
    })
}
