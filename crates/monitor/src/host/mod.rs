//! What is read on the servers' host: one file for each source.

mod cpu;
mod devices;
mod in_flight;
mod journal;
mod memory;
mod network;
mod pressure;
mod process;
mod queues;
mod targets;
#[cfg(test)]
pub(crate) mod testing;
mod top_processes;

pub(crate) use cpu::Cpu;
pub(crate) use devices::DeviceCounters;
pub(crate) use in_flight::InFlight;
pub(crate) use journal::Journals;
pub(crate) use memory::MemoryPages;
pub(crate) use network::Network;
pub(crate) use pressure::Pressures;
pub(crate) use process::ServerProcess;
pub(crate) use queues::Queues;
pub use targets::Devices;
pub(crate) use targets::Target;
pub(crate) use top_processes::TopProcesses;

/// The end of the last window, which is where the next begins.
#[derive(Debug, Default)]
struct Edge(Option<u64>);

impl Edge {
    /// The window from the last edge to `at_ns`; none the first time.
    fn window_to(&mut self, at_ns: u64) -> Option<(u64, u64)> {
        let begin_ns = self.0.replace(at_ns)?;
        (begin_ns < at_ns).then_some((begin_ns, at_ns))
    }
}
