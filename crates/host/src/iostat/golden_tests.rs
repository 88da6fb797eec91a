//! Compares our reports with the output of sysstat 12.6 from the same counters (`tests/fixtures/iostat/README.md`), and
//! checks the forms that sysstat does not have.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::{Partitions, Selection, Snapshot, Stack, Unit, json, notes, report};
use super::*;
use crate::sched::CpuTimes;
use crate::{View, diskstats, kernel};

const CASES: &[&str] = &["kernel-3.10", "kernel-4.18", "kernel-6.1-stack", "wrap-5.15"];

fn folder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/iostat").join(case)
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

struct Case {
    before: Snapshot,
    after: Snapshot,
    stack: Stack,
    view: View,
}

fn case(name: &str) -> Case {
    let snapshot = |moment: &str| {
        let file = |file: &str| read(folder(name).join(moment).join(file));
        let uptime = file("uptime");
        let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let uptime_ns = (seconds * 1e9) as u64;
        let cpu = CpuTimes::parse(&file("stat")).unwrap();
        Snapshot { taken_ns: uptime_ns, uptime_ns, cpu, lines: diskstats::parse(&file("diskstats")) }
    };
    let view = View::snapshot(folder(name)).unwrap();
    Case { before: snapshot("before"), after: snapshot("after"), stack: Stack::read(&view), view }
}

impl Case {
    fn reports(&self, options: &IostatOptions) -> [Report; 2] {
        let selection = Selection::resolve(options, &self.stack, &self.before.lines).unwrap();
        [
            report(None, &self.before, &selection, options, &self.stack),
            report(Some(&self.before), &self.after, &selection, options, &self.stack),
        ]
    }

    fn text(&self, options: &IostatOptions) -> String {
        self.reports(options).iter().map(|one| super::report(one, options, "")).collect()
    }

    fn json(&self, options: &IostatOptions) -> String {
        let mut out = json::begin(&IostatHeader::default());
        for (index, one) in self.reports(options).iter().enumerate() {
            out += &json::statistics(one, options, "", index == 0);
        }
        out + json::end()
    }
}

/// The options that a line of `goldens.txt` gives to sysstat.
fn parse_options(words: &[&str]) -> IostatOptions {
    let has = |word: &str| words.contains(&word);
    IostatOptions {
        cpu: !has("-d"),
        disks: true,
        extended: has("-x"),
        short: has("-s"),
        unit: if has("-m") { Unit::Mib } else { Unit::Kib },
        omit_idle: has("-z"),
        partitions: if has("-p") { Partitions::All } else { Partitions::None },
        ..IostatOptions::default()
    }
}

#[test]
fn every_report_is_the_one_that_sysstat_prints() {
    let list = read(folder("goldens.txt"));
    let mut compared = 0;
    for line in list.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let options = parse_options(&words[1..]);
        for name in CASES {
            let golden = read(folder(name).join("golden").join(words[0]));
            let case = case(name);
            // Where the times of reads and writes together pass 2^32 ms, sysstat's narrow form adds them in 32 bits
            // and shows a wrong await since boot; the second report is right again.
            let skip = usize::from(*name == "wrap-5.15" && words.contains(&"-s"));
            if words.contains(&"JSON") {
                let statistics = |text: &str| {
                    let document: Value = serde_json::from_str(text).unwrap();
                    document["sysstat"]["hosts"][0]["statistics"].as_array().unwrap()[skip..].to_vec()
                };
                assert_eq!(statistics(&case.json(&options)), statistics(&golden), "{name}: {line}");
                assert_eq!(keys(&case.json(&options)), keys(&golden), "{name}: {line}: order of keys");
            } else {
                let reports = |text: &str| -> Vec<String> {
                    text.split("\n\n\n").skip(skip).map(str::to_owned).collect()
                };
                assert_eq!(reports(&case.text(&options)), reports(&golden), "{name}: {line}");
            }
            compared += 1;
        }
    }
    assert!(compared >= 40, "only {compared} reports were compared");
}

/// Every key in the order of the text.
fn keys(json: &str) -> Vec<&str> {
    json.split('"').collect::<Vec<_>>().windows(2).filter(|w| w[1].starts_with(':')).map(|w| w[0]).collect()
}

#[test]
fn the_tree_counts_no_request_twice() {
    let options =
        IostatOptions { disks: true, extended: true, short: true, tree: true, ..IostatOptions::default() };
    let case = case("kernel-6.1-stack");
    let [_, report] = case.reports(&options);
    assert_eq!(
        super::report(&report, &options, ""),
        "\
Device                 tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util
loop0                50.00    200.00     0.00    0.50     4.00    0.03   1.00
  dm-0 (vg0-data)  1000.00  48000.00     0.00    1.20    48.00    1.20  90.00
    md0            1000.00  48000.00     0.00    1.20    48.00    1.20  90.00
      sda1          500.00  24000.00     4.00    1.18    48.00    0.59  49.00
        sda         600.00  24000.00     4.00    1.00    40.00    0.61  50.00
      sdb1          500.00  24000.00     4.00    1.18    48.00    0.59  49.00
        sdb         600.00  24000.00     4.00    1.00    40.00    0.60  50.00
sdc                   0.00      0.00     0.00    0.00     0.00    0.00   0.00
total of 3         1200.00  48000.00     8.00    1.00    40.00    1.21  33.33


"
    );
    let document: Value = serde_json::from_str(&case.json(&options)).unwrap();
    let last = &document["sysstat"]["hosts"][0]["statistics"][1];
    assert_eq!(last["total"]["disks"], 3);
    assert_eq!(last["total"]["tps"], 1200.0);
    assert_eq!(last["disk"][1]["disk_device"], "dm-0");
    assert_eq!(last["disk"][1]["below"], serde_json::json!(["md0"]));
}

#[test]
fn a_device_under_two_others_is_shown_once() {
    let options = IostatOptions { disks: true, tree: true, ..IostatOptions::default() };
    let lines =
        "8 0 sda 1 0 8 1 0 0 0 0 0 1 1\n9 0 md0 1 0 8 1 0 0 0 0 0 1 1\n9 1 md1 1 0 8 1 0 0 0 0 0 1 1\n";
    let root = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(root.path().join("proc")).unwrap();
    for (name, number) in [("sda", "8:0"), ("md0", "9:0"), ("md1", "9:1")] {
        let device = root.path().join("sys/block").join(name);
        std::fs::create_dir_all(device.join("slaves")).unwrap();
        std::fs::write(device.join("dev"), number).unwrap();
        if name != "sda" {
            std::fs::write(device.join("slaves/sda"), "").unwrap();
        }
    }
    let stack = Stack::read(&View::snapshot(root.path()).unwrap());
    let after = Snapshot { uptime_ns: 1_000_000_000, lines: diskstats::parse(lines), ..Snapshot::default() };
    let selection = Selection::resolve(&options, &stack, &after.lines).unwrap();
    let report = report(None, &after, &selection, &options, &stack);
    let text = super::report(&report, &options, "");
    assert!(text.contains("md0 ") && text.contains("md1 "), "{text}");
    assert_eq!(text.matches("  sda").count(), 2);
    assert_eq!(text.matches("  sda         (shown above)").count(), 1, "{text}");
    assert_eq!(report.total.unwrap().0.all.requests, 1);
}

#[test]
fn more_columns_say_what_is_not_known() {
    let options =
        IostatOptions { disks: true, extended: true, short: true, more: true, ..IostatOptions::default() };
    let [_, new] = case("kernel-6.1-stack").reports(&options);
    let text = super::report(&new, &options, "");
    assert!(text.lines().next().unwrap().ends_with("aqu-sz  %util    cw/s inflight"), "{text}");
    assert!(text.contains("    0.60  50.00  300.00        2\n"), "{text}");
    let [_, old] = case("kernel-3.10").reports(&options);
    let text = super::report(&old, &options, "");
    assert!(text.contains("    5.40  95.00       -       17\n"), "{text}");
    let document: Value = serde_json::from_str(&case("kernel-3.10").json(&options)).unwrap();
    assert_eq!(document["sysstat"]["hosts"][0]["statistics"][1]["disk"][0]["cw/s"], Value::Null);
}

#[test]
fn names_and_time_stamps_where_they_are_asked_for() {
    let mut options =
        IostatOptions { disks: true, timestamp: true, mapper_names: true, ..IostatOptions::default() };
    options.devices = vec!["/dev/mapper/vg0-data".to_owned(), "sdb".to_owned()];
    let case = case("kernel-6.1-stack");
    let text = super::report(&case.reports(&options)[1], &options, "11/14/23 22:13:20");
    assert!(text.starts_with("11/14/23 22:13:20\nDevice             tps"), "{text}");
    assert!(
        text.contains("\nvg0-data       1000.00 ") && text.contains("\nsdb             600.00 "),
        "{text}"
    );
    options.devices.clear();
    options.partitions = Partitions::Of(vec!["sda".to_owned()]);
    let shown: Vec<String> = case.reports(&options)[1].rows.iter().map(|row| row.name.clone()).collect();
    assert_eq!(shown, ["sda", "sda1"]);
}

#[test]
fn the_notes_name_frozen_and_misleading_devices() {
    let case = case("kernel-6.1-stack");
    let version = kernel::read(&case.view);
    let notes = notes(version.as_ref(), &case.stack, &["dm-0", "sda", "sdc"], true);
    let [util, frozen, stacked] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(util.starts_with("%util on 6.1.0-28-amd64 counts a whole clock tick"));
    assert_eq!(frozen, "sdc: queue/iostats is 0, so the kernel does not count its requests");
    assert!(stacked.starts_with("dm-0: dm and md before kernel 6.3"));
}

#[test]
fn a_report_without_devices_is_still_a_document() {
    let options = IostatOptions { cpu: true, disks: true, ..IostatOptions::default() };
    let document = json::begin(&IostatHeader::default())
        + &json::statistics(&Report::default(), &options, "", true)
        + json::end();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["sysstat"]["hosts"][0]["statistics"][0]["disk"], serde_json::json!([]));
    let empty = json::begin(&IostatHeader::default()) + json::end();
    assert!(serde_json::from_str::<Value>(&empty).is_ok(), "stopped before the first report");
}
