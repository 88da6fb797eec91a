//! Tests `fathom explain` on recordings of real servers: it finds the known cause in the known minutes, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bson::Document;
use fathom_testkit::{
    Fathom, Need, Output, RECORDING_BEGIN_MS, RecordedProcess, RecordingTrap, RecordingWriter, Scratch,
    assert, assert_eq, is_root, skip, test, write_recording, write_trap,
};
use serde_json::Value;

fn explain(arguments: &[&str], folder: &Path) -> Output {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("explain").args(arguments).current_dir(folder).run()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recordings")
}

/// The folder of recordings that the project may not distribute.
fn other_recordings() -> PathBuf {
    let folder = std::env::var_os("FATHOM_RECORDINGS").map(PathBuf::from).filter(|folder| folder.is_dir());
    folder.unwrap_or_else(|| skip!(Need::Recordings, "FATHOM_RECORDINGS names no folder"))
}

/// The judgement of the only server, and the exit code.
fn judged(folder: &Path, name: &str) -> (Value, i32) {
    let output = explain(&[name, "--json"], folder);
    let document = output.json();
    assert_eq!(document["servers"].as_array().unwrap().len(), 1);
    (document["servers"][0]["judgement"].clone(), output.code)
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The seconds of a day in UTC at which an incident begins and ends.
fn seconds_of_day(incident: &Value) -> (i64, i64) {
    let at = |field: &str| incident[field].as_i64().unwrap() / 1000 % 86_400;
    (at("begin_ms"), at("end_ms"))
}

fn clock(hours: i64, minutes: i64, seconds: i64) -> i64 {
    hours * 3600 + minutes * 60 + seconds
}

#[test]
fn a_calm_recording_is_not_held_back() {
    let (judgement, code) = judged(&fixtures(), "control");
    assert_eq!((text(&judgement["verdict"], "outcome"), code), ("not_held_back", 0), "{judgement:#}");
    // The load begins 34 s after the recording: the loading of the data before it may be named.
    for incident in judgement["incidents"].as_array().unwrap() {
        assert!(seconds_of_day(incident).1 <= clock(20, 17, 30), "{incident:#}");
    }
}

#[test]
fn reads_that_wait_above_the_disk_are_named() {
    let (judgement, code) = judged(&fixtures(), "iops-cap");
    let incident = &judgement["incidents"][0];
    assert_eq!((text(incident, "cause"), text(incident, "domain"), code), ("storage-reads", "storage", 1));
    assert!(text(incident, "sentence").contains("waited above vda"), "{incident:#}");
    let (begin, end) = seconds_of_day(incident);
    assert!(begin <= clock(20, 22, 25) && begin >= clock(20, 22, 5), "{incident:#}");
    assert!(end >= clock(20, 23, 0) && end <= clock(20, 24, 0), "{incident:#}");
    assert!(
        text(&judgement["verdict"], "sentence").starts_with("Held back by storage for "),
        "{judgement:#}"
    );
    assert_storage_time(&judgement, incident);
}

/// Asserts that faster storage would buy what an incident of storage cost, in it and in the whole, and not more than all time.
fn assert_storage_time(judgement: &Value, incident: &Value) {
    let seconds = |value: &Value, field: &str| value[field].as_f64().unwrap();
    let (lost_s, storage_s) = (seconds(incident, "lost_s"), seconds(incident, "storage_s"));
    assert!(lost_s > 0.0 && storage_s >= lost_s, "{incident:#}");
    let whole_s = seconds(judgement, "storage_s");
    assert!(whole_s >= storage_s && whole_s <= seconds(judgement, "operation_s"), "{judgement:#}");
    let sentence = |one: &Value| {
        one.as_str().unwrap_or_default().starts_with("Faster storage would save operations at most ")
    };
    assert!(incident["evidence"].as_array().unwrap().iter().any(sentence), "{incident:#}");
}

#[test]
fn a_neighbour_on_the_disk_is_named_with_its_bytes() {
    let (judgement, code) = judged(&fixtures(), "noisy-neighbour");
    let incident = &judgement["incidents"][0];
    assert_eq!((text(incident, "cause"), code), ("neighbour-io", 1), "{judgement:#}");
    assert!(text(incident, "sentence").starts_with("Another process kept vda busy"), "{incident:#}");
    let (begin, end) = seconds_of_day(incident);
    assert!((clock(20, 29, 55)..=clock(20, 30, 15)).contains(&begin), "{incident:#}");
    assert!((clock(20, 31, 15)..=clock(20, 31, 45)).contains(&end), "{incident:#}");
}

#[test]
fn a_stopped_process_is_named_and_is_not_storage() {
    let (judgement, code) = judged(&fixtures(), "server-stopped");
    let incident = &judgement["incidents"][0];
    assert_eq!((text(incident, "cause"), text(incident, "domain"), code), ("process-stopped", "server", 1));
    assert_eq!(
        text(incident, "sentence"),
        "The process was stopped 3 times, for up to 4.22 s, while the host continued."
    );
    assert!(
        text(&judgement["verdict"], "sentence").starts_with("Held back by stops of the mongod process, not")
    );
}

#[test]
fn a_slow_journal_is_named_in_its_minutes_and_not_before() {
    let (judgement, code) = judged(&fixtures(), "standalone-7.0.0");
    assert_eq!((text(&judgement["verdict"], "cause"), code), ("storage-journal", 1), "{judgement:#}");
    assert_eq!(text(&judgement, "disk"), "sda");
    let costly = |incident: &&Value| incident["lost_share"].as_f64().unwrap() >= 0.2;
    let incidents = judgement["incidents"].as_array().unwrap();
    let spans: Vec<(i64, i64)> = incidents.iter().filter(costly).map(seconds_of_day).collect();
    let [(begin, end)] = spans.as_slice() else { panic!("{judgement:#}") };
    assert!((clock(19, 28, 0)..=clock(19, 29, 0)).contains(begin), "{judgement:#}");
    assert!((clock(19, 30, 0)..=clock(19, 31, 30)).contains(end), "{judgement:#}");
    // mongod counts no wait for the journal.
    assert_storage_time(&judgement, incidents.iter().find(costly).unwrap());
}

#[test]
fn the_answer_on_a_terminal_is_short() {
    let output = explain(&["iops-cap"], &fixtures());
    insta::assert_snapshot!("explain_recording", output.stdout);
    assert!(output.stdout.lines().count() <= 40, "{}", output.stdout);
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{}", output.stdout);
    // A part of it, in another zone.
    let part = explain(&["iops-cap", "--to", "2026-11-24T21:22", "--tz", "Etc/GMT-1"], &fixtures());
    let words = part.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("2026-11-24 21:20:28 to 2026-11-24 21:22:00"), "{}", part.stdout);
}

#[test]
fn a_busy_disk_that_nobody_waits_for_holds_nothing_back() {
    let (judgement, code) = judged(&other_recordings(), "standalone-3.4.2");
    assert_eq!((text(&judgement["verdict"], "outcome"), code), ("not_held_back", 0), "{judgement:#}");
    let reasons = judgement["verdict"]["reasons"].to_string();
    assert!(reasons.contains("Another process kept sdb busy"), "{judgement:#}");
}

#[test]
fn a_suspended_host_is_no_incident_of_storage() {
    let (judgement, _) = judged(&other_recordings().join("traps"), "suspended-host-5.0.5");
    let incidents = judgement["incidents"].as_array().unwrap();
    assert!(incidents.iter().any(|incident| text(incident, "cause") == "host-suspended"), "{judgement:#}");
    assert!(incidents.iter().all(|incident| text(incident, "domain") != "storage"), "{judgement:#}");
}

#[test]
fn data_on_other_hosts_get_no_verdict() {
    let (judgement, code) = judged(&other_recordings().join("traps"), "duplicate-keys-8.0-internal");
    assert_eq!((text(&judgement["verdict"], "outcome"), code), ("not_examined", 4), "{judgement:#}");
}

/// The document on a generated recording, and the exit code.
fn trapped(trap: RecordingTrap, arguments: &[&str]) -> (Value, i32) {
    let scratch = Scratch::new().unwrap();
    write_trap(&scratch.path().join("diagnostic.data"), trap).unwrap();
    let output = explain(&[&["diagnostic.data", "--json"], arguments].concat(), &scratch.path());
    let server = output.json()["servers"][0].clone();
    (server, output.code)
}

/// The causes of incidents, each once.
fn causes(judgement: &Value) -> Vec<String> {
    let incidents = judgement["incidents"].as_array().unwrap();
    let mut causes: Vec<String> =
        incidents.iter().map(|incident| text(incident, "cause").to_owned()).collect();
    causes.sort();
    causes.dedup();
    causes
}

#[test]
fn generated_data_on_other_hosts_get_no_verdict() {
    let (server, code) = trapped(RecordingTrap::DisaggregatedStorage, &[]);
    let judgement = &server["judgement"];
    assert_eq!((text(&judgement["verdict"], "outcome"), code), ("not_examined", 4), "{judgement:#}");
    let incidents = judgement["incidents"].as_array().unwrap();
    assert!(incidents.iter().all(|incident| text(incident, "domain") != "storage"), "{judgement:#}");
}

#[test]
fn disks_of_windows_are_read() {
    let (server, code) = trapped(RecordingTrap::WindowsDisks, &[]);
    let judgement = &server["judgement"];
    assert_eq!((text(judgement, "disk"), code), ("0 C: D:", 1), "{judgement:#}");
    assert_eq!(causes(judgement), ["storage-journal"], "{judgement:#}");
    let incident = &judgement["incidents"][0];
    assert!(text(incident, "sentence").contains(" on 0 C: D:"), "{incident:#}");
    let length_s = (incident["end_ms"].as_i64().unwrap() - incident["begin_ms"].as_i64().unwrap()) / 1000;
    assert!((50..=80).contains(&length_s), "{incident:#}");
    let missing = judgement["missing"].to_string();
    let words = "free space of the data's file system, swapping, how long disks had requests.";
    assert!(missing.contains(words), "{missing}");
    // Linux lacks none of these but swapping here.
    let (server, _) = trapped(RecordingTrap::BusyForeignDisk, &[]);
    let missing = server["judgement"]["missing"].to_string();
    assert!(missing.contains("so not seen here: swapping."), "{missing}");
}

#[test]
fn an_interim_file_and_its_successor_count_each_sample_once() {
    let scratch = Scratch::new().unwrap();
    write_trap(&scratch.path().join("diagnostic.data"), RecordingTrap::InterimTemp).unwrap();
    let info = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["ftdc", "info", "diagnostic.data", "--json"])
        .current_dir(scratch.path())
        .run()
        .expect_code(0)
        .json();
    let server = &info["servers"][0];
    assert_eq!((server["samples"].as_i64(), server["repeated_samples"].as_i64()), (Some(700), Some(150)));
    let (server, _) = trapped(RecordingTrap::InterimTemp, &[]);
    // 699 seconds of 1,000 operations, less those beyond the last whole window of a stretch.
    assert_eq!(server["judgement"]["recorded_s"], 699.0, "{server:#}");
    let operations = server["judgement"]["operations"].as_f64().unwrap();
    assert!((690_000.0..=699_000.0).contains(&operations), "{server:#}");
}

#[test]
fn a_generated_suspended_host_is_no_incident_of_storage() {
    let (server, code) = trapped(RecordingTrap::SuspendedHost, &[]);
    let judgement = &server["judgement"];
    assert_eq!((causes(judgement), code), (vec!["host-suspended".to_owned()], 0), "{judgement:#}");
}

#[test]
fn a_generated_busy_disk_that_is_not_the_databases_holds_nothing_back() {
    let (server, code) = trapped(RecordingTrap::BusyForeignDisk, &[]);
    let judgement = &server["judgement"];
    assert_eq!((text(judgement, "disk"), code), ("sda", 0), "{judgement:#}");
    let reasons = judgement["verdict"]["reasons"].to_string();
    assert!(reasons.contains("Another process kept sdb busy"), "{judgement:#}");
}

#[test]
fn the_disk_of_the_database_may_be_named() {
    let device =
        |name: &str| trapped(RecordingTrap::BusyForeignDisk, &["--device", name]).0["judgement"].clone();
    assert_eq!(text(&device("/dev/sdb1"), "disk"), "sdb");
    let judgement = device("dm-0");
    assert_eq!(judgement["disk"], Value::Null);
    let missing = judgement["missing"].to_string();
    assert!(missing.contains("dm-0, which was named as the database's disk, was not recorded"), "{missing}");
    for arguments in [
        &["iops-cap", "--device", "vda", "--device", "vdb"][..],
        &["iops-cap/mongod.log.gz", "--device", "vda"],
        &["last", "--device", "vda"],
    ] {
        let output = explain(arguments, &fixtures());
        assert_eq!((output.code, output.stderr.lines().count()), (2, 1), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_full_file_system_is_the_verdict() {
    let (server, code) = trapped(RecordingTrap::FullFileSystem, &[]);
    let verdict = &server["judgement"]["verdict"];
    assert_eq!((text(verdict, "cause"), text(verdict, "domain"), code), ("file-system-full", "storage", 1));
    let sentence = text(verdict, "sentence");
    // A gauge is read at the end of a second, so the first bin and the last have a second with free space each.
    assert!(sentence.starts_with("Held back by a full file system of the data for 50.0 s of "), "{sentence}");
}

#[test]
fn a_stop_after_which_clients_catch_up_is_one_and_a_long_sample_is_none() {
    let (server, code) = trapped(RecordingTrap::StopWithBacklog, &[]);
    assert_eq!((causes(&server["judgement"]), code), (vec!["process-stopped".to_owned()], 1), "{server:#}");
    let (server, code) = trapped(RecordingTrap::LongSample, &[]);
    assert_eq!((causes(&server["judgement"]), code), (vec!["recorder-stalled".to_owned()], 0), "{server:#}");
}

#[test]
fn a_clock_that_jumps_leaves_the_smaller_part_out() {
    for (trap, begin_s) in
        [(RecordingTrap::ClockFromZero, 5_i64), (RecordingTrap::ClockFarAhead, 4_102_445_100)]
    {
        let (server, code) = trapped(trap, &[]);
        let judgement = &server["judgement"];
        assert_eq!(code, 0, "{judgement:#}");
        let left_out = judgement["left_out"].as_array().unwrap();
        assert_eq!(left_out.len(), 1, "{judgement:#}");
        assert_eq!(left_out[0]["begin_ms"], begin_s * 1000, "{judgement:#}");
        assert_eq!(left_out[0]["recorded_s"], 29.0, "{judgement:#}");
        let begin_ms = judgement["begin_ms"].as_i64().unwrap();
        assert!((0..=30_000).contains(&(begin_ms - RECORDING_BEGIN_MS)), "{judgement:#}");
        assert!(judgement["recorded_s"].as_f64().unwrap() >= 860.0, "{judgement:#}");
        assert_eq!(causes(judgement), Vec::<String>::new(), "{judgement:#}");
    }
}

#[test]
fn a_clock_that_runs_backwards_is_named() {
    let scratch = Scratch::new().unwrap();
    write_trap(&scratch.path().join("diagnostic.data"), RecordingTrap::ClockSetBack).unwrap();
    let output = explain(&["diagnostic.data"], &scratch.path());
    let words = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("The host's clock ran backwards once at 2025-07-10 19:32:59, by 99.5 s"),
        "{words}"
    );
    let (server, _) = trapped(RecordingTrap::ClockFarAhead, &[]);
    assert_eq!(server["clock_steps"].as_array().unwrap().len(), 1, "{server:#}");
    let (server, _) = trapped(RecordingTrap::BusyForeignDisk, &[]);
    assert_eq!(server["clock_steps"], Value::Null, "{server:#}");
}

/// The files of an archive that was made in the order of a directory come in any order.
#[test]
fn files_in_another_order_are_the_same_recording() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().join("diagnostic.data");
    fs::create_dir(&folder).unwrap();
    let process = RecordedProcess { pid: 1, started_ms: RECORDING_BEGIN_MS };
    let names = ["metrics.2025-07-10T19-28-00Z-00000", "metrics.2025-07-10T19-38-00Z-00000"];
    for (name, seconds) in names.iter().zip([0..600, 600..1200]) {
        let mut writer = RecordingWriter::default();
        for second in seconds {
            let start_ms = RECORDING_BEGIN_MS + second * 1000;
            let counted = |each: i64| each * second;
            let more =
                bson::doc! { "opLatencies": { "reads": { "ops": counted(50), "latency": counted(9000) } } };
            writer.sample(start_ms, &process.sample(start_ms, &more)).unwrap();
        }
        writer.end_chunk().unwrap();
        fs::write(folder.join(name), writer.into_bytes()).unwrap();
    }
    // Named one by one, they are read in the order in which they are named.
    let judged = |order: [&str; 2]| {
        let document = explain(&[order[0], order[1], "--json"], &folder).json();
        document["servers"][0].clone()
    };
    let (forward, backward) = (judged(names), judged([names[1], names[0]]));
    assert_eq!(backward["clock_steps"], Value::Null, "{backward:#}");
    for field in ["begin_ms", "end_ms", "incidents"] {
        assert_eq!(forward["judgement"][field], backward["judgement"][field], "{field}");
    }
    // The second between the files is in none of them.
    let recorded_s = |server: &Value| server["judgement"]["recorded_s"].as_f64().unwrap();
    assert_eq!((recorded_s(&forward), recorded_s(&backward)), (1199.0, 1198.0));
}

#[test]
fn a_closed_folder_above_a_recording_is_named_with_the_servers_user() {
    let (theirs, state) = (Scratch::new().unwrap(), Scratch::new().unwrap());
    let allow = |folder: &Path, mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    let (above, folder) = (theirs.path().join("mongodb"), theirs.path().join("mongodb/diagnostic.data"));
    write_recording(&folder).unwrap();
    // Root runs the program as another user; any other user closes the folders to himself too.
    let (closed, listed) = if is_root() { (0o700, 0o744) } else { (0o000, 0o400) };
    allow(&state.path(), 0o777);
    allow(&theirs.path(), 0o755);
    let program = state.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_fathom"), &program).unwrap();
    let other = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let call = |words: &[&str]| {
        let call =
            if is_root() { Fathom::new("setpriv").args(other).arg(&program) } else { Fathom::new(&program) };
        call.args(words).arg(&folder).state(state.path()).current_dir(state.path()).run()
    };
    let refused = |output: Output| {
        if output.stderr.contains("setpriv:") {
            allow(&above, 0o700);
            allow(&folder, 0o700);
            skip!(Need::Root, "{}", output.stderr);
        }
        assert_eq!((output.code, output.stdout.as_str()), (3, ""), "{output:?}");
        assert!(output.stderr.contains("Permission denied"), "{output:?}");
        assert!(output.stderr.contains("sudo -u mongodb fathom"), "{output:?}");
    };
    // The names of a folder may be listed without the right to open its files.
    for (place, mode) in [(&above, closed), (&folder, closed), (&folder, listed)] {
        allow(&above, if place == &above { mode } else { 0o755 });
        allow(&folder, if place == &folder { mode } else { 0o755 });
        for words in [&["explain"][..], &["report", "--output", "-"], &["ftdc", "info"]] {
            refused(call(words));
        }
        allow(&above, 0o755);
        allow(&folder, 0o755);
    }
    assert_eq!(call(&["ftdc", "info"]).code, 0);
}

#[test]
fn the_answer_on_many_members_is_short() {
    let scratch = Scratch::new().unwrap();
    for member in 1..=8 {
        let name = if member == 8 { "iops-cap" } else { "server-stopped" };
        let (from, to) =
            (fixtures().join(name).join("diagnostic.data"), scratch.path().join(format!("m{member}")));
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    let output = explain(&["."], &scratch.path()).expect_code(1);
    assert!(output.stdout.lines().count() <= 40, "{}", output.stdout);
    assert!(
        output.stdout.contains("Recorded: ") && output.stdout.contains("Other servers:"),
        "{}",
        output.stdout
    );
    let document = explain(&[".", "--json"], &scratch.path()).json();
    let causes: Vec<&str> = document["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| text(&server["judgement"]["verdict"], "cause"))
        .collect();
    assert_eq!(causes, [["process-stopped"; 7].as_slice(), &["storage-reads"]].concat());
}

#[test]
fn a_replay_of_a_long_recording_shows_its_first_hours() {
    let scratch = Scratch::new().unwrap();
    let mut writer = RecordingWriter::default();
    let process = RecordedProcess { pid: 1, started_ms: RECORDING_BEGIN_MS };
    for number in 0..2600 {
        let start_ms = RECORDING_BEGIN_MS + number * 10_000;
        writer.sample(start_ms, &process.sample(start_ms, &Document::new())).unwrap();
    }
    writer.end_chunk().unwrap();
    fs::write(scratch.path().join("metrics.interim"), writer.into_bytes()).unwrap();
    let replay = |arguments: &[&str]| {
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args([
                "watch",
                "--replay",
                "metrics.interim",
                "--speed",
                "600",
                "--interval",
                "250ms",
                "--for",
                "1s",
                "--json",
            ])
            .args(arguments)
            .current_dir(scratch.path())
            .run()
            .expect_code(0)
    };
    let output = replay(&[]);
    assert!(output.stderr.contains("these are its first six"), "{output:?}");
    assert!(!output.stdout.is_empty(), "{output:?}");
    let output = replay(&["--at", "2025-07-10T22:00"]);
    assert!(!output.stderr.contains("first six"), "{output:?}");
}

#[test]
fn members_of_a_set_are_judged_side_by_side() {
    let output = explain(&["set-7.0.16"], &other_recordings());
    assert_eq!(output.stdout.matches("Recorded: mongod 7.0.16 on ").count(), 3, "{}", output.stdout);
    assert!(output.stdout.lines().count() <= 40, "{}", output.stdout);
    assert_eq!(output.stdout.matches("Compared with the clock of ").count(), 1, "{}", output.stdout);
    // They ran on macOS.
    let words = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("storage is judged by the engine's").count(), 1, "{}", output.stdout);
    // All three were on one host, so they had one clock.
    let document = explain(&["set-7.0.16", "--json"], &other_recordings()).json();
    for server in document["servers"].as_array().unwrap().iter().skip(1) {
        let bound = |name: &str| server["clock"][name].as_i64().unwrap();
        assert!((-50..=0).contains(&bound("min_ms")), "{:#}", server["clock"]);
        assert!((0..=50).contains(&bound("max_ms")), "{:#}", server["clock"]);
    }
}

/// Recordings from macOS have none.
#[test]
fn members_without_figures_of_their_hosts_say_so_once() {
    let scratch = Scratch::new().unwrap();
    let process = RecordedProcess { pid: 1, started_ms: RECORDING_BEGIN_MS };
    for member in ["one", "two"] {
        let mut writer = RecordingWriter::default();
        for second in 0..300_i64 {
            let start_ms = RECORDING_BEGIN_MS + second * 1000;
            let reads = bson::doc! { "ops": 50 * second, "latency": 9000 * second };
            let mut sample =
                process.sample(start_ms, &bson::doc! { "host": member, "opLatencies": { "reads": reads } });
            sample.remove("systemMetrics");
            writer.sample(start_ms, &sample).unwrap();
        }
        writer.end_chunk().unwrap();
        fs::create_dir(scratch.path().join(member)).unwrap();
        fs::write(scratch.path().join(member).join("metrics.interim"), writer.into_bytes()).unwrap();
    }
    let alone = "so storage is judged by the engine's counters alone.";
    for members in [&["one"][..], &["one", "two"]] {
        let output = explain(members, &scratch.path());
        let words = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches(alone).count(), 1, "{}", output.stdout);
        assert_eq!(words.matches("No client was watched").count(), 1, "{}", output.stdout);
    }
}

#[test]
fn what_is_no_recording_is_refused_in_one_sentence() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    std::fs::create_dir(folder.join("empty")).unwrap();
    std::fs::create_dir(folder.join("other")).unwrap();
    std::fs::write(folder.join("other/notes.txt"), "nothing").unwrap();
    std::fs::create_dir(folder.join("zeros")).unwrap();
    std::fs::write(folder.join("zeros/metrics.2026-11-24T20-16-45Z-00000"), [0_u8; 4096]).unwrap();
    write_recording(&folder.join("diagnostic.data")).unwrap();
    for arguments in [
        &["empty"][..],
        &["other"],
        &["zeros"],
        &["diagnostic.data", "--from", "2030-01-01"],
        &["diagnostic.data", "--from", "yesterday"],
        &["diagnostic.data", "--probe", "x"],
        &["--tz", "UTC"],
    ] {
        let output = explain(arguments, &folder);
        assert!(matches!(output.code, 2 | 3), "{arguments:?}: {output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{arguments:?}: {output:?}");
        assert_eq!(output.stdout, "", "{arguments:?}");
        assert!(!output.stderr.contains("panicked"), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_recording_is_replayed_as_if_it_happened_now() {
    let replay = |arguments: &[&str]| {
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["watch", "--replay", "iops-cap", "--speed", "60", "--interval", "250ms"])
            .args(arguments)
            .current_dir(fixtures())
            .run()
    };
    // A quarter of a second is 15 s of the recording: the reads of 25 to 48 ms are among its lines.
    let output = replay(&["--at", "2026-11-24T20:21:40", "--for", "2s", "--json"]).expect_code(0);
    let lines: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 4, "{}", output.stdout);
    assert!(lines.iter().any(|line| line.to_string().contains("page read")), "{}", output.stdout);
    let late = replay(&["--at", "2030-01-01"]);
    assert_eq!((late.code, late.stdout.as_str()), (2, ""), "{late:?}");
    let both = replay(&["--uri", "mongodb://127.0.0.1"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn a_recording_has_a_page_of_its_days() {
    let scratch = Scratch::new().unwrap();
    let report = |arguments: &[&str]| {
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .arg("report")
            .args(arguments)
            .current_dir(scratch.path())
            .run()
    };
    let recordings = fixtures();
    let path = |name: &str| recordings.join(name).display().to_string();
    let output = report(&[&path("iops-cap"), "--tz", "Etc/GMT-1"]).expect_code(0);
    assert!(output.stdout.trim_end().ends_with("recording.html"), "{}", output.stdout);
    let page = std::fs::read_to_string(scratch.path().join("recording.html")).unwrap();
    for words in [
        "Held back by storage for ",
        "waited above vda",
        "2026-11-24 21:22:",
        "a sync of the journal",
        "find { filter: { _id: ? } }",
        "The hour around it",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Members on one axis, and a page without names.
    let output = report(&[&path("control"), &path("server-stopped"), "--output", "-"]).expect_code(0);
    assert_eq!(output.stdout.matches("class=\"answer ").count(), 2);
    assert_eq!(output.stdout.matches("aria-label=\"Figures over the whole recording").count(), 1);
    let output = report(&[&path("iops-cap"), "--redact", "--output", "-"]).expect_code(0);
    for name in ["ycsb.usertable", "iops-cap", "xx:27958"] {
        assert!(!output.stdout.contains(name), "{name}");
    }
    for arguments in [&["--tz", "UTC"][..], &["a", "b", "c"], &[&path("iops-cap/mongod.log.gz")]] {
        let output = report(arguments);
        assert!(matches!(output.code, 2 | 3), "{arguments:?}: {output:?}");
        assert_eq!((output.stderr.lines().count(), output.stdout.as_str()), (1, ""), "{output:?}");
    }
}
