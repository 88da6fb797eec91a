//! Levels and rows on composed series: products of known steps, estimated figures, and figures that have not settled.

use fathom_record::{Point, SeriesSet};

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Seven minutes of a member: 1 MB a second of the user, factors of 1.25, 4 and 2, a checkpoint a minute.
fn run(member: &str, series: &mut SeriesSet) {
    let device = format!("sd{member}");
    for second in 0..430 {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let mut put = |name: String, value: f64| series.add(&name, "1", Point { begin_ns, end_ns, value });
        let server = |name: &str| format!("server.{member}.{name}");
        put(server("journal.written_bytes"), 1.25e6);
        put(server("engine.written_bytes"), 5e6);
        put(server("engine.checkpoint_bytes"), 1e6);
        put(server("checkpoint.count"), f64::from(u8::from(second % 60 == 30)));
        put(server("documents.updated"), 1000.0);
        put(server("network.in_bytes"), 1.1e6);
        put(server("network.out_bytes"), 2e6);
        put(server("reads.operations"), 500.0);
        put(server("writes.operations"), 1000.0);
        put(format!("device.{device}.written_bytes"), 1e7);
        put(format!("device.{device}.writes"), 600.0);
        put(format!("device.{device}.write_ms"), 4800.0);
        put(format!("device.{device}.read_bytes"), 4e6);
        put(format!("device.{device}.reads"), 1000.0);
        put(format!("device.{device}.read_ms"), 4000.0);
    }
    for (name, value) in [("allocated_bytes", 6e8), ("logical_bytes", 1e9)] {
        let point = Point { begin_ns: 0, end_ns: SECOND, value };
        series.add(&format!("server.{member}.storage.{name}"), "bytes", point);
    }
}

fn judged(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::default();
    judge(evidence, &mut judgement);
    assert_eq!(judgement.findings, [], "figures, not claims");
    judgement
}

#[test]
fn the_product_of_the_steps_is_the_whole() {
    let mut series = SeriesSet::default();
    run("0", &mut series);
    for second in 0..430 {
        let point = Point { begin_ns: second * SECOND, end_ns: (second + 1) * SECOND, value: 1e6 };
        series.add("client.user_bytes", "bytes", point);
    }
    let evidence = Evidence { series, window_ns: (0, 430 * SECOND), ..Evidence::default() };
    let judgement = judged(&evidence);
    let [one] = judgement.amplifications.as_slice() else { panic!("{judgement:#?}") };
    let names: Vec<&str> = one.written.iter().map(|level| level.name.as_str()).collect();
    assert_eq!(names, ["user", "journal", "engine", "device"]);
    let product: f64 = one.written.iter().map(|level| level.step).product();
    assert!((product - 10.0).abs() < 1e-9 && (one.whole().unwrap() - 10.0).abs() < 1e-9, "{one:#?}");
    assert_eq!((one.window_ns, one.between_checkpoints), ((31 * SECOND, 391 * SECOND), true));
    assert!(one.settled && one.windows == 6 && (one.slope.unwrap() - 10.0).abs() < 1e-9, "{one:#?}");
    assert_eq!(one.level("engine").unwrap().parts.len(), 1);
    assert!(
        (one.level("engine").unwrap().parts[0].1 / one.level("engine").unwrap().bytes - 0.2).abs() < 1e-9
    );
    assert!((one.level("device").unwrap().per_operation_bytes.unwrap() - 1e4).abs() < 1e-6);
    assert_eq!(
        (one.space, one.read_per_returned_byte, one.reads_per_operation),
        (Some(0.6), Some(2.0), Some(2.0))
    );
    assert_eq!((judgement.members.len(), one.notes.len()), (0, 0), "{:#?}", one.notes);
}

#[test]
fn what_is_estimated_or_not_settled_is_said() {
    let mut series = SeriesSet::default();
    run("0", &mut series);
    let evidence = Evidence { series, window_ns: (0, 100 * SECOND), ..Evidence::default() };
    let one = &judged(&evidence).amplifications[0];
    assert!((one.whole().unwrap() - 1e7 / 1.1e6).abs() < 1e-6 && !one.settled, "{one:#?}");
    assert!(one.notes.iter().any(|note| note.contains("network")), "{:#?}", one.notes);
    assert!(one.notes.iter().any(|note| note.contains("steady state")), "{:#?}", one.notes);
    assert_eq!(judged(&Evidence::default()).amplifications, []);
}

#[test]
fn bytes_of_others_and_documents_not_yet_in_files_are_said() {
    let mut series = SeriesSet::default();
    run("0", &mut series);
    for second in 0..430 {
        let point = Point { begin_ns: second * SECOND, end_ns: (second + 1) * SECOND, value: 2e6 };
        series.add("server.0.process.written_bytes", "bytes", point);
    }
    let early = Point { begin_ns: 429 * SECOND, end_ns: 430 * SECOND, value: 4096.0 };
    series.add("server.0.storage.allocated_bytes", "bytes", early);
    let evidence = Evidence { series, window_ns: (0, 430 * SECOND), ..Evidence::default() };
    let one = &judged(&evidence).amplifications[0];
    let says = |words: &str| one.notes.iter().any(|note| note.contains(words));
    assert!(says("process wrote 20 %") && says("not in the engine's files yet"), "{:#?}", one.notes);
    // The headline is the process's own figure.
    let names: Vec<&str> = one.written.iter().map(|level| level.name.as_str()).collect();
    assert_eq!(names, ["user", "journal", "engine", "process"]);
    assert!((one.whole().unwrap() - 2e6 / 1.1e6).abs() < 1e-6, "{one:#?}");
    let product: f64 = one.written.iter().map(|level| level.step).product();
    assert!((product - one.whole().unwrap()).abs() < 1e-6, "{one:#?}");
    assert_eq!(one.space, None);
}

#[test]
fn an_idle_server_has_no_ratio() {
    let mut series = SeriesSet::default();
    for second in 0..60 {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let mut put = |name: &str, value: f64| series.add(name, "1", Point { begin_ns, end_ns, value });
        put("server.0.network.in_bytes", 300.0);
        put("server.0.journal.written_bytes", 4096.0);
        put("device.sd0.written_bytes", 700_000.0);
    }
    let evidence = Evidence { series, window_ns: (0, 60 * SECOND), ..Evidence::default() };
    assert_eq!(judged(&evidence).amplifications, []);
}

#[test]
fn what_writes_read_is_not_charged_to_the_few_reads_beside_them() {
    let mut series = SeriesSet::default();
    run("0", &mut series);
    for second in 0..430 {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        for (name, value) in [("server.0.reads.operations", 1.0), ("server.0.writes.operations", 10_000.0)] {
            series.add(name, "1", Point { begin_ns, end_ns, value });
        }
    }
    let evidence = Evidence { series, window_ns: (0, 430 * SECOND), ..Evidence::default() };
    let judgement = judged(&evidence);
    let one = &judgement.amplifications[0];
    assert_eq!(
        (one.read_per_operation_bytes, one.reads_per_operation, one.read_per_returned_byte),
        (None, None, None)
    );
}

#[test]
fn a_volume_over_several_devices_is_a_level_of_its_own() {
    let mut series = SeriesSet::default();
    run("0", &mut series);
    for second in 0..430 {
        for device in ["sda", "sdb"] {
            let point = Point { begin_ns: second * SECOND, end_ns: (second + 1) * SECOND, value: 1e7 };
            series.add(&format!("device.{device}.written_bytes"), "bytes", point);
        }
    }
    let environment = [("server.0.device", "sd0"), ("server.0.device.leaves", "sda,sdb")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let evidence = Evidence { series, environment, window_ns: (0, 430 * SECOND), ..Evidence::default() };
    let one = &judged(&evidence).amplifications[0];
    assert!((one.level("device").unwrap().step - 2.0).abs() < 1e-9, "{one:#?}");
    assert_eq!(one.level("device").unwrap().parts.len(), 2);
}

#[test]
fn members_stand_side_by_side() {
    let mut series = SeriesSet::default();
    run("0", &mut series);
    run("1", &mut series);
    let facts = [("server.0.device", "sd0"), ("server.1.device", "sd1"), ("server.1.engine", "rocksdb")];
    let environment = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let evidence = Evidence { series, environment, window_ns: (0, 430 * SECOND), ..Evidence::default() };
    let judgement = judged(&evidence);
    assert_eq!((judgement.amplifications.len(), judgement.members.len()), (2, 2));
    let row = &judgement.members[1];
    assert_eq!(
        (row.engine.as_deref(), row.device_write_us, row.device_read_us),
        (Some("rocksdb"), Some(8000.0), Some(4000.0))
    );
    assert_eq!((row.operations_per_s, row.device_writes_per_s), (Some(1500.0), Some(600.0)));
    assert!((row.written_per_operation_bytes.unwrap() - 1e7 / 1500.0).abs() < 1e-6);
    assert!(row.shared_devices.is_empty());
}
