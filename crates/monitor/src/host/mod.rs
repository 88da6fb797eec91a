//! The samplers of the servers' host, one for each source.

mod connection_threads;
mod devices;
mod in_flight;
mod machine;
mod process;
mod queues;
mod targets;
#[cfg(test)]
pub(crate) mod testing;
mod thread_reader;
mod top_processes;

pub(crate) use connection_threads::ConnectionThreads;
pub(crate) use devices::{DeviceCounters, Journals};
pub(crate) use in_flight::InFlightRequests;
pub(crate) use machine::{Cpu, MemoryPages, NetworkSampler, Pressures};
pub(crate) use process::ServerProcess;
pub(crate) use queues::Queues;
pub use targets::Devices;
pub(crate) use targets::{WatchedDevice, is_silent};
pub(crate) use top_processes::TopProcesses;

/// The end of the last window, at which the next one begins.
#[derive(Debug, Default)]
struct Edge(Option<u64>);

impl Edge {
    /// The window from the last edge to `at_ns`; `None` the first time.
    fn window_to(&mut self, at_ns: u64) -> Option<(u64, u64)> {
        let begin_ns = self.0.replace(at_ns)?;
        (begin_ns < at_ns).then_some((begin_ns, at_ns))
    }
}
