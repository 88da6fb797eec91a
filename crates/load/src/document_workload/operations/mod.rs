//! The operations of a workload: commands whose parts are templates, alone, one behind the other, or in a transaction.

mod read;

use super::template::Template;

pub(super) use read::read;

/// What inserts of the load are measured as.
pub(super) const LOAD: &str = "LOAD";

/// An operation that a mix names.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    /// What is drawn first, and used in several places.
    pub(super) variables: Vec<Template>,
    /// What is done, in this order.
    pub(super) steps: Vec<Step>,
    /// Set if the steps are one transaction.
    pub(super) transaction: Option<Transaction>,
}

/// How a transaction goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    /// `readConcern`'s level.
    pub(super) read_concern: Option<String>,
    /// How often one that met another is begun again.
    pub(super) retries: u64,
}

/// One command.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The collection's place.
    pub(super) collection: usize,
    pub(super) command: Command,
    /// Whether it has failed if nothing is found.
    pub(super) must_match: bool,
}

/// What a command does.
#[derive(Clone, Debug)]
pub(super) enum Command {
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
        statements: Vec<Statement>,
        /// How often each statement is in the command.
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
pub(super) struct Statement {
    pub(super) filter: Template,
    pub(super) update: Template,
    pub(super) multi: bool,
    pub(super) upsert: bool,
    pub(super) array_filters: Option<Template>,
}

impl Command {
    /// MongoDB's name of the command.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Command::Find { .. } => "find",
            Command::Insert { .. } => "insert",
            Command::Update { .. } => "update",
            Command::Delete { .. } => "delete",
            Command::FindAndModify { .. } => "findAndModify",
            Command::Aggregate { .. } => "aggregate",
            Command::Count { .. } => "count",
            Command::Distinct { .. } => "distinct",
        }
    }

    /// Whether it is a write that need not be answered (`w:0`).
    pub(super) fn may_go_unanswered(&self) -> bool {
        matches!(self, Command::Insert { .. } | Command::Update { .. } | Command::Delete { .. })
    }

    /// The templates that an operation writes.
    pub(super) fn templates(&self) -> Vec<&Template> {
        match self {
            Command::Find { filter, sort, projection, hint, .. } => {
                [Some(filter), sort.as_ref(), projection.as_ref(), hint.as_ref()]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Command::Insert { document, .. } => document.iter().collect(),
            Command::Update { statements, .. } => statements
                .iter()
                .flat_map(|one| [Some(&one.filter), Some(&one.update), one.array_filters.as_ref()])
                .flatten()
                .collect(),
            Command::Delete { filter, .. }
            | Command::Count { filter, .. }
            | Command::Distinct { filter, .. } => vec![filter],
            Command::FindAndModify { filter, sort, projection, update, .. } => {
                [Some(filter), sort.as_ref(), projection.as_ref(), update.as_ref()]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Command::Aggregate { pipeline, .. } => vec![pipeline],
        }
    }

    /// What chooses the documents.
    pub(super) fn filter(&self) -> Option<&Template> {
        match self {
            Command::Find { filter, .. }
            | Command::Delete { filter, .. }
            | Command::FindAndModify { filter, .. }
            | Command::Count { filter, .. }
            | Command::Distinct { filter, .. } => Some(filter),
            Command::Update { statements, .. } => statements.first().map(|one| &one.filter),
            Command::Insert { .. } | Command::Aggregate { .. } => None,
        }
    }
}

impl Operation {
    /// Whether its steps are measured each by itself too.
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

    /// The most documents that it inserts at once, where that is all it does.
    pub(super) fn batch(&self) -> u64 {
        match (self.steps.as_slice(), &self.transaction) {
            ([Step { command: Command::Insert { documents, .. }, .. }], None) => *documents,
            _ => 1,
        }
    }
}
