//! The operations of each server over the run: kind, namespace, plan, application, time and disk bytes. No value of a query is among
//! them.

use serde::Serialize;

use crate::terminal_text::{bytes, time_us};

/// The number of kinds that a table lists.
const MAX_ROWS: usize = 20;
const HEADS: [&str; 8] =
    ["operation", "plan", "application", "time", "share of all time", "longest", "processor", "disk"];

/// The operations of one server over a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerOperations {
    /// The server's number in the run.
    pub server: usize,
    /// The kinds of operations, those with the longest time first.
    pub rows: Vec<OperationRow>,
    /// The number of readings of `$currentOp` that they rest on.
    pub readings: u64,
    /// The name of the threads that serve many connections each, if the server has such threads.
    pub shared_threads: Option<String>,
}

/// Operations of one kind on one namespace with one plan, of one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationRow {
    pub kind: String,
    pub namespace: String,
    pub plan: Option<String>,
    pub application: Option<String>,
    /// The time of all of them, in microseconds: that of two which run at once counts twice.
    pub time_us: f64,
    /// Their share of the time of all operations in words, with its bounds.
    pub share: Option<String>,
    /// The longest time for which one was seen running, in microseconds; zero if none was.
    pub longest_us: u64,
    /// The use of the threads of their connections; `None` if these were not read.
    pub processor_us: Option<f64>,
    pub disk_bytes: Option<f64>,
}

/// The tables for the template.
#[derive(Debug, Serialize)]
pub(super) struct OperationTables {
    summary: String,
    heads: [&'static str; 8],
    tables: Vec<OperationTable>,
}

/// The table of one server.
#[derive(Debug, Serialize)]
struct OperationTable {
    caption: String,
    rows: Vec<[String; 8]>,
}

/// The tables of servers that ran anything; `None` if there is none.
pub(super) fn tables(servers: &[ServerOperations]) -> Option<OperationTables> {
    let busy: Vec<&ServerOperations> = servers.iter().filter(|one| !one.rows.is_empty()).collect();
    let kinds: usize = busy.iter().map(|one| one.rows.len()).sum();
    let on = if busy.len() > 1 { format!(" on {} servers", busy.len()) } else { String::new() };
    let summary = format!("{kinds} kind{} of operations{on}", if kinds == 1 { "" } else { "s" });
    let tables = busy.into_iter().map(table).collect();
    (kinds > 0).then_some(OperationTables { summary, heads: HEADS, tables })
}

fn table(server: &ServerOperations) -> OperationTable {
    let mut caption = format!(
        "Server {}: operations by their time, from {} reading{} of $currentOp and from the totals of top. The time of two operations that run at once counts twice.",
        server.server,
        server.readings,
        if server.readings == 1 { "" } else { "s" },
    );
    caption.push_str(&match &server.shared_threads {
        Some(threads) => format!(
            " Its threads serve many connections each ({threads}), so which operations use processors and the disk is not known: only the shares of $currentOp and top count."
        ),
        None => " Processor time and disk bytes are those of the threads of their connections.".to_owned(),
    });
    let unlisted = server.rows.len().saturating_sub(MAX_ROWS);
    if unlisted > 0 {
        caption.push_str(&format!(" {unlisted} more took less time each."));
    }
    OperationTable { caption, rows: server.rows.iter().take(MAX_ROWS).map(cells).collect() }
}

fn cells(row: &OperationRow) -> [String; 8] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let longest = (row.longest_us > 0).then(|| time_us(row.longest_us as f64));
    [
        format!("{} {}", row.kind, row.namespace),
        or_dash(&row.plan),
        or_dash(&row.application),
        time_us(row.time_us),
        or_dash(&row.share),
        or_dash(&longest),
        or_dash(&row.processor_us.map(time_us)),
        or_dash(&row.disk_bytes.map(bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use fathom_record::disk::Entry;
    use fathom_record::pictures::Pictures;
    use fathom_record::{Manifest, OperationGroup, Redaction, SeriesSet, ServerWork};

    use super::super::tests::source;
    use super::super::{PageSource, page};
    use super::*;

    fn scan() -> OperationRow {
        OperationRow {
            kind: "find".into(),
            namespace: "shop.orders".into(),
            plan: Some("COLLSCAN".into()),
            application: Some("billing".into()),
            time_us: 12_500_000.0,
            share: Some("85 to 92 %".into()),
            longest_us: 143_000,
            processor_us: Some(9_000_000.0),
            disk_bytes: Some(20_000_000.0),
        }
    }

    fn manifest() -> Manifest {
        Manifest::new("explain", "0.1.0", [])
    }

    fn shown(servers: &[ServerOperations], redaction: Option<&Redaction>) -> String {
        let (manifest, series, pictures) = (manifest(), SeriesSet::default(), Pictures::default());
        let source = PageSource { operations: servers, redaction, ..source(&manifest, &series, &pictures) };
        let text = page(&source).unwrap();
        let section = text.split("<section aria-labelledby=\"operations\">").nth(1);
        section.and_then(|rest| rest.split("</section>").next()).unwrap_or_default().to_owned()
    }

    /// The table as browsers and screen readers receive it.
    #[test]
    fn the_operations_of_a_server_are_a_folded_table() {
        let top =
            OperationRow { kind: "queries".into(), namespace: "shop.carts".into(), ..Default::default() };
        let server = ServerOperations { rows: vec![scan(), top], readings: 45, ..Default::default() };
        let expected = r#"
<h2 id="operations">Operations that ran</h2>
<details><summary>2 kinds of operations</summary>
<div class="scroll"><table><caption>Server 0: operations by their time, from 45 readings of $currentOp and from the totals of top. The time of two operations that run at once counts twice. Processor time and disk bytes are those of the threads of their connections.</caption>
<thead><tr><th scope="col">operation</th><th scope="col">plan</th><th scope="col">application</th><th scope="col">time</th><th scope="col">share of all time</th><th scope="col">longest</th><th scope="col">processor</th><th scope="col">disk</th></tr></thead>
<tbody><tr><th scope="row">find shop.orders</th><td>COLLSCAN</td><td>billing</td><td>12.5 s</td><td>85 to 92 %</td><td>143 ms</td><td>9.00 s</td><td>19.1 MiB</td></tr><tr><th scope="row">queries shop.carts</th><td>-</td><td>-</td><td>0 ns</td><td>-</td><td>-</td><td>-</td><td>-</td></tr></tbody></table></div>
</details>
"#;
        assert_eq!(shown(&[server], None), expected);
        assert_eq!(shown(&[], None), "");
    }

    #[test]
    fn shared_threads_and_rows_that_are_left_out_are_said() {
        let server = ServerOperations {
            server: 1,
            rows: vec![OperationRow { processor_us: None, disk_bytes: None, ..scan() }; MAX_ROWS + 3],
            readings: 1,
            shared_threads: Some("EventLoop".into()),
        };
        let text = shown(&[ServerOperations { rows: vec![scan()], ..Default::default() }, server], None);
        assert!(text.contains("24 kinds of operations on 2 servers"), "{text}");
        assert!(text.contains("Its threads serve many connections each (EventLoop)"), "{text}");
        assert!(text.contains(" 3 more took less time each."), "{text}");
        assert_eq!(text.matches("<th scope=\"row\">").count(), 1 + MAX_ROWS);
    }

    #[test]
    fn a_redacted_page_has_no_namespace_and_no_application() {
        let group = OperationGroup {
            namespace: "shop.orders".into(),
            application: Some("billing".into()),
            client: Some("10.0.0.7".into()),
            ..OperationGroup::default()
        };
        let work = ServerWork { operations: vec![group], ..ServerWork::default() };
        let results = [Entry::ServerWork(Box::new(work))];
        let redaction = Redaction::new([(&manifest(), &results[..])]);
        let server = ServerOperations { rows: vec![scan()], ..Default::default() };
        let text = shown(&[server], Some(&redaction));
        assert!(!text.contains("shop") && !text.contains("billing"), "{text}");
        let row = "<th scope=\"row\">find [namespace]</th><td>COLLSCAN</td><td>[application]</td>";
        assert!(text.contains(row), "{text}");
    }
}
