//! The report as JSON in the shape of sysstat's `-o JSON`: one document for the whole run, key for key.
//!
//! The document is written during the run: [`begin`], one [`statistics`] a report, [`end`]. Each piece ends before the
//! comma that a next one would need, so that the document is valid wherever the run stops. Figures have two decimals,
//! as sysstat writes them.

use super::text::{known, push};
use super::{DeviceRow, IostatHeader, IostatOptions, Report};
use crate::rates::{Flow, Rates};

/// The text before the first report.
pub fn begin(header: &IostatHeader) -> String {
    let mut out = String::from("{\"sysstat\": {\n\t\"hosts\": [\n\t\t{\n");
    for (key, value) in [
        ("nodename", &header.nodename),
        ("sysname", &"Linux".to_owned()),
        ("release", &header.release),
        ("machine", &header.machine),
    ] {
        push(&mut out, format_args!("\t\t\t\"{key}\": {},\n", quote(value)));
    }
    push(&mut out, format_args!("\t\t\t\"number-of-cpus\": {},\n", header.cpus));
    push(&mut out, format_args!("\t\t\t\"date\": {},\n\t\t\t\"statistics\": [\n", quote(&header.date)));
    out
}

/// One report; without `first`, a comma comes before it.
pub fn statistics(report: &Report, options: &IostatOptions, timestamp: &str, first: bool) -> String {
    let mut parts = Vec::new();
    if options.timestamp {
        parts.push(format!("\t\t\t\t\t\"timestamp\": {}", quote(timestamp)));
    }
    if options.cpu {
        let cpu = report.cpu;
        parts.push(format!(
            "\t\t\t\t\t\"avg-cpu\":  {{\"user\": {:.2}, \"nice\": {:.2}, \"system\": {:.2}, \"iowait\": {:.2}, \"steal\": {:.2}, \"idle\": {:.2}}}",
            cpu.user_pct, cpu.nice_pct, cpu.system_pct, cpu.iowait_pct, cpu.steal_pct, cpu.idle_pct
        ));
    }
    if options.disks {
        let shown = report.rows.iter().filter_map(|row| disk(row, options));
        let disks: Vec<String> = shown.map(|disk| format!("\t\t\t\t\t\t{disk}")).collect();
        parts.push(format!("\t\t\t\t\t\"disk\": [\n{}\n\t\t\t\t\t]", disks.join(",\n")));
        if let Some((rates, count)) = &report.total {
            let fields = fields(rates, options);
            parts.push(format!("\t\t\t\t\t\"total\": {{\"disks\": {count}, {fields}}}"));
        }
    }
    let comma = if first { "" } else { "," };
    format!("{comma}\t\t\t\t{{\n{}\n\t\t\t\t}}\n", parts.join(",\n"))
}

/// The text after the last report.
pub fn end() -> &'static str {
    "\t\t\t]\n\t\t}\n\t]\n}}\n"
}

/// A device; `None` for one that was shown before. A silent one has `counted` in place of figures.
fn disk(row: &DeviceRow, options: &IostatOptions) -> Option<String> {
    let fields = match &row.rates {
        Some(rates) => fields(rates, options),
        None if row.is_silent => "\"counted\": false".to_owned(),
        None => return None,
    };
    let mut out = if options.tree {
        let below: Vec<String> = row.below.iter().map(|name| quote(name)).collect();
        format!("{{\"disk_device\": {}, \"below\": [{}], ", quote(&row.name), below.join(", "))
    } else {
        format!("{{\"disk_device\": {}, ", quote(&row.label))
    };
    push(&mut out, format_args!("{fields}}}"));
    Some(out)
}

fn fields(rates: &Rates, options: &IostatOptions) -> String {
    let mut fields = match (options.extended, options.short) {
        (true, false) => extended(rates, options),
        (true, true) => extended_short(rates, options),
        // sysstat has no narrow form of this report in JSON.
        (false, _) => basic(rates, options),
    };
    if options.more {
        fields.push((
            "cw/s".to_owned(),
            rates.corrected_writes_per_s.map_or_else(|| "null".to_owned(), decimals),
        ));
        fields.push(("inflight".to_owned(), rates.in_flight.to_string()));
    }
    let fields: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    fields.join(", ")
}

type JsonMembers = Vec<(String, String)>;

fn extended(rates: &Rates, options: &IostatOptions) -> JsonMembers {
    let unit = options.unit;
    let kinds: [(&str, Flow); 3] =
        [("r", rates.read), ("w", rates.write), ("d", rates.discard.unwrap_or_default())];
    let flush = rates.flush.unwrap_or_default();
    let each = |name: &dyn Fn(&str) -> String, figure: &dyn Fn(&Flow) -> f64| -> JsonMembers {
        kinds.iter().map(|(letter, flow)| (name(letter), decimals(figure(flow)))).collect()
    };
    let one = |name: &str, figure: f64| vec![(name.to_owned(), decimals(figure))];
    [
        each(&|k| format!("{k}/s"), &|flow| flow.per_s),
        one("f/s", flush.per_s),
        each(&|k| format!("{k}{}/s", unit.label(true)), &|flow| unit.of_kib(flow.kib_per_s)),
        each(&|k| format!("{k}rqm/s"), &|flow| flow.merges_per_s),
        each(&|k| format!("{k}rqm"), &|flow| known(flow.merged_pct)),
        each(&|k| format!("{k}_await"), &|flow| known(flow.await_ms)),
        one("f_await", known(flush.await_ms)),
        each(&|k| format!("{k}areq-sz"), &|flow| known(flow.areq_kib)),
        one("aqu-sz", rates.aqu_sz),
        one("util", rates.util_pct),
    ]
    .concat()
}

fn extended_short(rates: &Rates, options: &IostatOptions) -> JsonMembers {
    let field = |name: &str, figure: f64| (name.to_owned(), decimals(figure));
    vec![
        field("tps", rates.all.per_s),
        field(&format!("{}/s", options.unit.label(true)), options.unit.of_kib(rates.all.kib_per_s)),
        field("rqm/s", rates.all.merges_per_s),
        field("await", known(rates.all.await_ms)),
        field("areq-sz", known(rates.all.areq_kib)),
        field("aqu-sz", rates.aqu_sz),
        field("util", rates.util_pct),
    ]
}

fn basic(rates: &Rates, options: &IostatOptions) -> JsonMembers {
    let unit = options.unit;
    let label = unit.label(false);
    let kinds = [("read", rates.read), ("wrtn", rates.write), ("dscd", rates.discard.unwrap_or_default())];
    let mut fields = vec![("tps".to_owned(), decimals(rates.all.per_s))];
    fields.extend(
        kinds.iter().map(|(kind, flow)| (format!("{label}_{kind}/s"), decimals(unit.of_kib(flow.kib_per_s)))),
    );
    fields.extend(
        kinds
            .iter()
            .map(|(kind, flow)| (format!("{label}_{kind}"), unit.of_sectors(flow.sectors).to_string())),
    );
    fields
}

fn decimals(figure: f64) -> String {
    format!("{figure:.2}")
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
