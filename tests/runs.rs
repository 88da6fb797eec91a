//! Tests `fathom runs` on real and hostile run folders: they are listed, searched, compared, exported and pruned.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fathom_record::disk::{Entry, Knee};
use fathom_record::{Finding, Manifest, Run, RunWriter, Severity, State};
use fathom_testkit::{Fathom, Output, Scratch};
use rustix::process::Signal;

use crate::disk::Probe;

pub(crate) fn runs(place: &Path, arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("runs").args(arguments).arg("--runs").arg(place)
}

/// A quick probe kept below `place`.
fn probe(probe: &Probe, place: &Path, depth: &str) -> PathBuf {
    let words = ["--pattern", "randread", "--block", "4K", "--size", "16M", "--time", "1s", "--depth", depth];
    let before = names(place);
    let output = probe.disk().args(words).arg("--runs").arg(place).run();
    assert!(matches!(output.code, 0 | 1), "{}\n{}", output.stdout, output.stderr);
    let name = names(place).into_iter().find(|name| !before.contains(name)).expect("a run folder");
    place.join(name)
}

pub(crate) fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A synthetic run of `verb`, begun `days` days ago.
pub(crate) fn made(place: &Path, verb: &str, days: i64, findings: &[Finding]) -> PathBuf {
    let mut manifest = Manifest::new(verb, "0.1.0", ["fathom", verb, "--dir", "/data"].map(str::to_owned));
    let start = std::time::SystemTime::now() - std::time::Duration::from_secs(days.unsigned_abs() * 86_400);
    manifest.started = stamp(start);
    manifest.environment.insert("device.sda.read_ahead_kb".to_owned(), "8192".to_owned());
    let mut writer = RunWriter::create(place, manifest).unwrap();
    let knee = Knee {
        phase: "random reads".to_owned(),
        latency_at_one_ns: 1e5,
        throughput_max_per_s: 10_000.0 + days as f64,
        concurrency: 4.0,
        depth_for_90_pct: None,
        model: "amdahl".to_owned(),
        rivals: Vec::new(),
        words: String::new(),
        withheld: None,
    };
    writer.result(&Entry::Knee(knee)).unwrap();
    writer.findings(findings).unwrap();
    writer.finish(State::Complete, None).unwrap()
}

/// RFC 3339 to the second, by the date command, so that this test needs no calendar.
fn stamp(time: std::time::SystemTime) -> String {
    let seconds = time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let date = std::process::Command::new("date")
        .args(["-u", &format!("-d@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}

/// Makes `count` runs, one a day until yesterday, of which the later half is slower.
pub(crate) fn with_a_fall(place: &Path, count: i64) {
    for day in 0..count {
        let folder = made(place, "disk", count - day, &[]);
        let level = if day < count / 2 { 20_000.0 } else { 12_000.0 };
        // Noise that is the same each time: a coarse sawtooth.
        let value = level + f64::from(u32::try_from(day * 7 % 11).unwrap()) * 60.0;
        let text = fs::read_to_string(folder.join("results.jsonl")).unwrap();
        let old = format!("\"throughput_max_per_s\":{:.1}", 10_000.0 + (count - day) as f64);
        assert!(text.contains(&old), "{text}");
        let new = format!("\"throughput_max_per_s\":{value:.1}");
        fs::write(folder.join("results.jsonl"), text.replace(&old, &new)).unwrap();
    }
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap().to_string_lossy().into_owned()
}

fn fits(output: &Output) {
    let long = output.stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None, "{}", output.stdout);
}

#[test]
fn real_runs_are_listed_searched_compared_and_handed_on() {
    let (scratch, other) = (Scratch::new().unwrap(), Scratch::new().unwrap());
    let place = scratch.path().join("runs");
    let data = scratch.path().join("data");
    fs::create_dir_all(&data).unwrap();
    let disk = Probe::new(&data);
    let (first, second) = (probe(&disk, &place, "1"), probe(&disk, &place, "4"));

    let list = runs(&place, &[]).run().expect_code(0);
    fits(&list);
    let at = |folder: &Path| list.stdout.find(&name(folder)).expect("it is listed");
    assert!(at(&second) < at(&first), "newest first: {}", list.stdout);
    assert!(list.stdout.contains("complete") && list.stdout.contains("2 runs under"), "{}", list.stdout);
    let json = runs(&place, &["list", "--json", "--limit", "1"]).run().expect_code(0).json();
    assert_eq!(json["runs"].as_array().unwrap().len(), 1);
    assert_eq!(json["runs"][0]["name"], name(&second).as_str());
    assert!(json["runs"][0]["headline"]["figure"].as_str().unwrap().contains("/s"), "{json:#}");
    let none = runs(&place, &["list", "--verb", "ycsb"]).run().expect_code(0);
    assert!(none.stdout.contains("No run matches (2 under"), "{}", none.stdout);

    let found = runs(&place, &["search", "RANDREAD", "kernel"]).run().expect_code(0);
    fits(&found);
    assert!(
        found.stdout.contains("command line: ") && found.stdout.contains("environment kernel: "),
        "{}",
        found.stdout
    );
    let nothing = runs(&place, &["search", "no-such-word"]).run().expect_code(0);
    assert!(nothing.stdout.contains("No run holds 'no-such-word' (2 under"), "{}", nothing.stdout);

    let diff = runs(&place, &["diff", &name(&first), &name(&second)]).run().expect_code(0);
    fits(&diff);
    assert!(diff.stdout.contains("--depth: 1 -> 4") && diff.stdout.contains("no proof"), "{}", diff.stdout);
    let same = runs(&place, &["diff", "--json", &name(&first), &name(&first)]).run().expect_code(0).json();
    let figures = same["figures"].as_array().unwrap();
    assert!(!figures.is_empty() && figures.iter().all(|one| one["ratio"] == 1.0), "{same:#}");

    let previous = runs(&place, &["diff"]).run().expect_code(0);
    assert_eq!(previous.stdout, diff.stdout, "the newest, and the one of its verb before it");
    assert_eq!(runs(&place, &["diff", "last"]).run().expect_code(0).stdout, diff.stdout);
    shown(&place, &first);

    let trend = runs(&place, &["trend", "throughput", "--all"]).run().expect_code(0);
    fits(&trend);
    assert!(trend.stdout.contains("Fewer than 10 runs"), "{}", trend.stdout);
    handed_on(&place, &first, &other.path());
}

/// The text of the older of two runs of `disk`, by its name and by its place before the newest.
fn shown(place: &Path, first: &Path) {
    let show = |named: &str| runs(place, &["show", named]).run().expect_code(0);
    let text = show(&name(first));
    for part in ["$ ", "--depth 1", ", complete after ", "Probing ", "kind depth", "Run folder: "] {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
    assert_eq!(show("last~1").stdout, text.stdout);
    assert!(show("last").stdout.contains("--depth 4"), "the newest");
    assert_eq!(runs(place, &["show"]).run().expect_code(0).stdout, show("last").stdout);
    let document = runs(place, &["show", "--json", "last~1"]).run().expect_code(0).json();
    assert_eq!(document["run"]["name"], name(first).as_str());
    assert!(document["results"].as_array().unwrap().iter().any(|one| one["type"] == "step"), "{document:#}");
    let none = runs(place, &["show", "last~2"]).run().expect_code(3);
    assert!(none.stderr.contains("holds 2 runs with results"), "{}", none.stderr);
}

/// Exports a run, imports it elsewhere, and reads it there with the verbs that read runs.
fn handed_on(place: &Path, run: &Path, there: &Path) {
    let (bundle, again) = (there.join("run.tar.zst"), there.join("again.tar.zst"));
    let export = |file: &Path| runs(place, &["export", &name(run)]).arg("-o").arg(file).run();
    export(&bundle).expect_code(0);
    let twice = export(&bundle).expect_code(3);
    assert!(twice.stderr.contains("--force"), "{}", twice.stderr);
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["report"]).arg(run).run().expect_code(0);
    export(&again).expect_code(0);
    assert_eq!(fs::read(&bundle).unwrap(), fs::read(&again).unwrap(), "the same run, the same bundle");
    let target = there.join("runs");
    runs(&target, &["verify"]).arg(&bundle).run().expect_code(0);
    let imported = runs(&target, &["import"]).arg(&bundle).run().expect_code(0);
    assert_eq!(PathBuf::from(imported.stdout.trim()), target.join(name(run)));
    assert_eq!(Run::open(target.join(name(run))).unwrap().manifest, Run::open(run).unwrap().manifest);
    runs(&target, &["verify", &name(run)]).run().expect_code(0);
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["report"])
        .arg(target.join(name(run)))
        .run()
        .expect_code(0);
    let diff = runs(&target, &["diff", "--json"]).arg(run).arg(name(run)).run().expect_code(0).json();
    assert_eq!(diff["environment"].as_array().unwrap().len(), 0, "{diff:#}");
    let taken = runs(&target, &["import"]).arg(&bundle).run().expect_code(3);
    assert!(taken.stderr.contains("already exists"), "{}", taken.stderr);
    let mut bytes = fs::read(&bundle).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&bundle, bytes).unwrap();
    fs::remove_dir_all(target.join(name(run))).unwrap();
    let damaged = runs(&target, &["import"]).arg(&bundle).run().expect_code(1);
    assert!(damaged.stderr.contains("is refused"), "{}", damaged.stderr);
    assert_eq!(names(&target), Vec::<String>::new(), "nothing is left behind");
}

#[test]
fn a_run_is_running_until_its_process_is_gone() {
    let scratch = Scratch::new().unwrap();
    let (place, data) = (scratch.path().join("runs"), scratch.path().join("data"));
    fs::create_dir_all(&data).unwrap();
    let disk = Probe::new(&data);
    let words = ["--pattern", "randread", "--size", "64M", "--depth", "1..1024", "--time", "60s"];
    let going = disk.disk().args(words).arg("--runs").arg(&place).spawn();
    let begun = std::time::Instant::now();
    while names(&place).is_empty() && begun.elapsed().as_secs() < 300 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let state = |expected: &str| {
        let list = runs(&place, &["list", "--json"]).run().expect_code(0).json();
        assert_eq!(list["runs"][0]["state"], expected, "{list:#}");
    };
    state("running");
    let name = names(&place).remove(0);
    let export = runs(&place, &["export", &name]).current_dir(scratch.path()).run().expect_code(3);
    assert!(export.stderr.contains("still running"), "{}", export.stderr);
    let pruned = runs(&place, &["prune", "--larger-than", "0", "--yes"]).run().expect_code(0);
    assert!(pruned.stdout.contains("it is still running"), "{}", pruned.stdout);
    going.signal(Signal::KILL);
    going.wait();
    state("cut_off");
    let list = runs(&place, &["list", "--state", "cut-off"]).run().expect_code(0);
    assert!(list.stdout.contains("cut off"), "{}", list.stdout);
    disk.fathom("cleanup").run().expect_code(0);
    runs(&place, &["prune", "--larger-than", "0", "--yes"]).run().expect_code(0);
    assert_eq!(names(&place), Vec::<String>::new());
}

#[test]
fn what_is_hostile_or_foreign_is_named_and_steers_no_terminal() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path();
    let claim = "\x1b[2J\x1b]0;owned\x07 gone";
    made(&place, "disk", 0, &[Finding::new("x", Severity::Critical, claim)]);
    fs::create_dir(place.join("\x1b[31mred")).unwrap();
    fs::create_dir(place.join("links")).unwrap();
    symlink("/dev/zero", place.join("links").join("manifest.json")).unwrap();
    fs::create_dir(place.join("broken")).unwrap();
    fs::write(place.join("broken").join("manifest.json"), "{\"schema\": 1, \"verb\": \"\x1b[31m\"").unwrap();
    for arguments in
        [&["list"][..], &["show"], &["search", "gone"], &["trend", "--all"], &["prune", "--keep", "9", "-n"]]
    {
        let output = runs(&place, arguments).run().expect_code(0);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(!all.contains('\x1b') && !all.contains('\x07'), "{all:?}");
    }
    let list = runs(&place, &["list"]).run().expect_code(0);
    assert!(list.stdout.contains("\\u{1b}[2J") && list.stdout.contains("1 run under"), "{}", list.stdout);
    for stranger in ["not a run: links has a link", "not a run: broken", "not a run: \\u{1b}[31mred"] {
        assert!(list.stderr.contains(stranger), "{stranger}: {}", list.stderr);
    }
}

#[test]
fn a_search_finds_words_with_and_without_hyphens() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path();
    made(&place, "disk", 0, &[Finding::new("x", Severity::Warning, "The read-ahead of sda is large.")]);
    for words in [["readahead", "sda"], ["READ-AHEAD", "sda"]] {
        let found = runs(&place, &["search", words[0], words[1]]).run().expect_code(0);
        assert!(found.stdout.contains("finding x: The read-ahead of sda"), "{}", found.stdout);
    }
}

#[test]
fn prune_removes_old_runs_and_nothing_else() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path();
    let [old, older, young] = [40, 90, 1].map(|days| made(&place, "disk", days, &[]));
    let mine = made(&place, "ycsb", 60, &[]);
    fs::write(mine.join("my-notes.txt"), "precious").unwrap();
    fs::create_dir(place.join("photos")).unwrap();
    fs::write(place.join("photos").join("a.jpg"), "precious").unwrap();
    symlink(&young, place.join("link")).unwrap();
    let all = names(&place);

    let dry = runs(&place, &["prune", "--older", "30d", "--dry-run"]).run().expect_code(0);
    fits(&dry);
    assert!(dry.stdout.contains("2 of 4 runs"), "{}", dry.stdout);
    let unasked = runs(&place, &["prune", "--older", "30d"]).run().expect_code(2);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    assert_eq!(names(&place), all, "nothing went");
    runs(&place, &["prune"]).run().expect_code(2);
    runs(&place, &["prune", "--older", "soon"]).run().expect_code(2);
    let kept = runs(&place, &["prune", "--older", "30d", "--keep", "3", "--yes"]).run().expect_code(0);
    assert!(kept.stdout.contains(&name(&older)) && !older.exists() && old.exists(), "{}", kept.stdout);
    let done = runs(&place, &["prune", "--older", "30d", "--yes"]).run().expect_code(0);
    assert!(
        done.stdout.contains("my-notes.txt") && done.stdout.contains("photos has no manifest"),
        "{}",
        done.stdout
    );
    assert!(!old.exists() && young.exists() && mine.join("my-notes.txt").exists());
    assert!(place.join("photos/a.jpg").exists() && place.join("link").exists());

    let large = runs(&place, &["prune", "--larger-than", "1G", "-n"]).run().expect_code(0);
    assert!(large.stdout.contains("Nothing to remove"), "each is small: {}", large.stdout);
    let total = runs(&place, &["prune", "--total", "10", "-n"]).run().expect_code(0);
    assert!(total.stdout.contains("1 of 2 runs"), "{}", total.stdout);

    let halves = [".removing-half", ".importing-4711"].map(|name| place.join(name));
    for half in &halves {
        fs::create_dir_all(half.join("latency")).unwrap();
        fs::write(half.join("results.jsonl"), "").unwrap();
    }
    runs(&place, &["prune", "--older", "30d", "--yes"]).run().expect_code(0);
    assert!(halves.iter().all(|half| !half.exists()), "what was broken off is finished");
}

#[test]
fn for_want_of_room_the_oldest_go_and_not_the_largest() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path();
    let [oldest, large, newest] = [9, 5, 1].map(|days| made(&place, "disk", days, &[]));
    fs::write(large.join("findings.json"), format!("[]{}", " ".repeat(100_000))).unwrap();
    runs(&place, &["prune", "--total", "50K", "--yes"]).run().expect_code(0);
    assert!(!oldest.exists() && !large.exists() && newest.exists(), "{:?}", names(&place));
}

#[test]
fn a_stranger_finds_the_way() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path();
    let empty = runs(&place, &[]).run().expect_code(0);
    assert!(empty.stdout.contains("No runs yet") && empty.stdout.contains("fathom disk"), "{}", empty.stdout);
    let fresh = Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("runs").run().expect_code(0);
    assert!(fresh.stdout.contains("No runs yet"), "{}", fresh.stdout);
    runs(&place.join("nowhere"), &[]).run().expect_code(3);
    runs(&place, &["diff", "one"]).run().expect_code(3);
    runs(&place, &["lst"]).run().expect_code(2);
    runs(&place, &["list", "--state", "odd"]).run().expect_code(2);
    let missing = runs(&place, &["diff", "nope", "nope"]).run().expect_code(3);
    assert!(missing.stderr.contains("'fathom runs' lists them"), "{}", missing.stderr);
    let (one, two) = (made(&place, "disk", 3, &[]), made(&place, "disk", 2, &[]));
    let both = runs(&place, &["export", "disk"]).run().expect_code(2);
    assert!(both.stderr.contains(&name(&one)) && both.stderr.contains(&name(&two)), "{}", both.stderr);
    runs(&place, &["list", "--since", "60h"]).run().expect_code(0);
    let recent = runs(&place, &["list", "--since", "60h", "--json"]).run().expect_code(0).json();
    assert_eq!(recent["runs"].as_array().unwrap().len(), 1);
    let flag_before = Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["runs", "--json", "list"]).run();
    assert!(flag_before.expect_code(2).stderr.contains("write it behind"));
}

#[test]
fn sixty_runs_with_a_fall_have_a_change_and_twenty_a_suspicion() {
    let scratch = Scratch::new().unwrap();
    let (long, short) = (scratch.path().join("long"), scratch.path().join("short"));
    with_a_fall(&long, 60);
    with_a_fall(&short, 20);
    let json = runs(&long, &["trend", "--json"]).run().expect_code(0).json();
    let history = &json["histories"][0];
    assert_eq!(history["points"].as_array().unwrap().len(), 60);
    assert_eq!(history["changes"][0]["index"], 30, "{history:#}");
    assert_eq!(history["changes"][0]["state"], "change");
    let text = runs(&long, &["trend", "--points"]).run().expect_code(0);
    fits(&text);
    assert!(text.stdout.contains("! worse since"), "{}", text.stdout);
    let suspect = runs(&short, &["trend"]).run().expect_code(0);
    assert!(suspect.stdout.contains("changes are suspicions"), "{}", suspect.stdout);
    assert!(!suspect.stdout.contains("! worse"), "{}", suspect.stdout);
    // The page of a run shows the same, up to that run, and nothing if there are too few.
    let page = |place: &Path, at: usize| {
        let run = place.join(&names(place)[at]);
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["report", "--output", "-"])
            .arg(run)
            .run()
            .expect_code(0)
            .stdout
    };
    let last = page(&long, 59);
    let rows = last
        .split("id=\"history-0\"")
        .nth(1)
        .unwrap()
        .split("<pre class=\"csv\" tabindex=\"0\">")
        .nth(1)
        .unwrap();
    let rows: Vec<Vec<&str>> =
        rows.split("</pre>").next().unwrap().lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(
        rows[0],
        [
            "started",
            "highest throughput (1&#x2f;s)",
            "95 % from (1&#x2f;s)",
            "95 % to (1&#x2f;s)",
            "level (1&#x2f;s)",
            "change",
            "run"
        ]
    );
    let points = history["points"].as_array().unwrap();
    assert_eq!(rows.len(), 1 + points.len());
    for (row, point) in rows.iter().skip(1).zip(points) {
        assert_eq!(row[1].parse::<f64>().unwrap(), point["value"].as_f64().unwrap(), "{row:?}");
        assert_eq!(row[6], point["run"]);
    }
    let changes: Vec<usize> = (1..rows.len()).filter(|at| rows[*at][5] == "worse").map(|at| at - 1).collect();
    assert_eq!(changes, [30]);
    assert!(last.contains("! worse since"), "the sentence of trend");
    assert!(page(&long, 19).contains("Fewer than 50 runs"), "what came later is not in it");
    assert!(!page(&long, 8).contains("history"), "nine runs: no chart and no empty frame");
}
