//! The host's settings against what MongoDB's vendor advises for a version, and what a snapshot of a host keeps.
//!
//! One table of rules ([`RULES`]) says where each setting is read, what is wanted for which versions, how much it
//! matters, which page says so and which command would fix it. Nothing here runs a command or changes a setting;
//! the only files written are those of a snapshot that was asked for.

mod context;
mod control;
mod cpu;
mod device;
mod filesystem;
mod limits;
mod manifest;
mod memory;
mod mongod;
mod pages;
mod queue;
mod raid;
mod rule;
mod rules;
mod snapshot;
mod version;

use fathom_errors::Result;
use fathom_record::Finding;
use serde::Serialize;

use crate::View;
pub use context::{Context, Options};
pub use rule::{Applies, Rule, Verdict};
pub use rules::RULES;
pub use snapshot::{Saved, save};
pub use version::{MongoVersion, Triple, Versions};

/// Who was judged, as a report shows it: the host, the data's folder, and what it stands on. It holds no host name and no
/// addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// `live` or `snapshot`.
    pub origin: &'static str,
    /// The data's folder.
    pub dir: String,
    /// `xfs on /data`, where the mount is known.
    pub mount: Option<String>,
    /// The devices under it, top first.
    pub devices: Vec<String>,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub architecture: String,
    /// The version of MongoDB judged for.
    pub mongodb: String,
    /// The running server's process number.
    pub mongod_pid: Option<u32>,
}

impl Subject {
    fn of(context: &Context) -> Self {
        Subject {
            origin: if context.view.is_live() { "live" } else { "snapshot" },
            dir: context.dir.display().to_string(),
            mount: context
                .mount
                .as_ref()
                .map(|mount| format!("{} on {}", mount.fs_type, mount.mount_point.display())),
            devices: context.layers.iter().map(|device| device.name.clone()).collect(),
            kernel: context.kernel.to_string(),
            architecture: context.architecture.clone(),
            mongodb: context.mongodb.to_string(),
            mongod_pid: context.mongod.as_ref().map(|mongod| mongod.pid),
        }
    }
}

/// What was looked at, what had to be assumed, and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The host, the data's folder and the stack of devices under it.
    pub subject: Subject,
    /// What nobody said and no file told, as sentences.
    pub assumptions: Vec<String>,
    /// Every verdict, in the order of the table.
    pub findings: Vec<Finding>,
}

/// Judges a live host or a snapshot.
///
/// Fails where the folder does not exist, or the snapshot is not one that this version reads.
pub fn examine(view: &View, options: &Options) -> Result<Diagnosis> {
    let context = Context::read(view, options)?;
    let findings = RULES
        .iter()
        .filter(|rule| rule.applies.to(&context))
        .flat_map(|rule| (rule.check)(&context).into_iter().map(|verdict| verdict.into_finding(rule)))
        .collect();
    Ok(Diagnosis { subject: Subject::of(&context), assumptions: context.assumptions, findings })
}
