//! The operations of a workload: commands whose parts are templates, alone, in sequence, or in a transaction.

mod read;

use super::template::Template;

pub(super) use read::read;

/// The metric name of the load's inserts.
pub(super) const LOAD: &str = "LOAD";

/// An operation that a mix names.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    /// The values that are drawn first and used in several places.
    pub(super) variables: Vec<Template>,
    /// The steps, in this order.
    pub(super) steps: Vec<WorkloadStep>,
    /// Set if the steps are one transaction.
    pub(super) transaction: Option<TransactionOptions>,
}

/// The options of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TransactionOptions {
    /// The level of `readConcern`.
    pub(super) read_concern: Option<String>,
    /// The most retries of a transaction after a conflict.
    pub(super) retries: u64,
}

#[derive(Clone, Debug)]
pub(super) struct WorkloadStep {
    /// The collection's index in the workload.
    pub(super) collection: usize,
    pub(super) command: StepCommand,
    /// Whether the step fails if it finds no document.
    pub(super) must_match: bool,
}

#[derive(Clone, Debug)]
pub(super) enum StepCommand {
    Find {
        filter: Template,
        sort: Option<Template>,
        projection: Option<Template>,
        hint: Option<Template>,
        skip: Option<u64>,
        limit: Option<u64>,
        batch_size: Option<u64>,
    },
    Insert {
        /// None: the collection's own.
        document: Option<Template>,
        documents: u64,
        ordered: bool,
    },
    Update {
        statements: Vec<UpdateStatement>,
        /// The number of repetitions of each statement in the command.
        times: u64,
        ordered: bool,
    },
    Delete {
        filter: Template,
        multi: bool,
    },
    FindAndModify {
        filter: Template,
        sort: Option<Template>,
        projection: Option<Template>,
        /// None: the document is removed.
        update: Option<Template>,
        new: bool,
        upsert: bool,
    },
    Aggregate {
        pipeline: Template,
        allow_disk_use: bool,
        batch_size: Option<u64>,
        limit: Option<u64>,
    },
    Count {
        filter: Template,
        limit: Option<u64>,
    },
    Distinct {
        key: String,
        filter: Template,
    },
}

/// One of the statements of an update.
#[derive(Clone, Debug)]
pub(super) struct UpdateStatement {
    pub(super) filter: Template,
    pub(super) update: Template,
    pub(super) multi: bool,
    pub(super) upsert: bool,
    pub(super) array_filters: Option<Template>,
}

impl StepCommand {
    /// MongoDB's name of the command.
    pub(super) fn name(&self) -> &'static str {
        match self {
            StepCommand::Find { .. } => "find",
            StepCommand::Insert { .. } => "insert",
            StepCommand::Update { .. } => "update",
            StepCommand::Delete { .. } => "delete",
            StepCommand::FindAndModify { .. } => "findAndModify",
            StepCommand::Aggregate { .. } => "aggregate",
            StepCommand::Count { .. } => "count",
            StepCommand::Distinct { .. } => "distinct",
        }
    }

    /// Whether it is a write that may go unanswered (`w:0`).
    pub(super) fn may_go_unanswered(&self) -> bool {
        matches!(self, StepCommand::Insert { .. } | StepCommand::Update { .. } | StepCommand::Delete { .. })
    }

    /// The templates that an operation writes.
    pub(super) fn templates(&self) -> Vec<&Template> {
        match self {
            StepCommand::Find { filter, sort, projection, hint, .. } => {
                [Some(filter), sort.as_ref(), projection.as_ref(), hint.as_ref()]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            StepCommand::Insert { document, .. } => document.iter().collect(),
            StepCommand::Update { statements, .. } => statements
                .iter()
                .flat_map(|one| [Some(&one.filter), Some(&one.update), one.array_filters.as_ref()])
                .flatten()
                .collect(),
            StepCommand::Delete { filter, .. }
            | StepCommand::Count { filter, .. }
            | StepCommand::Distinct { filter, .. } => vec![filter],
            StepCommand::FindAndModify { filter, sort, projection, update, .. } => {
                [Some(filter), sort.as_ref(), projection.as_ref(), update.as_ref()]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            StepCommand::Aggregate { pipeline, .. } => vec![pipeline],
        }
    }

    /// The filter that chooses the documents.
    pub(super) fn filter(&self) -> Option<&Template> {
        match self {
            StepCommand::Find { filter, .. }
            | StepCommand::Delete { filter, .. }
            | StepCommand::FindAndModify { filter, .. }
            | StepCommand::Count { filter, .. }
            | StepCommand::Distinct { filter, .. } => Some(filter),
            StepCommand::Update { statements, .. } => statements.first().map(|one| &one.filter),
            StepCommand::Insert { .. } | StepCommand::Aggregate { .. } => None,
        }
    }
}

impl Operation {
    /// Whether each of its steps is also measured separately.
    pub(super) fn has_parts(&self) -> bool {
        self.steps.len() > 1 || self.transaction.is_some()
    }

    /// The names of its parts, as the report has them.
    pub(super) fn parts(&self) -> Vec<String> {
        if !self.has_parts() {
            return Vec::new();
        }
        let mut parts: Vec<String> = Vec::new();
        for step in &self.steps {
            let name = format!("{}.{}", self.name, step.command.name());
            if !parts.contains(&name) {
                parts.push(name);
            }
        }
        if self.transaction.is_some() {
            parts.push(format!("{}.commit", self.name));
        }
        parts
    }

    /// The most documents that it inserts at once, if it only inserts.
    pub(super) fn batch(&self) -> u64 {
        match (self.steps.as_slice(), &self.transaction) {
            ([WorkloadStep { command: StepCommand::Insert { documents, .. }, .. }], None) => *documents,
            _ => 1,
        }
    }
}
