//! Tests `fathom iostat` against Debian's iostat on the same device and load, and its behaviour as a command.
//!
//! The exact figures and columns are tested on recorded counters in `fathom-host`; in `timed` the two programs read one
//! live device. The load begins after both have taken their first reading and ends before their second, so
//! both see the same requests and differ only by their clocks.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fathom_host::{View, diskstats};
use fathom_testkit::{Fathom, Filesystem, Need, RealDisk, RunningProgram, assert, assert_eq, skip, test};
use fathom_units::Bytes;
use rustix::process::Signal;
use serde_json::Value;

fn fathom(arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("iostat").args(arguments)
}

/// Ends the test as skipped where Debian's sysstat is missing.
fn need_sysstat() {
    let version = Command::new("iostat").arg("-V").output();
    let known = version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("sysstat version 12."));
    if !known {
        skip!(Need::Program, "no iostat of sysstat 12 on this machine");
    }
}

fn sysstat(arguments: &[&str]) -> Child {
    let mut command = Command::new("iostat");
    command.args(arguments).env("LC_ALL", "C").env_remove("S_TIME_FORMAT").env_remove("POSIXLY_CORRECT");
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn sysstat_text(arguments: &[&str]) -> String {
    String::from_utf8(sysstat(arguments).wait_with_output().unwrap().stdout).unwrap()
}

/// Any device that has done I/O, for tests that need no load; the test ends as skipped if there is none.
fn some_device() -> String {
    let lines = diskstats::read(&View::live()).unwrap_or_default();
    let busy = lines.into_iter().find(|line| line.counters.any_io() && !line.name.starts_with("loop"));
    match busy {
        Some(line) => line.name,
        None => skip!(Need::Kernel, "no block device of this machine has done I/O"),
    }
}

#[test]
fn headings_are_those_of_sysstat() {
    need_sysstat();
    let device = some_device();
    let headings = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("Device") || line.starts_with("avg-cpu"));
        lines.map(str::to_owned).collect()
    };
    for options in [
        "",
        "-x",
        "-x -s",
        "-x -m",
        "-d",
        "-x -t",
        "-s",
        "-s -m",
        "-c",
        "-k",
        "-c -d",
        "-d -p ALL",
        "-x -k -z",
    ] {
        let mut arguments: Vec<&str> = options.split_whitespace().collect();
        if !options.contains("-p") {
            arguments.push(&device);
        }
        let ours = fathom(&arguments).run().expect_code(0).stdout;
        let theirs = sysstat_text(&arguments);
        assert_eq!(headings(&ours), headings(&theirs), "iostat {options}");
        assert!(!headings(&ours).is_empty());
        // The head line has the same kernel, host, date and CPUs unless midnight passes between the two.
        assert_eq!(
            ours.lines().next().unwrap().split('\t').next(),
            theirs.lines().next().unwrap().split('\t').next()
        );
        // Other tests make and remove loop devices meanwhile, so lists of all devices may differ.
        if !options.contains("-p") {
            assert_eq!(ours.lines().count(), theirs.lines().count(), "iostat {options}");
        }
    }
}

/// The shape of a document: keys in order, kinds of values, no figures.
fn shape(value: &Value, out: &mut Vec<String>, path: &str) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| shape(value, out, &format!("{path}.{key}")));
        }
        Value::Array(items) => items.iter().for_each(|item| shape(item, out, &format!("{path}[]"))),
        Value::String(_) => out.push(format!("{path}: text")),
        Value::Number(_) => out.push(format!("{path}: number")),
        other => out.push(format!("{path}: {other}")),
    }
}

#[test]
fn json_has_the_shape_of_sysstats() {
    need_sysstat();
    let device = some_device();
    for options in ["", "-x", "-x -s", "-x -m", "-d -t", "-c", "-m", "-s"] {
        let mut arguments: Vec<&str> = options.split_whitespace().collect();
        arguments.extend(["-o", "JSON", &device, "1", "2"]);
        let ours = fathom(&arguments).run().expect_code(0).json();
        let theirs: Value = serde_json::from_str(&sysstat_text(&arguments)).unwrap();
        let [mut our_shape, mut their_shape] = [Vec::new(), Vec::new()];
        shape(&ours, &mut our_shape, "");
        shape(&theirs, &mut their_shape, "");
        assert_eq!(our_shape, their_shape, "iostat {options}");
        let host = |document: &Value, key: &str| document["sysstat"]["hosts"][0][key].clone();
        for key in ["nodename", "sysname", "release", "machine", "number-of-cpus"] {
            assert_eq!(host(&ours, key), host(&theirs, key));
        }
    }
}

fn endless(arguments: &[&str]) -> RunningProgram {
    let mut running = fathom(arguments).spawn();
    assert!(running.wait_for_stdout("avg-cpu"), "{}", running.stderr());
    running
}

#[test]
fn a_signal_ends_the_document_properly() {
    for signal in [Signal::INT, Signal::TERM] {
        let running = endless(&["-x", "-o", "JSON", "1"]);
        running.signal(signal);
        let statistics = running.wait().expect_code(0).json()["sysstat"]["hosts"][0]["statistics"].clone();
        assert!(!statistics.as_array().unwrap().is_empty());
    }
    let before_the_first = {
        let mut running = fathom(&["-y", "--json", "3600"]).spawn();
        assert!(running.wait_for_stdout("statistics"));
        running.signal(Signal::INT);
        running.wait().expect_code(0).json()
    };
    assert_eq!(before_the_first["sysstat"]["hosts"][0]["statistics"], serde_json::json!([]));
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let mut running = endless(&["-c", "0.05"]);
    running.close_stdout();
    let output = running.wait().expect_code(0);
    assert_eq!(output.stderr, "");
}

#[test]
fn options_are_taken_as_people_type_them() {
    let device = some_device();
    let heading = |arguments: &[&str]| {
        let output = fathom(arguments).run().expect_code(0).stdout;
        output.lines().find(|line| line.contains("Device")).unwrap().to_owned()
    };
    // An alias such as `iostat -x` repeats options.
    assert!(heading(&["-x", "-d", "-x", &device]).starts_with("Device            r/s "));
    assert_eq!(heading(&["-p", &device, "-p", &device]), heading(&[&device]));
    assert!(heading(&["-xh", &device]).ends_with(" rareq-sz Device"));
    assert!(heading(&["-s", "--pretty", &device]).ends_with("kB_w+d Device"));
    let total = fathom(&["-d", "-H", "-g", "all of them", &device]).run().expect_code(0).stdout;
    assert_eq!(total.lines().filter(|line| line.starts_with(" all of them ")).count(), 1, "{total}");
    let places = fathom(&["-c", "--dec=0"]).run().expect_code(0).stdout;
    assert!(!places.lines().nth(3).unwrap().contains('.'), "{places}");
    let stamp = fathom(&["-c", "-U"]).run().expect_code(0).stdout;
    assert!(stamp.lines().nth(2).unwrap().parse::<u64>().is_ok(), "{stamp}");
    let version = fathom(&["-V"]).run().expect_code(0).stdout;
    assert!(version.contains("sysstat version 12.7."), "{version}");
    let help = fathom(&["--help"]).run().expect_code(0).stdout;
    assert!(help.contains("EXAMPLES:"), "{help}");
}

#[test]
fn an_omitted_report_leaves_one_empty_line() {
    let output = fathom(&["-c", "-y", "0.1", "1"]).run().expect_code(0).stdout;
    let starts: Vec<&str> =
        output.lines().take(3).map(|line| line.split_whitespace().next().unwrap_or("")).collect();
    assert_eq!(starts, ["Linux", "", "avg-cpu:"], "{output}");
}

#[test]
fn posix_counts_blocks() {
    let device = some_device();
    for (words, heading) in [(&["-d"][..], "Blk_read/s"), (&["-x"], "rsec/s"), (&["-x", "-m"], "rMB/s")] {
        let output = fathom(words).arg(&device).env("POSIXLY_CORRECT", "").run().expect_code(0).stdout;
        assert!(output.contains(heading), "{output}");
    }
    let document = fathom(&["-o", "JSON", &device]).env("POSIXLY_CORRECT", "").run().expect_code(0).json();
    let disk = &document["sysstat"]["hosts"][0]["statistics"][0]["disk"][0];
    assert!(disk["Blk_read/s"].is_number(), "{disk}");
}

#[test]
fn counters_of_a_folder_are_shown() {
    let scratch = fathom_testkit::Scratch::new().unwrap();
    let stat = scratch.path().join("block/nvme77n1");
    fs::create_dir_all(&stat).unwrap();
    fs::write(stat.join("stat"), "100 0 800 50 0 0 0 0 0 50 50\n").unwrap();
    let folder = scratch.path().to_str().unwrap().to_owned();
    let names = |arguments: &[&str]| {
        let output = fathom(arguments).run().expect_code(0).stdout;
        output
            .lines()
            .skip(3)
            .filter_map(|line| line.split(' ').next().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&["-d", "-f", &folder])[0], "nvme77n1");
    assert!(names(&["-d", "+f", &folder]).contains(&"nvme77n1".to_owned()));
    fathom(&["+f", "/no/such/folder"]).run().expect_code(2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let absent = fathom(&["-x", "no-such-disk"]).run().expect_code(3);
    assert!(absent.stderr.contains("there is no block device 'no-such-disk'"), "{}", absent.stderr);
    assert_eq!(absent.stdout, "");
    for arguments in [
        &["5s"][..],
        &["1", "0"],
        &["-1"],
        &["1", "2", "3"],
        &["-o", "XML"],
        &["-k", "-m"],
        &["-H"],
        &["--dec=3"],
        &["-j", "foobar"],
    ] {
        let output = fathom(arguments).run().expect_code(2);
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

/// The line with the time that a report begins with.
fn stamp(variables: &[(&str, &str)]) -> String {
    let call = variables.iter().fold(fathom(&["-c", "-t"]), |call, (name, value)| call.env(name, value));
    call.run().expect_code(0).stdout.lines().nth(2).unwrap().to_owned()
}

#[test]
fn time_stamps_follow_the_environment() {
    let pattern = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
    assert_eq!(pattern(&stamp(&[("TZ", "UTC")])), "00/00/00 00:00:00");
    let iso = stamp(&[("S_TIME_FORMAT", "ISO"), ("TZ", "UTC")]);
    assert_eq!(pattern(&iso), "0000-00-00T00:00:00+0000");
}

#[test]
fn time_stamps_follow_the_time_zone() {
    if !Path::new("/usr/share/zoneinfo/Asia/Kolkata").exists() {
        skip!(Need::Program, "no time zones on this machine (apt-get install tzdata)");
    }
    let iso = stamp(&[("S_TIME_FORMAT", "ISO"), ("TZ", "Asia/Kolkata")]);
    assert!(iso.ends_with("+0530"), "{iso}");
}

#[test]
fn the_tree_puts_a_loop_device_above_its_disk() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes(64 << 20));
    fs::write(disk.path().join("data"), vec![1; 1 << 20]).unwrap();
    let name = disk.device_name();
    let document = fathom(&["-d", "--tree", "--json", &name]).run().expect_code(0).json();
    let statistics = &document["sysstat"]["hosts"][0]["statistics"][0];
    let disks = statistics["disk"].as_array().unwrap();
    assert_eq!(disks[0]["disk_device"], name.as_str());
    if disks[0]["below"] == serde_json::json!([]) {
        skip!(Need::Kernel, "the loop device's file is on no disk that this machine shows");
    }
    assert_eq!(disks[1]["disk_device"], disks[0]["below"][0]);
    assert_eq!(statistics["total"]["disks"], 1, "{statistics}");
}

/// The figures are those of sysstat for the same counters in `iostat::golden_tests` of fathom-host.
mod timed {
    use std::thread;
    use std::time::{Duration, Instant};

    use fathom_testkit::{assert, assert_eq, test};

    use super::*;

    /// The probe itself: reads and writes past the page cache, each write flushed.
    fn load(folder: &Path) {
        let shape = ["--pattern", "randrw", "--block", "16K", "--depth", "2", "--durable", "fdatasync"];
        let output = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["disk", "--no-record", "--time", "1s", "--size", "16M", "--dir"])
            .arg(folder)
            .args(shape)
            .run();
        assert!(matches!(output.code, 0 | 1), "{}", output.stderr);
    }

    fn disk_of(document: &Value) -> Value {
        document["sysstat"]["hosts"][0]["statistics"][0]["disk"][0].clone()
    }

    /// Both programs' report of the same interval and load; `None` if the machine was too slow for the load to fit.
    fn both_watch(disk: &RealDisk) -> Option<(Value, Value)> {
        let name = disk.device_name();
        let arguments = ["-d", "-x", "-y", "-o", "JSON", &name, "4", "1"];
        rustix::fs::sync();
        let start = Instant::now();
        let theirs = sysstat(&arguments);
        let mut ours = fathom(&arguments).spawn();
        assert!(ours.wait_for_stdout("statistics"), "{}", ours.stderr());
        thread::sleep(Duration::from_millis(700));
        load(disk.path());
        let fits = start.elapsed() < Duration::from_millis(3500);
        let theirs: Value = serde_json::from_slice(&theirs.wait_with_output().unwrap().stdout).unwrap();
        let ours = ours.wait().expect_code(0).json();
        fits.then(|| (disk_of(&ours), disk_of(&theirs)))
    }

    #[test]
    fn sees_what_sysstat_sees_under_a_real_load() {
        need_sysstat();
        let disk = RealDisk::new(Filesystem::Ext4, Bytes(64 << 20));
        let mut last = None;
        // A busy machine may delay one of the programs past the load's start, or the load past the interval's end.
        let alike = (0..4).any(|_| {
            let Some((ours, theirs)) = both_watch(&disk) else { return false };
            last = difference(&ours, &theirs);
            last.is_none()
        });
        assert!(alike, "four times not alike: {}", last.unwrap_or_default());
    }

    /// The difference between two reports of the same load, or a note that they lack the load.
    fn difference(ours: &Value, theirs: &Value) -> Option<String> {
        let figure = |of: &Value, key: &str| of[key].as_f64().unwrap();
        assert_eq!(ours["disk_device"], theirs["disk_device"]);
        // sysstat's interval is exact to 1/100 s at both ends, and rounds to two decimals.
        let near = |key: &str| {
            let (ours, theirs) = (figure(ours, key), figure(theirs, key));
            (ours - theirs).abs() <= 0.03 * theirs + 0.3
        };
        let keys = ["r/s", "w/s", "f/s", "rkB/s", "wkB/s", "rareq-sz", "wareq-sz"];
        let differing: Vec<&str> = keys.into_iter().filter(|key| !near(key)).collect();
        let loaded = figure(ours, "r/s") >= 49.0 && figure(ours, "w/s") >= 49.0;
        let alike = differing.is_empty() && loaded;
        (!alike).then(|| format!("{differing:?} differ, or the load is missing:\n{ours}\n{theirs}"))
    }
}
