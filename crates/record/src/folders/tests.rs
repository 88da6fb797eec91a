//! Folders of runs, both intact and hostile ones.

use std::os::unix::fs::symlink;

use super::*;
use crate::{Reading, RunLock, RunWriter, State};

fn run(parent: &Path, verb: &str) -> PathBuf {
    let writer = RunWriter::create(parent, Manifest::new(verb, "0.0.0", [])).unwrap();
    writer.finish(State::Complete, None).unwrap()
}

fn names(scan: &Scan) -> (Vec<&str>, Vec<&str>) {
    let runs = scan.runs.iter().map(|run| run.manifest.verb.as_str());
    (runs.collect(), scan.strangers.iter().map(|one| one.name.as_str()).collect())
}

#[test]
fn a_run_is_running_while_its_writer_lives_and_cut_off_when_that_is_gone() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), Manifest::new("disk", "0.0.0", [])).unwrap();
    writer.readings(&[Reading::new("host.cpu.idle_pct", "%", (0, 1), 1.0)]).unwrap();
    let folder = writer.folder().to_owned();
    assert_eq!(look(&folder).unwrap().condition, Condition::Running);
    assert_eq!(obstacle(&look(&folder).unwrap()), Some(Obstacle::Running));
    let listed = RunFolder { condition: Condition::CutOff, ..look(&folder).unwrap() };
    assert!(remove(&listed).unwrap_err().to_string().contains("changed"), "a running one is kept");
    drop(writer);
    assert_eq!(look(&folder).unwrap().condition, Condition::CutOff);
}

#[test]
fn a_run_folder_stays_once_something_was_measured_or_the_run_was_finished() {
    let parent = tempfile::tempdir().unwrap();
    let new = || RunWriter::create(parent.path(), Manifest::new("disk", "0.0.0", [])).unwrap();
    let kept = |writer: RunWriter| {
        let folder = writer.folder().to_owned();
        drop(writer);
        folder.exists()
    };
    let mut writer = new();
    writer.readings(&[Reading::new("host.cpu.idle_pct", "%", (0, 1), f64::NAN)]).unwrap();
    writer.findings(&[]).unwrap();
    writer.amend(|manifest| manifest.seed = 1).unwrap();
    assert!(writer.is_empty() && !kept(writer), "nothing was measured");
    assert!(scan(parent.path()).unwrap().unfinished.is_empty());
    let mut writer = new();
    writer.readings(&[Reading::new("host.cpu.idle_pct", "%", (0, 1), 1.0)]).unwrap();
    assert!(!writer.is_empty() && kept(writer));
    let finished = new().finish(State::Interrupted, None).unwrap();
    assert!(finished.exists());
    assert!(
        kept(RunWriter::resume(RunLock::take(&finished).unwrap()).unwrap()),
        "a resumed run has what it had before"
    );
}

#[test]
fn what_is_no_run_is_named_and_never_in_the_way() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path();
    let whole = run(place, "disk");
    fs::write(place.join("a-file"), "x").unwrap();
    fs::create_dir(place.join("b-empty")).unwrap();
    symlink(&whole, place.join("c-link")).unwrap();
    for (name, manifest) in [("d-broken", "{"), ("e-newer", "{\"schema\": 99}"), ("f-array", "[]")] {
        fs::create_dir(place.join(name)).unwrap();
        fs::write(place.join(name).join(MANIFEST), manifest).unwrap();
    }
    fs::create_dir(place.join("g-endless")).unwrap();
    symlink("/dev/zero", place.join("g-endless").join(MANIFEST)).unwrap();
    fs::create_dir(place.join(".removing-x")).unwrap();
    let scan = scan(place).unwrap();
    let strangers = ["a-file", "b-empty", "c-link", "d-broken", "e-newer", "f-array", "g-endless"];
    assert_eq!(names(&scan), (vec!["disk"], strangers.to_vec()));
    assert!(scan.strangers[4].why.contains("newer version"), "{:?}", scan.strangers[4]);
    assert_eq!(scan.unfinished, [".removing-x"]);
}

#[test]
fn a_removal_leaves_what_is_not_ours_and_finishes_what_was_broken_off() {
    let parent = tempfile::tempdir().unwrap();
    let (kept, gone) = (run(parent.path(), "disk"), run(parent.path(), "ycsb"));
    fs::write(kept.join("notes.txt"), "mine").unwrap();
    let listed = look(&kept).unwrap();
    assert_eq!(obstacle(&listed), Some(Obstacle::Foreign(vec!["notes.txt".to_owned()])));
    remove(&listed).unwrap_err();
    assert!(kept.join("notes.txt").exists());
    let outside = parent.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    symlink(&outside, gone.join("latency").join("read.hlog")).unwrap();
    assert!(look(&gone).unwrap_err().contains("latency/read.hlog"));
    fs::remove_file(gone.join("latency/read.hlog")).unwrap();
    fs::write(gone.join("report.html"), "page").unwrap();
    remove(&look(&gone).unwrap()).unwrap();
    assert!(!gone.exists() && outside.exists());

    let half = parent.path().join(".removing-half");
    fs::create_dir_all(half.join("latency")).unwrap();
    fs::write(half.join("results.jsonl"), "").unwrap();
    clear_unfinished(&half).unwrap();
    assert!(!half.exists());
    clear_unfinished(&kept).unwrap_err();
    let import = parent.path().join(".importing-1");
    fs::create_dir_all(import.join("latency")).unwrap();
    fs::write(import.join("manifest.json"), "{").unwrap();
    let going_on = fs::File::open(&import).unwrap();
    going_on.lock().unwrap();
    assert!(clear_unfinished(&import).unwrap_err().to_string().contains("still being imported"));
    drop(going_on);
    clear_unfinished(&import).unwrap();
    assert!(!import.exists());
}

#[test]
fn a_page_of_two_runs_is_ours_and_a_page_of_somebody_else_is_not() {
    let parent = tempfile::tempdir().unwrap();
    let place = run(parent.path(), "ycsb");
    fs::write(place.join("report-with-20261121T093000Z-ycsb-4711.html"), "page").unwrap();
    assert_eq!(obstacle(&look(&place).unwrap()), None);
    for mine in ["report-with-comments.html", "report-with-.html", "report-with-20261121T09300éZ-x.html"] {
        fs::write(place.join(mine), "mine").unwrap();
        assert_eq!(obstacle(&look(&place).unwrap()), Some(Obstacle::Foreign(vec![mine.to_owned()])));
        fs::remove_file(place.join(mine)).unwrap();
    }
    remove(&look(&place).unwrap()).unwrap();
    assert!(!place.exists());
}

#[test]
fn a_run_that_writes_its_manifest_meanwhile_is_still_a_run() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), Manifest::new("disk", "0.0.0", [])).unwrap();
    let folder = writer.folder().to_owned();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                writer.amend(|_| {}).unwrap();
            }
        });
        let failed = (0..40_000).find_map(|_| look(&folder).err());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}

#[test]
fn moments_are_read_as_people_write_them() {
    assert_eq!(days("30d").unwrap().get(), 30 * 86_400 * 1_000_000_000);
    assert_eq!(days("2w").unwrap(), days("14d").unwrap());
    assert_eq!(days("36h").unwrap(), days("1.5d").unwrap());
    for wrong in ["30", "d", "", "-1d", "1e99d", "soon", "900000d", "NaNd"] {
        assert!(days(wrong).is_err(), "{wrong}");
    }
    let day = UtcTime::back_to("2026-11-21").unwrap();
    assert_eq!((day.to_string(), day.short()), ("2026-11-21 00:00".to_owned(), "Nov 21 00:00".to_owned()));
    assert!(UtcTime::back_to("2026-13-01").is_err() && UtcTime::back_to("7d").unwrap() < UtcTime::now());
    assert_eq!(Condition::parse("cut-off"), Some(Condition::CutOff));
}
