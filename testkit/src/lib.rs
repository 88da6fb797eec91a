//! Fixtures for tests: real and difficult disks, and the program under test within limits.
//!
//! A fixture that this machine does not support ends its test as skipped ([`skip!`]). Each fixture removes itself on
//! drop, also in a panic; mounts, devices and cgroups of a killed test run are removed by the next run. The kit is not
//! part of the product.

extern crate self as fathom_testkit;

mod browser;
mod delay_proxy;
mod disturbance;
mod fathom;
mod fuse;
mod guest;
mod knob;
mod lab_server;
mod leftovers;
mod limit_group;
mod network;
mod null_responder;
mod ports;
mod real_disk;
mod recording;
mod recording_traps;
mod refusal_list;
mod scratch;
mod skip;
mod slow_disk;
mod tmpfs;
mod token_bucket;

pub use browser::{Browser, Paper, Tab};
pub use delay_proxy::DelayProxy;
pub use disturbance::{Disturbance, DisturbanceLimit, undisturbed, with_disturbance};
pub use fathom::{Fathom, Output, RunningProgram, TIMEOUT};
pub use fathom_testkit_macros::test;
pub use fuse::FuseMount;
pub use guest::{Drive, Guest, SERVER_PORT, packed};
pub use knob::Knob;
pub use lab_server::LabServer;
pub use leftovers::{leftovers, processes_naming};
pub use limit_group::LimitGroup;
pub use network::Network;
pub use null_responder::{Manner, NullResponder};
pub use ports::Ports;
pub use real_disk::{RealDisk, need_loop_devices};
pub use recording::{
    RECORDING_BEGIN_MS, RECORDING_SAMPLES, REPEATED_SAMPLES, RecordedProcess, RecordingWriter,
    write_recording,
};
pub use recording_traps::{RecordingTrap, write_trap};
pub use refusal_list::RefusalList;
pub use scratch::{Scratch, fill, fill_to, is_root, need_root, note_process};
pub use skip::{Need, OrSkip, count_assertion, end_as_skipped, note_stale, run_test};
pub use slow_disk::{SlowDisk, Speed};
pub use tmpfs::Tmpfs;
pub use token_bucket::Allowance;
// The names that tests need to request a disk.
pub use fathom_process::{Guard, Ledger};
pub use fathom_storage::{Cap, CapLimits, Filesystem, FilesystemOptions};
pub use fathom_units::Bytes;
// These enable features of dependencies of many crates (serde, serde_json). As dependencies of the kit they do so in every build of
// the workspace; as dependencies of one crate's tests, in builds of tests alone, and `cargo doc` would compile all those crates again.
pub use jsonschema;
pub use loom;
