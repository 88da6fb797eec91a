//! The host's settings against what MongoDB's vendor advises for a version, and what a snapshot of a host keeps.
//!
//! One table of rules ([`RULES`]) says where each setting is read, what is wanted for which versions, how much it
//! matters, which page says so and which command would fix it. Nothing here runs a command or changes a setting;
//! the only files written are those of a snapshot that was asked for.

mod context;
mod control;
mod cpu;
mod device;
mod files;
mod filesystem;
mod limits;
mod memory;
mod mongod;
mod numa;
mod pages;
mod queue;
mod raid;
mod rseq;
mod rule;
mod rules;
mod scheduler;
mod snapshot;
mod subject;
mod sysctl;
mod transport;
mod version;

use std::path::PathBuf;

use fathom_errors::Result;
use fathom_record::Finding;
use serde::Serialize;

use crate::View;
pub use context::Context;
pub use rule::{Applies, Rule, Verdict};
pub use rules::RULES;
pub use snapshot::{Saved, save};
pub use subject::Subject;
pub use version::{MongoVersion, Triple, Versions};

/// What the person said about the subject.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder of the data; else the running mongod's, else a default that exists.
    pub dir: Option<PathBuf>,
    /// The version to judge for; else the running mongod's, else [`MongoVersion::CURRENT`].
    pub mongodb: Option<MongoVersion>,
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
