//! The servers of a run side by side: what each is, how far it lags, what it serves and what a write takes on its device.

use fathom_record::disk::Entry;
use fathom_record::members::MemberRow;
use fathom_units::decimal;

use super::bars::{BarRow, BarTable};
use crate::figures::time_us;

/// The table; none of fewer than two servers.
pub(super) fn table(results: &[Entry]) -> Option<BarTable> {
    let members: Vec<&MemberRow> = results
        .iter()
        .filter_map(|entry| match entry {
            Entry::Member(row) => Some(row),
            _ => None,
        })
        .collect();
    (members.len() > 1).then(|| BarTable {
        id: "members".to_owned(),
        title: "Servers side by side".to_owned(),
        how: "Means over the run. Lag: how old the oldest write was that the member's journal lacked. A device that several servers \
              use is that of all of them."
            .to_owned(),
        heads: ["server", "engine", "lag", "operations/s", "device write"].map(str::to_owned).to_vec(),
        rows: members.into_iter().map(row).collect(),
        doubts: Vec::new(),
    })
}

fn row(member: &MemberRow) -> BarRow {
    let dash = || "-".to_owned();
    let mut name = member.member.clone();
    if let Some(role) = &member.role {
        name = format!("{name} {role}");
    }
    if let Some(part_of) = &member.part_of {
        name = format!("{name} of {part_of}");
    }
    if let Some(chunks) = member.chunks {
        name = format!("{name}, chunks: {}", decimal(chunks));
    }
    let served = match member.applied_per_s {
        Some(applied) => format!("{} applied", decimal(applied)),
        None => member.operations_per_s.map_or_else(dash, decimal),
    };
    let cells = vec![
        name,
        member.engine.clone().unwrap_or_else(dash),
        member.lag_ms.map_or_else(dash, |ms| time_us(1000.0 * ms)),
        served,
        member.device_write_us.map_or_else(dash, time_us),
    ];
    BarRow { cells, ..BarRow::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_a_server_is_and_one_server_needs_no_table() {
        let primary = MemberRow {
            member: "0".into(),
            engine: Some("wiredTiger".into()),
            role: Some("primary".into()),
            part_of: Some("rs0".into()),
            operations_per_s: Some(1200.0),
            ..MemberRow::default()
        };
        let secondary = MemberRow {
            member: "1".into(),
            role: Some("secondary".into()),
            lag_ms: Some(12.5),
            applied_per_s: Some(600.0),
            ..MemberRow::default()
        };
        let entries = [Entry::Member(primary), Entry::Member(secondary)];
        let table = table(&entries).unwrap();
        assert_eq!(table.rows[0].cells, ["0 primary of rs0", "wiredTiger", "-", "1,200", "-"]);
        assert_eq!(table.rows[1].cells, ["1 secondary", "-", "12.5 ms", "600 applied", "-"]);
        assert!(super::table(&entries[..1]).is_none());
    }
}
