//! The operations that a server logged as slow, by the time in which each ran and by the collection that it names.

use fathom_record::SlowOperation;
use fathom_record::disk::Entry;

use crate::Evidence;
use crate::windows::Window;

/// The slow operations of one server, in the order of the run folder.
pub(crate) fn logged_operations<'e>(
    evidence: &'e Evidence,
    member: &str,
) -> impl Iterator<Item = &'e SlowOperation> {
    let server: Option<usize> = member.parse().ok();
    evidence.results.iter().filter_map(move |entry| match entry {
        Entry::SlowOperation(one) if Some(one.server) == server => Some(one.as_ref()),
        _ => None,
    })
}

/// The time in which an operation ran, by the run's clock.
pub(crate) fn window_of(operation: &SlowOperation) -> Window {
    (operation.ended_ns.saturating_sub(operation.duration_ms.saturating_mul(1_000_000)), operation.ended_ns)
}

/// The collection that an operation works on. The log names the database's `$cmd` for some commands; the command itself names the collection.
pub(crate) fn namespace_of(operation: &SlowOperation) -> String {
    let Some(database) = operation.namespace.strip_suffix(".$cmd") else {
        return operation.namespace.clone();
    };
    let collection = operation.line.split(&operation.operation).skip(1).find_map(|rest| {
        let value = rest.trim_start_matches('"').strip_prefix(':')?.trim_start().strip_prefix('"')?;
        value.split('"').next().filter(|name| !name.is_empty())
    });
    collection.map_or_else(|| database.to_owned(), |collection| format!("{database}.{collection}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(namespace: &str, operation: &str, line: &str) -> String {
        namespace_of(&SlowOperation {
            namespace: namespace.to_owned(),
            operation: operation.to_owned(),
            line: line.to_owned(),
            ..SlowOperation::default()
        })
    }

    #[test]
    fn a_command_names_the_collection_that_the_log_does_not() {
        let text =
            "I COMMAND [conn46] command a.$cmd command: createIndexes { createIndexes: \"t\", indexes: [] }";
        assert_eq!(named("a.$cmd", "createIndexes", text), "a.t");
        let json = r#"{"attr":{"ns":"a.$cmd","command":{"createIndexes":"t","indexes":[]}}}"#;
        assert_eq!(named("a.$cmd", "createIndexes", json), "a.t");
        assert_eq!(named("a.$cmd", "dropDatabase", "command: dropDatabase { dropDatabase: 1 }"), "a");
        assert_eq!(named("a.b", "find", ""), "a.b");
    }

    #[test]
    fn an_operation_that_began_before_the_run_has_a_window() {
        let operation = SlowOperation { ended_ns: 5, duration_ms: u64::MAX, ..SlowOperation::default() };
        assert_eq!(window_of(&operation), (0, 5));
    }
}
