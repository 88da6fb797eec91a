//! Work of known parts, and the shares that the table gives to each: what belongs to no operation is divided among none.

use fathom_record::{CollectionUse, OperationGroup, ThreadUse};

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

fn group(kind: &str, namespace: &str, plan: Option<&str>, connections: &[u64]) -> OperationGroup {
    OperationGroup {
        kind: kind.into(),
        namespace: namespace.into(),
        plan: plan.map(str::to_owned),
        count: connections.len() as u64,
        running_us: 5000,
        longest_us: 5000,
        connections: connections.to_vec(),
        ..OperationGroup::default()
    }
}

fn thread(name: &str, processor_us: u64, read_bytes: u64) -> ThreadUse {
    ThreadUse {
        name: name.into(),
        processor_us,
        read_bytes: Some(read_bytes),
        written_bytes: Some(0),
        ..ThreadUse::default()
    }
}

fn entry(second: u64, work: ServerWork) -> Entry {
    let (begin_ns, end_ns) = ((second - 1) * SECOND_NS, second * SECOND_NS);
    let has_read_operations = !work.operations.is_empty();
    Entry::ServerWork(Box::new(ServerWork { begin_ns, end_ns, has_read_operations, ..work }))
}

fn table(entries: &[Entry]) -> WorkTable {
    work_table(entries, 0, (0, 100 * SECOND_NS)).unwrap()
}

#[test]
fn sightings_and_top_divide_the_time() {
    // Ten seconds: two scans always run, a find is never seen; `top` counts 1 s of updates.
    let scan = || group("find", "shop.orders", Some("COLLSCAN"), &[3, 4]);
    let update =
        CollectionUse { namespace: "shop.orders".into(), kind: "update".into(), time_us: 100_000, count: 50 };
    let entries: Vec<Entry> = (1..=10)
        .map(|second| {
            entry(
                second,
                ServerWork {
                    operations: vec![scan()],
                    collections: vec![update.clone()],
                    ..ServerWork::default()
                },
            )
        })
        .collect();
    let table = table(&entries);
    let [scans, updates] = table.rows.as_slice() else { panic!("{table:?}") };
    assert_eq!((scans.kind.as_str(), scans.plan.as_deref(), scans.sightings), ("find", Some("COLLSCAN"), 20));
    assert!((scans.used.time_us - 20e6).abs() < 1.0 && scans.is_running);
    assert!((scans.time_share - 20.0 / 21.0).abs() < 1e-9);
    let (low, high) = scans.time_share_interval.unwrap();
    assert!(low < 1.0 && high >= low);
    assert_eq!(
        (updates.kind.as_str(), updates.ended, updates.time_share_interval),
        ("update", Some(500), None)
    );
    assert_eq!((table.readings, table.observed_s), (10, 10.0));
}

#[test]
fn what_top_counts_is_the_least_time_of_a_kind() {
    let insert =
        |time_us| CollectionUse { namespace: "a.b".into(), kind: "insert".into(), time_us, count: 7 };
    let of = |time_us| {
        let operations = vec![group("insert", "a.b", None, &[1])];
        let work = ServerWork { operations, collections: vec![insert(time_us)], ..ServerWork::default() };
        table(&[entry(1, work)]).rows.remove(0)
    };
    // Operations that have not ended are in no total.
    assert!((of(10).used.time_us - 1e6).abs() < 1.0);
    assert!((of(3_000_000).used.time_us - 3e6).abs() < 1.0);
    assert_eq!(of(10).ended, Some(7));
}

#[test]
fn what_a_connection_reads_belongs_to_what_it_runs() {
    let operations = vec![group("find", "a.b", Some("COLLSCAN"), &[3]), group("update", "a.b", None, &[5])];
    let threads = vec![
        thread("conn3", 700, 9000),
        thread("conn5", 100, 0),
        thread("conn6", 50, 40),
        thread("WTEvict", 30, 0),
    ];
    let process = Some(thread("mongod", 1000, 9100));
    let work = ServerWork { operations, threads, process, ..ServerWork::default() };
    let table = table(&[entry(1, work)]);
    let scan = table.rows.iter().find(|row| row.kind == "find").unwrap();
    assert_eq!((scan.used.processor_us, scan.used.disk_bytes()), (Some(700.0), Some(9000.0)));
    // A connection that was not seen, the threads of the engine, and threads that are not listed.
    assert_eq!((table.unattributed.processor_us, table.unattributed.read_bytes), (Some(200.0), Some(100.0)));
    assert_eq!(table.threads, [ThreadUse { name: "WTEvict".into(), ..thread("WTEvict", 30, 0) }]);
}

#[test]
fn a_connection_with_one_kind_of_work_is_known_by_it_and_others_are_not_guessed() {
    let seen = entry(
        1,
        ServerWork {
            operations: vec![group("find", "a.b", None, &[3, 4]), group("insert", "a.c", None, &[4])],
            ..ServerWork::default()
        },
    );
    let threads = vec![thread("conn3", 10, 0), thread("conn4", 20, 0)];
    let later = entry(2, ServerWork { threads, ..ServerWork::default() });
    let table = table(&[seen, later]);
    let find = table.rows.iter().find(|row| row.kind == "find").unwrap();
    assert_eq!((find.used.processor_us, table.unattributed.processor_us), (Some(10.0), Some(20.0)));
}

#[test]
fn waits_and_progress_are_kept() {
    let waiting =
        OperationGroup { wait: Some("lock Database".into()), ..group("find", "a.b", None, &[1, 2, 3]) };
    let build = OperationGroup {
        phase: Some("Index Build".into()),
        progress: Some((1, 4)),
        longest_operation: Some("17".into()),
        ..group("createIndexes", "a.b", None, &[9])
    };
    let work = ServerWork {
        operations: vec![waiting, group("find", "a.b", None, &[4]), build],
        unlisted: 5,
        ..ServerWork::default()
    };
    let table = table(&[entry(1, work)]);
    let find = &table.rows[0];
    assert_eq!((find.wait.as_deref(), find.waiting_share), (Some("lock Database"), 0.75));
    let build = &table.rows[1];
    assert_eq!((build.progress, build.longest_operation.as_deref()), (Some(0.25), Some("17")));
    assert!((table.unattributed.time_us - 5e6).abs() < 1.0);
    assert_eq!(work_table(&[], 0, (0, 1)), None);
}

#[test]
fn shares_are_bounded_by_what_was_not_attributed() {
    // Twenty seconds: connection 3 always scans, connections 5 and 6 take turns with inserts and finds, and the engine writes.
    let entries: Vec<Entry> = (1..=20)
        .map(|second| {
            let turn = if second % 2 == 0 { "insert" } else { "find" };
            let operations =
                vec![group("find", "a.b", Some("COLLSCAN"), &[3]), group(turn, "a.c", None, &[5])];
            let written = |thread: ThreadUse, bytes| ThreadUse { written_bytes: Some(bytes), ..thread };
            let threads = vec![
                thread("conn3", 700_000, 9000),
                written(thread("conn5", 100_000, 500), 800),
                written(thread("conn6", 50_000, 500), 100),
                written(thread("WTCheck", 50_000, 0), 5000),
            ];
            let process = Some(written(thread("mongod", 1_000_000, 10_000), 6000));
            entry(second, ServerWork { operations, threads, process, ..ServerWork::default() })
        })
        .collect();
    let table = table(&entries);
    let row = |kind: &str, namespace: &str| {
        let is_it = |row: &&WorkRow| row.kind == kind && row.namespace == namespace;
        table.rows.iter().find(is_it).unwrap()
    };
    let scans = table.share_of_rows(&[row("find", "a.b")], WorkResource::Processor).unwrap();
    // 70 %, seen in 20 of 20 readings of its connection; a tenth of the time belongs to no operation, a twentieth to the engine.
    assert!((scans.share - 0.7).abs() < 1e-9 && scans.low > 0.55 && scans.low < 0.6, "{scans:?}");
    assert!((scans.high - 0.9).abs() < 1e-9, "{scans:?}");
    assert_eq!(scans.words().unwrap(), "at least 59 %");
    // Inserts and finds of connection 5 each were seen in half of the readings.
    let inserts = table.share_of_rows(&[row("insert", "a.c")], WorkResource::DiskWrites).unwrap();
    assert!((inserts.share - 0.4).abs() < 1e-9, "without the engine's 5000 bytes: {inserts:?}");
    assert!(inserts.low < 0.3 && inserts.high > 0.6, "{inserts:?}");
    assert_eq!(table.all_of(WorkResource::DiskWrites), Some(20_000.0));
    assert_eq!(table.unattributed_of(WorkResource::DiskWrites), Some(4000.0));
    assert_eq!((table.threads_s, table.engine.written_bytes), (20.0, Some(100_000.0)));
    let numbers: Vec<u64> = table.connections.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [3, 5, 6]);
    assert_eq!(table.connections[2].sightings, 0);
}

#[test]
fn a_client_has_the_use_of_all_its_connections() {
    let of = |application: &str, connections: &[u64]| OperationGroup {
        application: Some(application.to_owned()),
        ..group("find", "a.b", None, connections)
    };
    let operations = vec![of("nightly", &[3, 4]), of("shop", &[5])];
    let threads = vec![
        thread("conn3", 10, 600),
        thread("conn4", 10, 200),
        thread("conn5", 10, 100),
        thread("conn9", 5, 100),
    ];
    let work = ServerWork { operations, threads, ..ServerWork::default() };
    let table = table(&[entry(1, work)]);
    let [nightly, shop] = table.clients.as_slice() else { panic!("{table:#?}") };
    assert_eq!((nightly.application.as_deref(), nightly.connections), (Some("nightly"), 2));
    let share = table.share_of_client(nightly, WorkResource::DiskReads).unwrap();
    assert_eq!((share.low, share.high), (0.8, 0.9), "connection 9 may be its own");
    assert_eq!(share.words().unwrap(), "80 to 90 %");
    assert_eq!(table.share_of_client(shop, WorkResource::DiskReads).unwrap().low, 0.1);
    assert_eq!(table.share_of_client(shop, WorkResource::Time).map(|share| share.low), Some(1.0 / 3.0));
}

#[test]
fn bounds_that_take_the_share_back_are_not_printed() {
    let words = |low, high| WorkShare { share: low, low, high }.words();
    assert_eq!(words(0.02, 0.98), None);
    assert_eq!(words(0.4, 0.98).as_deref(), Some("at least 40 %"));
    assert_eq!(words(0.852, 0.923).as_deref(), Some("85 to 92 %"));
    assert_eq!(words(0.971, 0.974).as_deref(), Some("97 %"));
}

#[test]
fn what_a_waiting_connection_used_is_not_of_the_operation_that_waits() {
    let waiting =
        OperationGroup { wait: Some("lock Collection".into()), ..group("update", "a.b", None, &[3]) };
    let of = |second, operation, processor_us| {
        let threads = vec![thread("conn3", processor_us, 0)];
        entry(second, ServerWork { operations: vec![operation], threads, ..ServerWork::default() })
    };
    let entries = [of(1, group("find", "a.b", Some("COLLSCAN"), &[3]), 900), of(2, waiting, 100)];
    let table = table(&entries);
    let find = table.rows.iter().find(|row| row.kind == "find").unwrap();
    let update = table.rows.iter().find(|row| row.kind == "update").unwrap();
    assert_eq!((find.used.processor_us, update.used.processor_us), (Some(1000.0), None));
    assert_eq!((table.connections[0].sightings, update.sightings), (2, 1));
}

/// Four clients with four connections each, which are at work for a known part of the time, over a minute. Their shares are found within five points,
/// and their bounds hold the truth.
#[test]
fn shares_of_a_scripted_mix_are_found_within_five_points() {
    let clients = [("batch", 0.9, 1.0), ("shop", 0.5, 0.4), ("report", 0.2, 2.0), ("admin", 0.05, 1.0)];
    for seed in 0..20 {
        let mut random = fathom_stats::SeededRandom::from_seed(seed);
        let mut truth = [0.0; 4];
        let mut entries = Vec::new();
        for second in 1..=60 {
            let (mut operations, mut threads, mut all_us) = (Vec::new(), Vec::new(), 50_000);
            for (at, (application, duty, weight)) in clients.iter().enumerate() {
                let numbers = (4 * at as u64 + 1)..=(4 * at as u64 + 4);
                let seen: Vec<u64> = numbers.clone().filter(|_| random.uniform() < *duty).collect();
                if !seen.is_empty() {
                    let application = Some((*application).to_owned());
                    operations.push(OperationGroup { application, ..group("find", "a.b", None, &seen) });
                }
                for number in numbers {
                    let used = 200_000.0 * duty * weight * (0.5 + random.uniform());
                    truth[at] += used;
                    all_us += used as u64;
                    threads.push(thread(&format!("conn{number}"), used as u64, used as u64));
                }
            }
            let process = Some(thread("mongod", all_us, all_us));
            entries.push(entry(second, ServerWork { operations, threads, process, ..ServerWork::default() }));
        }
        let table = table(&entries);
        let all = truth.iter().sum::<f64>() + 60.0 * 50_000.0;
        for ((application, ..), used) in clients.iter().zip(truth) {
            let client = table.clients.iter().find(|one| one.application.as_deref() == Some(*application));
            for resource in [WorkResource::Processor, WorkResource::DiskReads] {
                let share = table.share_of_client(client.unwrap(), resource).unwrap();
                let truth = used / all;
                assert!(
                    (share.share - truth).abs() <= 0.05,
                    "seed {seed}, {application}: {share:?}, {truth}"
                );
                assert!(share.low <= truth + 1e-3 && truth <= share.high + 1e-3, "{share:?}, {truth}");
            }
        }
    }
}
