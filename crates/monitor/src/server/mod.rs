//! The samplers of servers: read the servers' own counters at a cost of less than a millisecond of server time each second.
//!
//! [`Servers::find`] finds the servers behind a connection string, and [`server_samplers`] makes their samplers. All
//! commands need no more than the role clusterMonitor, and change nothing.

mod busy_signs;
mod collection;
mod current_operations;
mod deployment;
mod figures;
#[cfg(test)]
mod fixture_tests;
mod link;
mod log_tail;
mod names;
mod needs;
mod open_transactions;
mod progress;
mod replication;
mod server_status;
mod sharding;
mod shown_client;
mod snapshot;
mod status;
mod work_questions;

use std::sync::Arc;
use std::time::Duration;

use crate::Sampler;

pub use collection::Namespace;
pub use deployment::Servers;
pub use link::{WatchedRole, WatchedServer};
pub use replication::state_name;

use log_tail::LogTail;
pub(crate) use names::{NAMES, ValuePath};
use replication::Replication;
use sharding::ShardingSampler;
pub(crate) use snapshot::NameTree;
use status::StatusSampler;

/// One second, so that the beginning of a spike is known to the second.
const STATUS_PERIOD: Duration = Duration::from_secs(1);
/// Chunks move slowly, and counting them costs the configuration's servers.
const SHARDING_PERIOD: Duration = Duration::from_secs(10);

/// The samplers of all servers, each with its period. They wait for servers that do not answer, so they need their own
/// threads, ideally one for each server.
pub fn server_samplers(servers: &Servers, namespace: &Namespace) -> Vec<(Duration, Box<dyn Sampler>)> {
    let mut samplers: Vec<(Duration, Box<dyn Sampler>)> = Vec::new();
    let names = Arc::new(NameTree::new());
    let all = &servers.watched;
    for watched in all {
        let status = StatusSampler::new(watched.clone(), Arc::clone(&names), namespace.clone());
        samplers.push((STATUS_PERIOD, Box::new(status)));
        if watched.role.has_engine() {
            let log = LogTail::new(watched);
            samplers.push((log.period(), Box::new(log)));
        }
    }
    let mut sets: Vec<&str> = all.iter().filter_map(|watched| watched.set.as_deref()).collect();
    sets.sort_unstable();
    sets.dedup();
    for set in sets {
        let members: Vec<&WatchedServer> =
            all.iter().filter(|watched| watched.set.as_deref() == Some(set)).collect();
        samplers.push((STATUS_PERIOD, Box::new(Replication::new(set, &members))));
    }
    if let Some(router) = all.iter().find(|watched| watched.role == WatchedRole::Router) {
        let sharding = ShardingSampler::new(router, all, namespace.clone());
        samplers.push((SHARDING_PERIOD, Box::new(sharding)));
    }
    samplers
}
