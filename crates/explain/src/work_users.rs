//! Names who uses a resource of a server: scans of a collection, writes into one, and their applications.

use std::collections::BTreeMap;

use fathom_record::OperationGroup;

use crate::server_work::{WorkResource, WorkRow, WorkShare, WorkTable};

/// The kind of a user's operations, as a reader would call it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorkAction {
    /// Queries that read a whole collection.
    Scan,
    Query,
    Insert,
    Update,
    Delete,
    IndexBuild,
    /// Another command, by its name.
    Command(String),
}

impl WorkAction {
    /// The action of an operation by its name in `$currentOp` or its kind in `top`, and its plan.
    pub(crate) fn of(kind: &str, plan: Option<&str>) -> WorkAction {
        if plan.is_some_and(|plan| plan.contains("COLLSCAN")) {
            return WorkAction::Scan;
        }
        match kind {
            "insert" => WorkAction::Insert,
            "update" | "findAndModify" | "findandmodify" => WorkAction::Update,
            "delete" | "remove" => WorkAction::Delete,
            "createIndexes" => WorkAction::IndexBuild,
            "find" | "queries" | "getmore" | "aggregate" | "count" | "distinct" => WorkAction::Query,
            kind if kind.starts_with("getMore") => WorkAction::Query,
            other => WorkAction::Command(other.to_owned()),
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        matches!(self, WorkAction::Insert | WorkAction::Update | WorkAction::Delete)
    }
}

/// Operations of one action on one collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkUser {
    pub(crate) action: WorkAction,
    pub(crate) namespace: String,
}

impl WorkUser {
    pub(crate) fn of_row(row: &WorkRow) -> WorkUser {
        let action = WorkAction::of(&row.kind, row.plan.as_deref());
        WorkUser { action, namespace: row.namespace.clone() }
    }

    pub(crate) fn of_group(group: &OperationGroup) -> WorkUser {
        let action = WorkAction::of(&group.kind, group.plan.as_deref());
        WorkUser { action, namespace: group.namespace.clone() }
    }

    /// The user as the subject of a sentence, in the plural.
    pub(crate) fn words(&self) -> String {
        let namespace = &self.namespace;
        match &self.action {
            WorkAction::Scan => format!("scans of {namespace} without an index"),
            WorkAction::Query => format!("queries of {namespace}"),
            WorkAction::Insert => format!("inserts into {namespace}"),
            WorkAction::Update => format!("updates of {namespace}"),
            WorkAction::Delete => format!("deletes from {namespace}"),
            WorkAction::IndexBuild => format!("index builds on {namespace}"),
            WorkAction::Command(name) => format!("commands {name} on {namespace}"),
        }
    }
}

/// A user with its rows and its share of a resource.
#[derive(Clone, Debug)]
pub(crate) struct UserShare<'t> {
    pub(crate) user: WorkUser,
    pub(crate) rows: Vec<&'t WorkRow>,
    pub(crate) share: WorkShare,
}

impl UserShare<'_> {
    /// The user in words, with its application if all its operations come from one.
    pub(crate) fn words(&self) -> String {
        let words = self.user.words();
        match self.application() {
            Some(application) => format!("{words} from {application}"),
            None => words,
        }
    }

    fn application(&self) -> Option<&str> {
        let mut applications = self.rows.iter().map(|row| row.application.as_deref());
        let first = applications.next()??;
        applications.all(|one| one == Some(first)).then_some(first)
    }
}

/// The users of a resource, the largest first. `None` if it was not read.
pub(crate) fn users(table: &WorkTable, resource: WorkResource) -> Option<Vec<UserShare<'_>>> {
    let mut by_user: BTreeMap<WorkUser, Vec<&WorkRow>> = BTreeMap::new();
    for row in &table.rows {
        by_user.entry(WorkUser::of_row(row)).or_default().push(row);
    }
    let mut users = Vec::new();
    for (user, rows) in by_user {
        let share = table.share_of_rows(&rows, resource)?;
        users.push(UserShare { user, rows, share });
    }
    users.sort_by(|one, other| other.share.share.total_cmp(&one.share.share));
    Some(users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_work::WorkUse;

    fn row(kind: &str, namespace: &str, plan: Option<&str>, processor_us: f64) -> WorkRow {
        WorkRow {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            plan: plan.map(str::to_owned),
            application: Some("nightly".to_owned()),
            used: WorkUse { processor_us: Some(processor_us), ..WorkUse::default() },
            use_factors: (1.0, 1.0),
            ..WorkRow::default()
        }
    }

    #[test]
    fn rows_of_one_collection_and_action_are_one_user() {
        let mut other = row("aggregate", "a.b", Some("COLLSCAN"), 300.0);
        let rows = vec![row("find", "a.b", Some("COLLSCAN"), 500.0), row("insert", "a.c", None, 200.0)];
        let table = WorkTable { rows: [rows.clone(), vec![other.clone()]].concat(), ..WorkTable::default() };
        let found = users(&table, WorkResource::Processor).unwrap();
        let words: Vec<(String, f64)> = found.iter().map(|one| (one.words(), one.share.low)).collect();
        assert_eq!(
            words,
            [
                ("scans of a.b without an index from nightly".to_owned(), 0.8),
                ("inserts into a.c from nightly".to_owned(), 0.2)
            ]
        );
        other.application = Some("shop".to_owned());
        let table = WorkTable { rows: [rows, vec![other]].concat(), ..WorkTable::default() };
        let found = users(&table, WorkResource::Processor).unwrap();
        assert_eq!(found[0].words(), "scans of a.b without an index", "two applications are not named");
        assert!(users(&table, WorkResource::DiskReads).is_none());
    }
}
