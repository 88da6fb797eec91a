//! Faults made on purpose on a real server and real disks, and whether `fathom explain` names them.
//!
//! A study has two halves: it records run folders during the fault, and it checks the verdicts on them. `make test` checks
//! the recorded bundles below `tests/faults/bundles`; `make proof` records new ones on real devices and checks them with the same
//! assertions (`RECORD=1 make proof ONLY=faults` then writes the bundles).

mod cache;
mod checkpoint;
mod device;
pub(crate) mod diagnosis;
mod heavy_work;
mod network;
mod open_transaction;
pub(crate) mod other_clients;
mod pair;
mod processor;
pub(crate) mod recorder;
mod stall;
mod standstill;
pub(crate) mod study;
