//! Compares our reports with the output of sysstat from the same counters (`tests/fixtures/iostat/README.md`), and checks the
//! forms that sysstat does not have.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::{DeviceChoice, PersistentNames, Selection, Snapshot, Stack, Unit, json, notes, report};
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

/// The options that a line of a list of goldens gives to sysstat.
fn parse_options(words: &[&str]) -> IostatOptions {
    let mut options = IostatOptions { cpu: true, disks: true, ..IostatOptions::default() };
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        match word {
            "-d" => options.cpu = false,
            "-x" => options.extended = true,
            "-s" => options.short = true,
            "-m" => options.unit = Unit::Mib,
            "-z" => options.omit_idle = true,
            "-H" => options.totals_only = true,
            "-h" => (options.human, options.pretty) = (true, true),
            "--human" => options.human = true,
            "--pretty" => options.pretty = true,
            "--compact" => options.compact = true,
            "-o" => drop(words.next()),
            "-g" => options.chosen.push(DeviceChoice::Group(words.next().unwrap().to_owned())),
            "-dp" => {
                options.cpu = false;
                options.chosen.push(DeviceChoice::Everything { unused: false });
            }
            "-p" => match words.next_if(|next| !next.starts_with('-')) {
                None => options.chosen.push(DeviceChoice::Everything { unused: false }),
                Some(names) => options.chosen.extend(names.split(',').map(|name| match name {
                    "ALL" => DeviceChoice::Everything { unused: true },
                    name => DeviceChoice::WithPartitions(name.to_owned()),
                })),
            },
            "ALL" => options.chosen.push(DeviceChoice::AllDevices),
            word => match word.strip_prefix("--dec=") {
                Some(places) => options.decimals = places.parse().ok(),
                None => options.chosen.push(DeviceChoice::Device(word.to_owned())),
            },
        }
    }
    options
}

/// Compares the reports of a case, from `skip` on, with a golden; words are its file and the options.
fn compare(name: &str, words: &[&str], skip: usize) {
    let golden = read(folder(name).join("golden").join(words[0]));
    let (case, options) = (case(name), parse_options(&words[1..]));
    if words.contains(&"JSON") {
        let statistics = |text: &str| {
            let document: Value = serde_json::from_str(text).unwrap();
            document["sysstat"]["hosts"][0]["statistics"].as_array().unwrap()[skip..].to_vec()
        };
        assert_eq!(statistics(&case.json(&options)), statistics(&golden), "{name}: {words:?}");
        assert_eq!(keys(&case.json(&options)), keys(&golden), "{name}: {words:?}: order of keys");
    } else {
        let reports =
            |text: &str| -> Vec<String> { text.split("\n\n\n").skip(skip).map(str::to_owned).collect() };
        assert_eq!(reports(&case.text(&options)), reports(&golden), "{name}: {words:?}");
    }
}

#[test]
fn every_report_is_the_one_that_sysstat_prints() {
    let list = read(folder("goldens.txt"));
    let mut compared = 0;
    for line in list.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        for name in CASES {
            // Where the times of reads and writes together pass 2^32 ms, sysstat's narrow form adds them in 32 bits
            // and shows a wrong await since boot; the second report is right again.
            compare(name, &words, usize::from(*name == "wrap-5.15" && words.contains(&"-s")));
            compared += 1;
        }
    }
    assert!(compared >= 40, "only {compared} reports were compared");
}

#[test]
fn every_option_gives_the_layout_of_sysstat() {
    let list = read(folder("goldens-12.7.txt"));
    let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split(' ').collect()).collect();
    lines.iter().for_each(|words| compare(words[0], &words[1..], 0));
    assert!(lines.len() >= 20, "only {} reports were compared", lines.len());
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
sdc               (not counted)
total of 2         1200.00  48000.00     8.00    1.00    40.00    1.21  50.00


"
    );
    let document: Value = serde_json::from_str(&case.json(&options)).unwrap();
    let last = &document["sysstat"]["hosts"][0]["statistics"][1];
    assert_eq!(last["total"]["disks"], 2);
    let counted: Vec<&Value> = last["disk"].as_array().unwrap().iter().map(|disk| &disk["counted"]).collect();
    assert_eq!(counted.last().unwrap(), &&Value::Bool(false), "sdc has queue/iostats 0");
    assert_eq!(counted.iter().filter(|counted| counted.is_null()).count(), counted.len() - 1);
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
fn a_head_of_nvme_paths_is_not_idle_and_a_file_may_lie_on_two_devices() {
    let options = IostatOptions {
        disks: true,
        tree: true,
        chosen: vec![DeviceChoice::AllDevices],
        ..IostatOptions::default()
    };
    let lines = "0 0 nvme0c0n1 3 0 24 1 0 0 0 0 0 1 1\n0 0 nvme0c1n1 2 0 16 1 0 0 0 0 0 1 1\n\
                 259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n8 0 sda 10 0 80 1 0 0 0 0 0 1 1\n\
                 8 16 sdb 10 0 80 1 0 0 0 0 0 1 1\n7 0 loop0 20 0 160 1 0 0 0 0 0 1 1\n";
    let root = tempfile::TempDir::new().unwrap();
    for (path, text) in [
        ("proc/diskstats", lines),
        ("proc/self/mountinfo", "22 1 0:40 / / rw - btrfs /dev/sda rw\n"),
        ("sys/block/nvme0n1/dev", "259:0"),
        ("sys/block/nvme0c0n1/size", "9"),
        ("sys/block/nvme0c1n1/size", "9"),
        ("sys/block/sda/dev", "8:0"),
        ("sys/block/sdb/dev", "8:16"),
        ("sys/block/loop0/dev", "7:0"),
        ("sys/block/loop0/loop/backing_file", "/images/a"),
        ("sys/fs/btrfs/1e2f/devices/sda", ""),
        ("sys/fs/btrfs/1e2f/devices/sdb", ""),
    ] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let stack = Stack::read(&View::snapshot(root.path()).unwrap());
    let after = Snapshot { uptime_ns: 1_000_000_000, lines: diskstats::parse(lines), ..Snapshot::default() };
    let selection = Selection::resolve(&options, &stack, &after.lines).unwrap();
    let report = report(None, &after, &selection, &options, &stack);
    let shown: Vec<(&str, Option<f64>)> =
        report.rows.iter().map(|row| (row.label.as_str(), row.rates.map(|rates| rates.all.per_s))).collect();
    assert_eq!(
        shown,
        [
            ("loop0", Some(20.0)),
            ("  sda", Some(10.0)),
            ("  sdb", Some(10.0)),
            ("nvme0n1", None),
            ("  nvme0c0n1", Some(3.0)),
            ("  nvme0c1n1", Some(2.0)),
        ]
    );
    let text = super::report(&report, &options, "");
    assert!(text.contains("\nnvme0n1       (not counted)\n"), "{text}");
    let (total, devices) = report.total.unwrap();
    assert_eq!((total.all.per_s, devices), (25.0, 4));
    let version = kernel::KernelVersion::parse("5.14.0-427.el9.x86_64").unwrap();
    let notes = notes(Some(&version), &stack, &["nvme0n1", "sda"], false);
    assert!(notes.iter().any(|note| note.contains("see nvme0c0n1, nvme0c1n1")), "{notes:?}");
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
    options.chosen =
        ["/dev/mapper/vg0-data", "sdb"].map(|name| DeviceChoice::Device(name.to_owned())).to_vec();
    let case = case("kernel-6.1-stack");
    let text = super::report(&case.reports(&options)[1], &options, "11/14/23 22:13:20");
    assert!(text.starts_with("11/14/23 22:13:20\nDevice             tps"), "{text}");
    assert!(
        text.contains("\nvg0-data       1000.00 ") && text.contains("\nsdb             600.00 "),
        "{text}"
    );
    options.chosen = vec![DeviceChoice::WithPartitions("sda".to_owned())];
    let shown: Vec<String> = case.reports(&options)[1].rows.iter().map(|row| row.name.clone()).collect();
    assert_eq!(shown, ["sda", "sda1"]);
}

#[test]
fn persistent_names_replace_the_kernels() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("by-id")).unwrap();
    std::os::unix::fs::symlink("../../sdb", folder.path().join("by-id/wwn-0x5")).unwrap();
    let options = IostatOptions {
        disks: true,
        pretty: true,
        persistent: Some(PersistentNames::read(folder.path(), "id").unwrap()),
        chosen: ["wwn-0x5", "sda"].map(|name| DeviceChoice::Device(name.to_owned())).to_vec(),
        ..IostatOptions::default()
    };
    let text = super::report(&case("kernel-6.1-stack").reports(&options)[1], &options, "");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["Device", "sda", "wwn-0x5"]);
}

#[test]
fn sectors_are_the_unit_where_posix_is_asked_for() {
    let options = IostatOptions { disks: true, short: true, unit: Unit::Sectors, ..IostatOptions::default() };
    let [_, report] = case("kernel-6.1-stack").reports(&options);
    let text = super::report(&report, &options, "");
    assert!(
        text.starts_with("Device             tps   Blk_read/s    Blk_w+d/s   Blk_read    Blk_w+d\n"),
        "{text}"
    );
    assert!(text.contains("\nsdb             600.00     "), "{text}");
    let options = IostatOptions { extended: true, ..options };
    let text = super::report(&report, &options, "");
    assert!(text.starts_with("Device             tps     sec/s    rqm/s"), "{text}");
    assert!(text.contains("\nsdb             600.00  48000.00 "), "{text}");
}

/// sysstat divides the utilisation of a group by the devices of all reports so far, so its later reports are too low.
#[test]
fn the_utilisation_of_a_group_is_the_mean_of_its_devices() {
    let options = parse_options(&["-x", "-s", "-d", "-H", "-g", "both", "sda", "sdc"]);
    let [_, report] = case("kernel-6.1-stack").reports(&options);
    let text = super::report(&report, &options, "");
    assert!(text.lines().nth(1).unwrap().starts_with(" both") && text.contains("  25.00\n"), "{text}");
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
