//! What this process owes the machine: signals are answered, and what was made is undone.
//!
//! Nothing here makes a loop device, a mount or a cgroup; that is `storage`'s. Here stands the promise that each
//! is written down before it is made ([`Ledger`]), and the knowledge of how to undo it, which a later
//! `fathom cleanup` needs without knowing who made it.

pub mod ledger;
mod process_id;
mod signals;
mod signature;
mod thing;
mod tool;
mod undo;

pub use ledger::{Entry, Guard, Ledger};
pub use process_id::ProcessId;
pub use signals::{Ask, ServiceSignals, Signals};
pub use signature::{Signature, signatures};
pub use thing::{Identity, Member, Thing};
pub use tool::{Tool, lvm_tool};
