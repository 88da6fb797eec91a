//! Compares the host's settings with the advice of MongoDB's vendor for a version, and saves snapshots of hosts.
//!
//! One table of rules ([`RULES`]) has the source of each setting, the wanted values by version, the severity, the
//! reason, and the page that advises it. A rule's function adds the commands that would fix it. The doctor runs no
//! command and changes no setting; it writes only the files of a requested snapshot.

mod change;
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
mod script;
mod snapshot;
mod version;

use fathom_errors::Result;
use fathom_record::Finding;
use serde::Serialize;

use crate::View;
pub use context::{Context, DoctorOptions};
pub use rule::{DoctorRule, RuleScope, RuleVerdict};
pub use rules::RULES;
pub use script::Script;
pub use snapshot::{SnapshotSize, save};
pub use version::{MongoVersion, Triple, Versions};

/// The subject of a judgement, as a report shows it: the host, the data's folder, and its devices. It holds no host name and no
/// addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorSubject {
    /// `live` for this host, `snapshot` for a copy.
    pub origin: &'static str,
    pub dir: String,
    /// `xfs on /data`, where the mount is known.
    pub mount: Option<String>,
    /// The devices under it, top first.
    pub devices: Vec<String>,
    /// The output of `uname -r`.
    pub kernel: String,
    /// The output of `uname -m`.
    pub architecture: String,
    /// The version of MongoDB judged for.
    pub mongodb: String,
    /// The running server's process number.
    pub mongod_pid: Option<u32>,
}

impl DoctorSubject {
    fn from_context(context: &Context) -> Self {
        DoctorSubject {
            origin: if context.view.is_live() { "live" } else { "snapshot" },
            dir: context.dir.display().to_string(),
            mount: context
                .mount
                .as_ref()
                .map(|mount| format!("{} on {}", mount.fs_type, mount.mount_point.display())),
            devices: context.stack.layers.iter().map(|device| device.name.clone()).collect(),
            kernel: context.kernel.to_string(),
            architecture: context.architecture.clone(),
            mongodb: context.mongodb.to_string(),
            mongod_pid: context.mongod.as_ref().map(|mongod| mongod.pid),
        }
    }
}

/// The checked subject, the assumptions, and the findings.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The host, the data's folder and the stack of devices under it.
    pub subject: DoctorSubject,
    /// The assumed facts, as sentences.
    pub assumptions: Vec<String>,
    /// Every verdict, in the order of the table.
    pub findings: Vec<Finding>,
}

/// Judges a live host or a snapshot.
///
/// Fails if the folder does not exist, or if this version cannot read the snapshot.
pub fn examine(view: &View, options: &DoctorOptions) -> Result<Diagnosis> {
    let context = Context::read(view, options)?;
    let findings = RULES
        .iter()
        .filter(|rule| rule.applies.to(&context))
        .flat_map(|rule| (rule.check)(&context).into_iter().map(|verdict| verdict.into_finding(rule)))
        .collect();
    Ok(Diagnosis {
        subject: DoctorSubject::from_context(&context),
        assumptions: context.assumptions,
        findings,
    })
}
