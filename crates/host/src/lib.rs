//! Reads what Linux shows of this machine, and compares it with the advice of MongoDB's vendor.
//!
//! Everything is read through a [`View`], which is either the live `/proc` and `/sys` or a folder saved from another
//! machine, so that every parser and every rule can be tested, and a customer's host judged, without access to the
//! machine. This crate does not change the machine.

mod block;
pub mod cgroup;
mod device_number;
mod device_stack;
mod disk_counters;
pub mod diskstats;
pub mod doctor;
pub mod environment;
pub mod file_system_journal;
pub mod iostat;
pub mod kernel;
mod machine_size;
pub mod memory;
mod mounts;
pub mod network;
pub mod pressure;
pub mod process;
pub mod rates;
pub mod run_queue;
pub mod sched;
mod sysfs_counters;
mod view;

pub use block::{BlockTree, Device, DeviceKind};
pub use device_number::DeviceNumber;
pub use device_stack::{DeviceStack, ReadAhead};
pub use machine_size::MachineSize;
pub use mounts::{Mount, Mounts};
pub use view::View;
