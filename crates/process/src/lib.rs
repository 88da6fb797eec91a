//! Handles signals, and undoes the changes that this process made to the machine.
//!
//! The crate `storage` makes loop devices, mounts and cgroups, not this one. This crate ensures that each is recorded
//! before it is made ([`Ledger`]), and knows how to undo it, which a later `fathom cleanup` needs without knowing its
//! maker.

pub mod ledger;
mod process_id;
mod resource;
mod signals;
mod signature;
mod tool;
mod undo;

pub use ledger::{Guard, Ledger, LedgerEntry};
pub use process_id::ProcessId;
pub use resource::{ComponentDisk, Identity, Resource};
pub use signals::{ServiceSignals, SignalRequest, Signals};
pub use signature::{Signature, signatures};
pub use tool::{Tool, lvm_tool};
