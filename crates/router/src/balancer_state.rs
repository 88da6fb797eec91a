//! How far the balancer of this router is: whether it is at work, and how often it was.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// What the balancer does of itself.
#[derive(Debug, Default)]
pub(crate) struct BalancerState {
    pub(crate) in_round: AtomicBool,
    pub(crate) rounds: AtomicU64,
}
