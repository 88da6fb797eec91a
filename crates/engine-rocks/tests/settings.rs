//! Tests of the settings: the defaults are mongo-rocks', the config string overrides them, and some change at run time.

use std::fs;
use std::path::Path;

use crate::common::{fill, open, options};
use fathom_engine::{Engine, Key, Kind, TableSpec};
use fathom_engine_rocks::{Options, RocksEngine};

/// The options that RocksDB itself says it runs with.
fn in_force(folder: &Path) -> String {
    let files = fs::read_dir(folder.join("db")).unwrap().map(|entry| entry.unwrap().path());
    let newest =
        files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("OPTIONS-")).max();
    fs::read_to_string(newest.unwrap()).unwrap()
}

#[track_caller]
fn assert_says(text: &str, settings: &[&str]) {
    for setting in settings {
        assert!(text.lines().any(|line| line.trim() == *setting), "no '{setting}' in:\n{text}");
    }
}

#[test]
fn the_defaults_are_those_of_mongo_rocks() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    assert_says(
        &in_force(folder.path()),
        &[
            "write_buffer_size=67108864",
            "max_write_buffer_number=4",
            "level0_slowdown_writes_trigger=8",
            "max_background_compactions=8",
            "max_background_flushes=2",
            "target_file_size_base=67108864",
            "level_compaction_dynamic_level_bytes=true",
            "max_bytes_for_level_base=536870912",
            "max_open_files=-1",
            "optimize_filters_for_hits=true",
            "enable_thread_tracking=true",
            "allow_concurrent_memtable_write=true",
            "enable_write_thread_adaptive_yield=true",
            "compression_per_level=kNoCompression:kNoCompression:kSnappyCompression",
            "block_size=16384",
            "format_version=2",
            "filter_policy=bloomfilter",
        ],
    );
    assert!(folder.path().join("db/journal").is_dir());
    let statistics = engine.statistics().unwrap();
    assert_eq!(
        statistics.get("", "block-cache-capacity"),
        Some(32 << 20),
        "the cache is the one that was made"
    );
}

#[test]
fn the_config_string_lies_over_the_defaults_and_leaves_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let config = "write_buffer_size=8388608;max_background_jobs=3;\
                  block_based_table_factory={block_size=8192;format_version=5};compression_per_level={}";
    let wanted = Options { config_string: config.to_owned(), ..options(folder.path()) };
    let engine = RocksEngine::open(wanted).unwrap();
    assert_says(
        &in_force(folder.path()),
        &[
            "write_buffer_size=8388608",
            "max_background_jobs=3",
            "block_size=8192",
            "format_version=5",
            "max_write_buffer_number=4",
            "filter_policy=bloomfilter",
        ],
    );
    // The cache, the counters and the rate limiter are objects; the copy must include them.
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let session = engine.session().unwrap();
    fill(session.as_ref(), &table, 2000, 500);
    engine.checkpoint().unwrap();
    assert_eq!(crate::common::count(session.as_ref(), &table), 2000);
    let statistics = engine.statistics().unwrap();
    assert!(statistics.get("", "block-cache-usage").unwrap() > 100_000, "{statistics:?}");
    assert!(statistics.get("counters", "flush-bytes-written").unwrap() > 1_000_000);
}

#[test]
fn a_rate_limit_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = Options { max_write_mb_per_sec: 4, ..options(folder.path()) };
    let engine = RocksEngine::open(wanted).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    fill(engine.session().unwrap().as_ref(), &table, 8000, 1000);
    let begin = std::time::Instant::now();
    engine.checkpoint().unwrap();
    // 8 MB at 4 MiB/s; flushes may write a burst of a tenth of a second first.
    assert!(begin.elapsed().as_secs_f64() > 1.2, "{:?}", begin.elapsed());
}

#[test]
fn settings_change_at_run_time_or_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    engine
        .reconfigure("cache_size=64M; write_buffer_size=4194304;level0_slowdown_writes_trigger=12")
        .unwrap();
    assert_eq!(engine.statistics().unwrap().get("", "block-cache-capacity"), Some(64 << 20));
    assert_says(
        &in_force(folder.path()),
        &["write_buffer_size=4194304", "level0_slowdown_writes_trigger=12", "max_write_buffer_number=4"],
    );
    for (settings, name) in [
        ("no_such_thing=1", "no_such_thing"),
        ("max_write_mb_per_sec=10", "max_write_mb_per_sec"),
        ("cache_size=much", "much"),
        ("cache_size=128M;no_such_thing=1", "no_such_thing"),
        ("write_buffer_size=much", "write_buffer_size"),
        ("words", "words"),
    ] {
        let error = engine.reconfigure(settings).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(engine.statistics().unwrap().get("", "block-cache-capacity"), Some(64 << 20), "all or none");
}

#[test]
fn statistics_follow_what_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let session = engine.session().unwrap();
    let before = engine.statistics().unwrap();
    fill(session.as_ref(), &table, 5000, 1000);
    engine.flush_journal().unwrap();
    engine.checkpoint().unwrap();
    let after = engine.statistics().unwrap();
    let grown = |section: &str, name: &str| {
        after.get(section, name).unwrap_or_else(|| panic!("no {section} {name}"))
            - before.get(section, name).unwrap()
    };
    assert_eq!(grown("counters", "num-keys-written"), 5000);
    assert!(grown("counters", "wal-syncs") >= 1);
    assert!(grown("counters", "wal-bytes") > 5_000_000);
    assert!(grown("counters", "flush-bytes-written") > 5_000_000);
    assert_eq!(grown("transaction-stats", "commits"), 5);
    assert_eq!(grown("levels", "level-0-files"), 1);
    assert!(grown("levels", "level-0-bytes") > 5_000_000);
    assert_eq!(after.get("", "is-write-stopped"), Some(0));
    assert_eq!(after.get("", "actual-delayed-write-rate"), Some(0));
    assert_eq!(after.get("", "background-errors"), Some(0));
    assert_eq!(after.get("", "num-snapshots"), Some(0));
    assert_eq!(after.get("stalls", "level0_slowdown").or(after.get("stalls", "total-stops")), Some(0));
    session.begin().unwrap();
    assert_eq!(crate::common::count(session.as_ref(), &table), 5000);
    let during = engine.statistics().unwrap();
    assert_eq!(during.get("", "num-snapshots"), Some(1));
    assert!(during.get("", "oldest-snapshot-time").unwrap() > 1_500_000_000);
    assert!(during.get("counters", "num-forward-iterations").unwrap() >= 4999);
    assert!(engine.size_on_disk(&table).unwrap() > 4_900_000);
    session.rollback();
}

#[test]
fn the_bloom_filter_spares_reads_of_absent_keys() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("t", &TableSpec::index()).unwrap();
    let session = engine.session().unwrap();
    let key = |number: i64| number.to_be_bytes();
    // Two files: with optimize_filters_for_hits the filter of the last one is not asked.
    for start in [0, 2] {
        for number in (start..10_000).step_by(4) {
            session.put(&table, Key::Bytes(&key(number)), b"").unwrap();
        }
        engine.checkpoint().unwrap();
    }
    for number in (3..9_998).step_by(2) {
        assert_eq!(crate::common::get(session.as_ref(), &table, Key::Bytes(&key(number))), None);
    }
    let useful = engine.statistics().unwrap().get("counters", "bloom-filter-useful").unwrap();
    // 4,998 look-ups; ten bits a key let about one in a hundred through.
    assert!((4_800..=4_998).contains(&useful), "{useful}");
}

#[test]
fn counters_can_be_off() {
    let folder = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Options { counters: false, ..options(folder.path()) }).unwrap();
    let statistics = engine.statistics().unwrap();
    assert!(statistics.iter().all(|one| one.section != "counters"));
    assert!(statistics.get("", "block-cache-capacity").is_some());
}
