//! Tests of log lines: real ones of 4.0.3, those in the manuals of 4.4 and 8.0, and other content that a file may hold.

use std::path::Path;

use fathom_record::{ServerEventKind, SlowOperation};
use proptest::prelude::*;

use super::log_line::{LogEvent, duration_ms, read_log_line};

fn slow(line: &str) -> SlowOperation {
    match read_log_line(line.as_bytes()).map(|line| line.what) {
        Some(LogEvent::Slow(logged)) => logged.operation,
        other => panic!("{other:?}: {line}"),
    }
}

#[test]
fn every_slow_operation_of_4_0_3_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mongod-4.0.3/slow-operations.log");
    let log = std::fs::read_to_string(path).unwrap();
    let all: Vec<SlowOperation> = log.lines().map(slow).collect();
    assert_eq!(all.len(), log.lines().count());
    let names: Vec<&str> = all.iter().map(|operation| operation.operation.as_str()).collect();
    assert_eq!(names[..5], ["listCollections", "count", "listIndexes", "createIndexes", "listCollections"]);
    assert_eq!((all[3].duration_ms, all[3].namespace.as_str()), (11, "ycsb.$cmd"));
    let waited = all.iter().find(|operation| operation.lock_wait_us != Some(0)).unwrap();
    assert_eq!((waited.lock_wait_us, waited.duration_ms), (Some(5998), 6));
    assert_eq!(
        (waited.keys_examined, waited.returned, waited.plan.as_deref()),
        (Some(0), Some(0), Some("EOF"))
    );
    let write = all.last().unwrap();
    assert_eq!((write.operation.as_str(), write.plan.as_deref()), ("update", Some("IDHACK")));
    assert_eq!((write.namespace.as_str(), write.duration_ms), ("config.cache.collections", 10));
    let text = log.lines().last().unwrap();
    assert_eq!(write.line, text);
}

#[test]
fn the_storage_section_of_4_2_is_read() {
    let line = "2020-05-20T20:10:08.731+0000 I  COMMAND  [conn281] command shop.c appName: \"x\" command: find { find: \"c\", \
         filter: { a: \" keysExamined:99 planSummary: LIE \" }, $db: \"shop\" } planSummary: COLLSCAN keysExamined:0 docsExamined:1000 \
         cursorExhausted:1 numYields:2 nreturned:7 reslen:1 locks:{ Global: { acquireCount: { r: 3 }, timeAcquiringMicros: { r: 11, w: 31 } } } \
         storage:{ data: { bytesRead: 2328, timeReadingMicros: 186 }, timeWaitingMicros: { cache: 849 } } protocol:op_msg 224ms";
    let operation = slow(line);
    assert_eq!(operation.plan.as_deref(), Some("COLLSCAN"));
    assert_eq!(
        (operation.keys_examined, operation.documents_examined, operation.returned),
        (Some(0), Some(1000), Some(7))
    );
    assert_eq!(
        (operation.read_bytes, operation.read_us, operation.cache_wait_us),
        (Some(2328), Some(186), Some(849))
    );
    assert_eq!((operation.lock_wait_us, operation.duration_ms), (Some(42), 224));
}

#[test]
fn the_json_form_is_read_with_what_8_0_added() {
    let line = r#"{"t":{"$date":"2024-06-01T13:24:10.034+00:00"},"s":"I",  "c":"COMMAND",  "id":51803,   "ctx":"conn3","msg":"Slow query","attr":{"type":"command","isFromUserConnection":true,"ns":"db.coll","collectionType":"normal","appName":"MongoDB Shell","command":{"find":"coll","filter":{"b":-1,"target":"mongodb://u:pw@h/?w=1"},"$db":"db"},"planSummary":"COLLSCAN","planningTimeMicros":87,"keysExamined":0,"docsExamined":20889,"nreturned":3,"locks":{"Global":{"acquireCount":{"r":329},"timeAcquiringMicros":{"r":5,"w":6}},"Collection":{"timeAcquiringMicros":{"w":100}}},"flowControl":{"acquireCount":1,"acquireWaitCount":1,"timeAcquiringMicros":8387},"storage":{"data":{"bytesRead":232899899,"timeReadingMicros":186017,"bytesWritten":12,"timeWritingMicros":3},"timeWaitingMicros":{"cache":849}},"cpuNanos":20987385,"waitForWriteConcernDurationMillis":4,"remote":"127.0.0.1:47150","protocol":"op_msg","queues":{"ingress":{"admissions":7,"totalTimeQueuedMicros":0},"execution":{"admissions":328,"totalTimeQueuedMicros":2109}},"workingMillis":89,"durationMillis":101}}"#;
    let operation = slow(line);
    let expected = SlowOperation {
        namespace: "db.coll".to_owned(),
        operation: "find".to_owned(),
        duration_ms: 101,
        working_ms: Some(89),
        ticket_wait_us: Some(2109),
        lock_wait_us: Some(111),
        flow_control_wait_us: Some(8387),
        replication_wait_ms: Some(4),
        cache_wait_us: Some(849),
        read_us: Some(186_017),
        read_bytes: Some(232_899_899),
        write_us: Some(3),
        written_bytes: Some(12),
        processor_us: Some(20_987),
        plan: Some("COLLSCAN".to_owned()),
        keys_examined: Some(0),
        documents_examined: Some(20_889),
        returned: Some(3),
        application: Some("MongoDB Shell".to_owned()),
        line: line.replace("u:pw@", "***@"),
        ..SlowOperation::default()
    };
    assert_eq!(operation, expected);
    assert_eq!(duration_ms(line), Some(101));
    assert_eq!(read_log_line(line.as_bytes()).unwrap().at_unix_ms, 1_717_248_250_034);
}

#[test]
fn checkpoints_and_stalls_are_events() {
    let progress = r#"{"t":{"$date":"2026-09-27T21:43:42.896+00:00"},"s":"I","c":"WTCHKPT","id":22430,"ctx":"Checkpointer","msg":"WiredTiger message","attr":{"message":{"msg":"saving checkpoint snapshot min: 99, snapshot max: 99 snapshot count: 0"}}}"#;
    let stalled = "2020-04-04T21:04:46.405+0000 I  COMMAND  [ftdc] serverStatus was very slow: { after basic: 26, at end: 1583 }";
    for (line, kind) in [(progress, ServerEventKind::Checkpoint), (stalled, ServerEventKind::Stall)] {
        let read = read_log_line(line.as_bytes()).unwrap();
        assert_eq!(read.what, LogEvent::Event(kind, line.to_owned()));
    }
    assert_eq!(read_log_line(b"{\"msg\":\"Connection accepted\"}"), None);
    assert_eq!(read_log_line(b"{\"t\":7,\"msg\":\"saving checkpoint snapshot\"}"), None);
}

proptest! {
    #[test]
    fn no_line_is_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0_usize..2000) {
        let _ = read_log_line(&bytes);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mongod-4.0.3/slow-operations.log");
        let mut log = std::fs::read(path).unwrap();
        let at = cut.min(log.len());
        log.splice(at..at, bytes.iter().copied());
        for line in log.split(|byte| *byte == b'\n') {
            let _ = read_log_line(line);
        }
    }

    #[test]
    fn nor_is_one_that_looks_like_a_slow_operation(middle in ".{0,200}", ms in any::<u64>()) {
        let _ = read_log_line(format!(r#"{{"msg":"Slow query",{middle},"durationMillis":{ms}}}"#).as_bytes());
        let _ = read_log_line(format!("2020-05-20T20:10:08.731+0000 I COMMAND  [{middle}] {middle} {ms}ms").as_bytes());
        let _ = read_log_line(format!("2020-05-20T20:10:08.731+0000 I WRITE  [c] a b numYields:{middle} {ms}ms").as_bytes());
    }
}

#[test]
fn a_line_of_sixteen_megabytes_is_only_long() {
    let mut line = br#"{"msg":"Slow query","attr":{"a":""#.to_vec();
    line.resize(16 << 20, b'{');
    assert_eq!(read_log_line(&line), None);
    let nested = "{\"msg\":\"Slow query\",\"a\":".to_owned() + &"[".repeat(1 << 20);
    assert_eq!(read_log_line(nested.as_bytes()), None);
}
