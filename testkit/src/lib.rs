//! Real disks and awkward ones for the tests, and the program under test with a leash.
//!
//! Fixtures need root and say on standard error why they are skipped without it. Each takes itself down when it
//! goes out of scope, also in a panic; mounts, devices and cgroups that a killed test run left are taken down by
//! the next. It is not part of the product.

mod browser;
mod delay_proxy;
mod fathom;
mod fuse;
mod guest;
mod knob;
mod lab_server;
mod leftovers;
mod network;
mod null_responder;
mod real_disk;
mod scratch;
mod slow_disk;
mod standstill;
mod tmpfs;

pub use browser::{Browser, Paper, Tab};
pub use delay_proxy::DelayProxy;
pub use fathom::{Fathom, Output, Running};
pub use fuse::FuseMount;
pub use guest::{Drive, Guest, stripped};
pub use knob::Knob;
pub use lab_server::LabServer;
pub use leftovers::leftovers;
pub use network::Network;
pub use null_responder::{Manner, NullResponder};
pub use real_disk::RealDisk;
pub use scratch::{Scratch, fill, is_root, note_process};
pub use slow_disk::{SlowDisk, Speed};
pub use standstill::undisturbed;
pub use tmpfs::Tmpfs;
// What tests need to name when they ask for a disk.
pub use fathom_process::{Guard, Ledger};
pub use fathom_storage::{Cap, CapLimits, Filesystem, FilesystemOptions};
pub use fathom_units::Bytes;
