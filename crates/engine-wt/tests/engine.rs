//! Tests of the engine on real directories: opening, refusals, settings, statistics, drops of tables in use.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fathom_engine::{Durability, Engine, Key, Kind, Splice, TableSpec};
use fathom_engine_wt::{EventMessage, Options, WiredTiger};

fn options(dir: &Path) -> Options {
    Options { cache_bytes: 64 << 20, session_max: 500, ..Options::new(dir) }
}

fn kind<T>(result: Result<T, fathom_engine::Error>) -> Kind {
    result.err().expect("it succeeded, and must not").kind()
}

#[test]
fn says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    assert_eq!(engine.name(), "wiredTiger");
    let version = engine.version();
    assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
    assert!(dir.path().join("journal").join("WiredTigerLog.0000000001").exists());
    let table = engine.create_table("collection-0-1", &TableSpec::records()).unwrap();
    let metadata = engine.table_metadata(&table).unwrap();
    assert_eq!(metadata.uri, "table:collection-0-1");
    for setting in
        ["block_compressor=snappy", "memory_page_max=10m", "app_metadata=(formatVersion=1)", "key_format=q"]
    {
        assert!(metadata.creation.contains(setting), "{setting} is not in {}", metadata.creation);
    }
}

#[test]
fn a_directory_that_is_not_ours_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("WiredTiger"), "something else").unwrap();
    assert_eq!(kind(WiredTiger::open(options(dir.path()))), Kind::NotOurs);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("CURRENT"), "MANIFEST-1").unwrap();
    assert_eq!(kind(WiredTiger::open(options(dir.path()))), Kind::NotOurs);
}

#[test]
fn a_damaged_directory_is_corruption_with_a_sentence() {
    for (file, bytes) in [("WiredTiger.wt", &b"rubbish"[..]), ("WiredTiger.turtle", b"rubbish")] {
        let dir = tempfile::tempdir().unwrap();
        WiredTiger::open(options(dir.path())).unwrap().close().unwrap();
        fs::write(dir.path().join(file), bytes).unwrap();
        let error = WiredTiger::open(options(dir.path())).unwrap_err();
        assert_eq!(error.kind(), Kind::Corruption, "{file}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn a_second_opening_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let error = WiredTiger::open(options(dir.path())).unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    engine.close().unwrap();
    WiredTiger::open(options(dir.path())).unwrap();
}

#[test]
fn a_bad_setting_is_named_at_opening_and_at_run_time() {
    let dir = tempfile::tempdir().unwrap();
    let bad = Options { config: "evicton_target=70".to_owned(), ..options(dir.path()) };
    let error = WiredTiger::open(bad).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("evicton_target"), "{error}");

    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let bad = TableSpec { config: "leaf_pagemax=8k".to_owned(), ..TableSpec::records() };
    let error = engine.create_table("t", &bad).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("leaf_pagemax"), "{error}");

    let maximum = || engine.statistics().unwrap().get("cache", "maximum bytes configured").unwrap();
    assert_eq!(maximum(), 64 << 20);
    engine.reconfigure("cache_size=96M,eviction_dirty_trigger=30").unwrap();
    assert_eq!(maximum(), 96 << 20);
    let error = engine.reconfigure("eviction_dirty_trigger=lots").unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("lots"), "{error}");
}

#[test]
fn messages_go_to_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&seen);
    engine.set_log(Arc::new(move |message: EventMessage| copy.lock().unwrap().push(message)));
    engine.reconfigure("no_such_thing=1").unwrap_err();
    let messages = seen.lock().unwrap();
    assert!(messages.iter().any(|message| message.text.contains("no_such_thing")), "{messages:?}");
}

#[test]
fn close_waits_for_nobody_but_refuses_while_sessions_are_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let session = engine.session().unwrap();
    assert_eq!(kind(engine.close()), Kind::Busy);
    drop(session);
    engine.close().unwrap();
}

#[test]
fn an_engine_that_is_dropped_lives_until_its_last_session() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let session = engine.session().unwrap();
    drop(engine);
    session.put(&table, Key::Number(1), b"late").unwrap();
    drop(session);
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let table = engine.open_table("t").unwrap();
    let mut out = Vec::new();
    assert!(engine.session().unwrap().get(&table, Key::Number(1), &mut out).unwrap());
    assert_eq!(out, b"late");
}

#[test]
fn idle_sessions_do_not_keep_a_table_but_a_cursor_does() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let sessions: Vec<_> = (0..20).map(|_| engine.session().unwrap()).collect();
    for (number, session) in (0i64..).zip(&sessions) {
        session.put(&table, Key::Number(number), b"x").unwrap();
    }
    let mut cursor = sessions[0].cursor(&table).unwrap();
    assert!(cursor.first().unwrap());
    assert_eq!(kind(engine.drop_table(&table)), Kind::Busy);
    drop(cursor);
    // No thread released a cursor: the idle cursors of other sessions are closed for them.
    let patience = Instant::now() + Duration::from_secs(300);
    while let Err(error) = engine.drop_table(&table) {
        // The library counts the last writes as visible to all only when its own thread has looked, ten times a second.
        assert_eq!(error.kind(), Kind::Busy);
        assert!(Instant::now() < patience, "{error}");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(kind(engine.drop_table(&table)), Kind::NotFound);
    assert_eq!(kind(sessions[3].put(&table, Key::Number(1), b"x")), Kind::NotFound);
}

#[test]
fn a_scan_outside_a_transaction_survives_the_sessions_own_writes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let numbers = engine.create_table("numbers", &TableSpec::records()).unwrap();
    let bytes = engine.create_table("bytes", &TableSpec::index()).unwrap();
    let session = engine.session().unwrap();
    for length in 0..20usize {
        session.put(&numbers, Key::Number(length as i64 - 10), b"x").unwrap();
        session.put(&bytes, Key::Bytes(&vec![0; length]), b"x").unwrap();
    }
    for table in [&numbers, &bytes] {
        let mut cursor = session.cursor(table).unwrap();
        let (mut found, mut steps) = (cursor.first().unwrap(), 0);
        while found {
            assert_eq!(cursor.value(), b"x");
            match cursor.key() {
                Key::Number(number) => assert!(session.remove(table, Key::Number(number)).unwrap()),
                Key::Bytes(key) => assert!(session.remove(table, Key::Bytes(key)).unwrap()),
            }
            steps += 1;
            found = cursor.next().unwrap();
        }
        assert_eq!(steps, 20);
        assert!(!session.cursor(table).unwrap().first().unwrap());
    }
}

#[test]
fn small_changes_are_logged_as_changes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let session = engine.session().unwrap();
    let mut value: Vec<u8> =
        (0..4000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    session.put(&table, Key::Number(1), &value).unwrap();
    let modifies = || engine.statistics().unwrap().get("cursor", "cursor modify calls").unwrap_or(0);
    let before = modifies();
    session.begin().unwrap();
    value[100..104].copy_from_slice(b"abcd");
    let splice = Splice { offset: 100, remove: 4, data: b"abcd".to_vec() };
    session.update(&table, Key::Number(1), &value, Some(&[splice])).unwrap();
    session.commit(Durability::Durable).unwrap();
    assert_eq!(modifies(), before + 1);
    // Shorter, outside a transaction, at two places.
    value.drain(3000..3010);
    value.splice(10..10, *b"new");
    let splices = [
        Splice { offset: 10, remove: 0, data: b"new".to_vec() },
        Splice { offset: 2997, remove: 10, data: Vec::new() },
    ];
    session.update(&table, Key::Number(1), &value, Some(&splices)).unwrap();
    assert_eq!(modifies(), before + 2);
    let mut out = Vec::new();
    assert!(session.get(&table, Key::Number(1), &mut out).unwrap());
    // The second splice refers to the old value, in which the new bytes do not yet precede it.
    let mut expected: Vec<u8> = value.clone();
    expected.truncate(value.len());
    assert_eq!(out.len(), expected.len());
    assert_eq!(out[..3000], expected[..3000]);
}

#[test]
fn without_a_journal_what_a_journal_holds_is_recovered_first() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    engine.session().unwrap().put(&table, Key::Number(1), b"kept").unwrap();
    engine.close().unwrap();
    let without = Options { journal: false, ..options(dir.path()) };
    let engine = WiredTiger::open(without).unwrap();
    let table = engine.open_table("t").unwrap();
    let session = engine.session().unwrap();
    assert!(session.get(&table, Key::Number(1), &mut Vec::new()).unwrap());
    session.begin().unwrap();
    session.put(&table, Key::Number(2), b"also").unwrap();
    session.commit(Durability::Durable).unwrap();
    drop(session);
    assert_eq!(fs::read_dir(dir.path().join("journal")).unwrap().count(), 0);
    engine.close().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let table = engine.open_table("t").unwrap();
    assert!(engine.session().unwrap().get(&table, Key::Number(2), &mut Vec::new()).unwrap());
}

/// Counters that monitors read of MongoDB 4.0.3, by their names there.
const READ_BY_MONITORS: &[(&str, &str)] = &[
    ("block-manager", "bytes read"),
    ("block-manager", "bytes written"),
    ("cache", "bytes currently in the cache"),
    ("cache", "bytes read into cache"),
    ("cache", "bytes written from cache"),
    ("cache", "eviction server unable to reach eviction goal"),
    ("cache", "maximum bytes configured"),
    ("cache", "modified pages evicted"),
    ("cache", "pages evicted by application threads"),
    ("cache", "pages read into cache"),
    ("cache", "tracked dirty bytes in the cache"),
    ("cache", "unmodified pages evicted"),
    ("connection", "files currently open"),
    ("log", "log bytes written"),
    ("log", "log sync operations"),
    ("log", "log sync time duration (usecs)"),
    ("session", "open cursor count"),
    ("session", "open session count"),
    ("thread-yield", "application thread time evicting (usecs)"),
    ("thread-yield", "application thread time waiting for cache (usecs)"),
    ("transaction", "transaction begins"),
    ("transaction", "transaction checkpoint currently running"),
    ("transaction", "transaction checkpoint most recent time (msecs)"),
    ("transaction", "transaction checkpoint total time (msecs)"),
    ("transaction", "transaction checkpoints"),
    ("transaction", "transaction range of IDs currently pinned"),
    ("transaction", "transactions committed"),
    ("transaction", "transactions rolled back"),
];

/// The sections of `serverStatus.wiredTiger` there, without `async`, which today's version no longer has.
const SECTIONS: &[&str] = &[
    "LSM",
    "block-manager",
    "cache",
    "connection",
    "cursor",
    "data-handle",
    "lock",
    "log",
    "perf",
    "reconciliation",
    "session",
    "thread-state",
    "thread-yield",
    "transaction",
];

#[test]
fn statistics_have_the_names_of_mongodb() {
    let dir = tempfile::tempdir().unwrap();
    let engine = WiredTiger::open(options(dir.path())).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    engine.session().unwrap().put(&table, Key::Number(1), b"x").unwrap();
    engine.checkpoint().unwrap();
    let statistics = engine.statistics().unwrap();
    for (section, name) in READ_BY_MONITORS {
        assert!(statistics.get(section, name).is_some(), "{section}: {name} is missing");
    }
    for section in SECTIONS {
        assert!(statistics.iter().any(|one| one.section == *section), "{section} is missing");
    }
    assert!(statistics.get("transaction", "transaction checkpoints").unwrap() >= 1);
    let of_table = engine.table_statistics(&table).unwrap();
    for (section, name) in [
        ("block-manager", "file size in bytes"),
        ("block-manager", "file bytes available for reuse"),
        ("cache", "bytes currently in the cache"),
        ("compression", "compressed pages written"),
        ("cursor", "insert calls"),
    ] {
        assert!(of_table.get(section, name).is_some(), "{section}: {name} is missing");
    }
}
