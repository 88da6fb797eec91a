//! Series in several parts: full parts, a part that was being sealed at a kill, and those of earlier versions.

use std::fs;
use std::path::{Path, PathBuf};

use crate::folders::look;
use crate::{Manifest, Reading, Run, RunLock, RunWriter, State};

fn writer(parent: &Path) -> RunWriter {
    let mut writer = RunWriter::create(parent, Manifest::new("watch", "0.0.0", [])).unwrap();
    writer.series.max_part_readings = 10;
    writer
}

fn resume(folder: &Path) -> RunWriter {
    RunWriter::resume(RunLock::take(folder).unwrap()).unwrap()
}

fn reading(number: u64) -> Reading {
    Reading::new("host.busy_pct", "%", (number, number + 1), number as f64)
}

fn record(writer: &mut RunWriter, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| writer.readings(&[reading(number)]).unwrap());
}

/// The files of readings, by name.
fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("series")).collect();
    names.sort();
    names
}

#[track_caller]
fn assert_reads(folder: &Path, numbers: std::ops::Range<u64>) {
    let run = Run::open(folder).unwrap();
    assert_eq!(run.readings().unwrap(), numbers.clone().map(reading).collect::<Vec<_>>());
    assert_eq!(run.series().unwrap().get("host.busy_pct").unwrap().points.len() as u64, numbers.end);
}

/// A run that was killed with two full parts and seven more readings.
fn killed(parent: &Path) -> PathBuf {
    let mut writer = writer(parent);
    record(&mut writer, 0..27);
    writer.folder().to_owned()
}

#[test]
fn a_series_is_sealed_into_parts_while_the_run_goes() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = writer(parent.path());
    record(&mut writer, 0..20);
    // The end of a part waits for the sealing of the previous part.
    assert!(files(writer.folder()).contains(&"series-00001.parquet".to_owned()));
    assert_reads(writer.folder(), 0..20);
    record(&mut writer, 20..27);
    assert_reads(writer.folder(), 0..27);
    let folder = writer.finish(State::Complete, None).unwrap();
    assert_eq!(files(&folder), ["series-00001.parquet", "series-00002.parquet", "series-00003.parquet"]);
    assert_reads(&folder, 0..27);
    let contents = look(&folder).unwrap().contents;
    assert!(
        contents.foreign.is_empty() && contents.files.iter().filter(|file| file.is_record()).count() == 5
    );
}

#[test]
fn a_run_that_ends_with_a_full_part_has_no_empty_one() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = writer(parent.path());
    record(&mut writer, 0..10);
    let folder = writer.finish(State::Complete, None).unwrap();
    assert_eq!(files(&folder), ["series-00001.parquet"]);
    assert_reads(&folder, 0..10);
}

#[test]
fn a_run_that_was_killed_at_any_step_of_sealing_reads_back_once_and_can_go_on() {
    let parent = tempfile::tempdir().unwrap();
    let steps: [fn(&Path); 4] = [
        |_| (),
        // The Parquet file is half written.
        |folder| fs::write(folder.join("series.new"), "PAR1").unwrap(),
        // The lines of the newest part are still there, as is a copy of them.
        |folder| fs::write(folder.join("series.parquet"), "PAR1 and no end").unwrap(),
        // The last line is torn.
        |folder| {
            let lines = fs::read_to_string(folder.join("series.jsonl")).unwrap();
            fs::write(folder.join("series.jsonl"), lines + "{\"na").unwrap();
        },
    ];
    for (number, step) in steps.iter().enumerate() {
        let folder = killed(parent.path());
        step(&folder);
        assert_reads(&folder, 0..27);
        let mut writer = resume(&folder);
        record(&mut writer, 27..30);
        assert_reads(&folder, 0..30);
        writer.finish(State::Complete, None).unwrap();
        assert_reads(&folder, 0..30);
        let sealed = files(&folder).iter().filter(|name| name.ends_with(".parquet")).count();
        assert_eq!(sealed, 4, "step {number}: {:?}", files(&folder));
    }
}

#[test]
fn the_lines_of_a_part_that_was_not_sealed_are_read_and_sealed_at_the_end() {
    let parent = tempfile::tempdir().unwrap();
    let folder = killed(parent.path());
    let lines: String =
        (0..10).map(|number| serde_json::to_string(&reading(number)).unwrap() + "\n").collect();
    fs::write(folder.join("series-00001.jsonl"), lines).unwrap();
    fs::write(folder.join("series-00001.parquet"), "PAR1").unwrap();
    assert_reads(&folder, 0..27);
    let folder = resume(&folder).finish(State::Complete, None).unwrap();
    assert_eq!(files(&folder), ["series-00001.parquet", "series-00002.parquet", "series-00003.parquet"]);
    assert_reads(&folder, 0..27);
}

#[test]
fn a_finished_run_of_one_file_goes_on_with_a_second_part() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = writer(parent.path());
    record(&mut writer, 0..5);
    let folder = writer.finish(State::Interrupted, None).unwrap();
    assert_eq!(files(&folder), ["series.parquet"]);
    let mut writer = resume(&folder);
    record(&mut writer, 5..8);
    writer.finish(State::Complete, None).unwrap();
    assert_reads(&folder, 0..8);
}

#[test]
fn a_sealed_file_is_sorted_by_name_and_each_series_by_time() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), Manifest::new("watch", "0.0.0", [])).unwrap();
    for second in 0..3 {
        let window = (second, second + 1);
        writer.readings(&["b", "a"].map(|name| Reading::new(name, "1", window, second as f64))).unwrap();
    }
    let folder = writer.finish(State::Complete, None).unwrap();
    let readings = Run::open(&folder).unwrap().readings().unwrap();
    let order: Vec<(&str, u64)> =
        readings.iter().map(|reading| (reading.name.as_str(), reading.begin_ns)).collect();
    assert_eq!(order, [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]);
}

#[test]
fn a_part_that_is_missing_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let folder = killed(parent.path());
    fs::remove_file(folder.join("series-00001.parquet")).unwrap();
    let error = Run::open(&folder).unwrap().series().unwrap_err();
    assert!(error.to_string().contains("series-00001"), "{error}");
}

#[test]
fn names_of_parts_are_told_from_names_of_others() {
    use crate::series_parts::split;
    assert_eq!(split("series.jsonl"), Some((0, "jsonl")));
    assert_eq!(split("series-00012.parquet"), Some((12, "parquet")));
    assert_eq!(split("series-123456.new"), Some((123_456, "new")));
    for name in
        ["series-00000.parquet", "series-12.parquet", "series-+0001.jsonl", "series.txt", "series-00001"]
    {
        assert_eq!(split(name), None, "{name}");
    }
}
