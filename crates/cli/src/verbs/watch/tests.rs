//! The screen and the lines for a synthetic run: a primary whose checkpoints come every minute, a secondary, and a disk at its cap.

use std::time::Duration;

use fathom_explain::Judgement;
use fathom_record::budget::{Budget, Layer};
use fathom_record::disk::Entry;
use fathom_record::{
    Confidence, Finding, Gain, OperationGroup, Reading, ServerEvent, ServerEventKind, ServerWork, Severity,
    ThreadUse,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::{DisplayMode, Paint, draw};
use super::text_view;
use super::view::{OperationView, Screen};
use fathom_session::RecentWindow;

const SECOND_NS: u64 = 1_000_000_000;
const SECOND: Duration = Duration::from_secs(1);
const PLAIN: Paint = Paint { colour: false, unicode: false };

/// Readings of one second, which ends at `second`.
struct Second<'r> {
    recent: &'r mut RecentWindow,
    second: u64,
}

impl Second<'_> {
    fn put(&mut self, name: &str, value: f64) {
        let window = ((self.second - 1) * SECOND_NS, self.second * SECOND_NS);
        self.recent.readings(&[Reading::new(name, "1", window, value)]);
    }

    fn server(&mut self, member: u64, slow: bool, ended: bool) {
        let base = if slow { 9_000.0 } else { 700.0 };
        for (what, value) in [
            ("up", 1.0),
            ("reads.operations", 2000.0),
            ("reads.latency_us", 2000.0 * base),
            ("writes.operations", 500.0),
            ("writes.latency_us", 500.0 * 4.0 * base),
            ("tickets.read.out", if slow { 128.0 } else { 12.0 }),
            ("tickets.read.total", 128.0),
            ("tickets.write.out", 3.0),
            ("tickets.write.total", 128.0),
            ("queue.readers", if slow { 40.0 } else { 0.0 }),
            ("checkpoint.running", f64::from(u8::from(slow))),
            ("checkpoint.count", f64::from(u8::from(ended))),
            ("checkpoint.total_ms", if ended { 6100.0 } else { 0.0 }),
            ("engine.checkpoint_bytes", if slow { 68e6 } else { 0.0 }),
            ("parameter.syncdelay_s", 60.0),
            ("cache.dirty_bytes", 110e6),
            ("cache.most_bytes", 1e9),
            ("replication.state", if member == 0 { 1.0 } else { 2.0 }),
            ("replication.behind", if member == 0 { 2.0 } else { 750.0 }),
            ("replication.uncommitted", if member == 0 { 750.0 } else { f64::NAN }),
            ("replication.oplog_s", 9000.0),
            ("replication.applied", 500.0),
            ("replication.lag_ms", if member == 0 { 0.0 } else { 1500.0 }),
        ] {
            self.put(&format!("server.{member}.{what}"), value);
        }
    }

    fn host(&mut self, slow: bool) {
        for (what, value) in [
            ("device.nvme0n1.reads", 900.0),
            ("device.nvme0n1.read_ms", if slow { 4500.0 } else { 180.0 }),
            ("device.nvme0n1.read_bytes", 29e6),
            ("device.nvme0n1.writes", 300.0),
            ("device.nvme0n1.write_ms", 90.0),
            ("device.nvme0n1.written_bytes", 41e6),
            ("device.nvme0n1.flushes", 20.0),
            ("device.nvme0n1.flush_ms", 44.0),
            ("device.nvme0n1.in_flight", if slow { 32.0 } else { 5.0 }),
            ("device.nvme0n1.queue.requests", 32.0),
            ("host.pressure.io.some_us", 380_000.0),
            ("host.cpu.idle_pct", 62.0),
            ("monitor.devices.cpu_us", 900.0),
            ("monitor.server.0.cpu_us", 2100.0),
        ] {
            self.put(what, value);
        }
    }
}

/// Four minutes, with a checkpoint of six seconds in each.
fn recent(members: u64) -> RecentWindow {
    let mut recent = RecentWindow::new(None, 42);
    for second in 1..=230 {
        let place = second % 60;
        let (slow, ended) = ((40..46).contains(&place), place == 46);
        let mut second = Second { recent: &mut recent, second };
        (0..members).for_each(|member| second.server(member, slow, ended));
        second.host(slow);
    }
    let facts = [
        ("server.0", "db1.example.net:27017"),
        ("server.0.engine", "wiredTiger"),
        ("server.0.version", "8.0.4"),
        ("server.1", "db2.example.net:27017"),
        ("server.1.engine", "rocksdb"),
        ("server.0.set", "rs0"),
        ("server.1.set", "rs0"),
        ("server.0.device", "nvme0n1"),
    ];
    recent.evidence.environment.extend(facts.map(|(key, value)| (key.to_owned(), value.to_owned())));
    if members > 1 {
        recent.evidence.results.push(Entry::ServerEvent(ServerEvent {
            server: 0,
            at_ns: 12 * SECOND_NS,
            kind: ServerEventKind::Member,
            line: "server 0 (db1.example.net:27017) is primary now, was secondary".to_owned(),
        }));
    }
    let window = (229 * SECOND_NS, 229 * SECOND_NS);
    recent.readings(&[Reading::new("watch.mark", "1", window, 1.0)]);
    recent.note(
        "Block requests are not traced, so a device's time is not split into waiting and being served.",
    );
    recent
}

fn judgement() -> Judgement {
    let layer = |name: &str, share: f64| Layer {
        name: name.into(),
        mean_us: 1500.0 * share,
        interval_us: None,
        share,
        series: Vec::new(),
        within: Vec::new(),
    };
    let budget = |operations: &str, of_client: bool| Budget {
        member: "0".into(),
        operations: operations.into(),
        count: 1e5,
        window_ns: (0, 230 * SECOND_NS),
        client_mean_us: of_client.then_some(1500.0),
        server_mean_us: 1200.0,
        layers: vec![
            layer("network", 0.1),
            layer("ticket", 0.2),
            layer("page_read", 0.55),
            layer("evict", 0.0),
        ],
        unexplained_us: 225.0,
        closure: 0.85,
        closes: false,
        missing: Vec::new(),
    };
    let gain = Gain {
        of: "mean latency of reads".into(),
        share: 0.41,
        interval: (0.3, 0.5),
        basis: "The backlog over the depth.".into(),
    };
    let mut capped = Finding::new(
        "queue-at-cap",
        Severity::Warning,
        "The queue of nvme0n1 is full for 12 % of the time: it lets 32 requests through at once.",
    );
    capped.gain = Some(gain);
    let spikes = Finding::new(
        "checkpoint-spikes",
        Severity::Warning,
        "Reads take 12.9 times as long during each checkpoint.",
    )
    .confidence(Confidence::Likely);
    let untold = Finding::new("knee", Severity::Note, "The knee cannot be determined.")
        .confidence(Confidence::CannotTell);
    Judgement {
        budgets: vec![budget("reads", true), budget("writes", false)],
        findings: vec![capped, spikes, untold],
        ..Judgement::default()
    }
}

fn shown(screen: &Screen, size: (u16, u16), mode: DisplayMode, paint: Paint) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| draw(frame, screen, mode, paint)).unwrap();
    terminal.backend().to_string().replace('"', "|")
}

fn replica_set() -> Screen {
    Screen::new("mongodb://db1,db2/?replicaSet=rs0, /data", &recent(2), SECOND, &judgement())
}

/// Two shards of one member behind a router.
fn cluster() -> Screen {
    let mut recent = recent(2);
    let facts = [
        ("server.0.shard", "sh1"),
        ("server.1.shard", "sh2"),
        ("server.1.set", "rs1"),
        ("server.1", "db2.example.net:27017"),
        ("server.2", "router.example.net:27017"),
        ("server.2.role", "router"),
    ];
    recent.evidence.environment.extend(facts.map(|(key, value)| (key.to_owned(), value.to_owned())));
    for second in 1..=230 {
        let mut second = Second { recent: &mut recent, second };
        for (name, value) in [
            ("server.1.replication.state", 1.0),
            ("server.0.sharding.chunks", 8.0),
            ("server.1.sharding.chunks", 8.0),
            ("server.2.up", 1.0),
            ("server.2.reads.operations", 4000.0),
            ("server.2.reads.latency_us", 4e6),
        ] {
            second.put(name, value);
        }
    }
    Screen::new("mongodb://router.example.net", &recent, SECOND, &judgement())
}

fn single() -> Screen {
    Screen::new("mongodb://db1, /data", &recent(1), SECOND, &judgement())
}

#[test]
fn screens_of_the_usual_size() {
    insta::assert_snapshot!("watch_80x24", shown(&single(), (80, 24), DisplayMode::default(), PLAIN));
    let paint = Paint { colour: true, unicode: true };
    insta::assert_snapshot!("watch_80x24_colour", shown(&single(), (80, 24), DisplayMode::default(), paint));
}

#[test]
fn screens_of_other_sizes() {
    insta::assert_snapshot!("watch_120x40", shown(&replica_set(), (120, 40), DisplayMode::default(), PLAIN));
    insta::assert_snapshot!(
        "watch_80x24_set",
        shown(&replica_set(), (80, 24), DisplayMode::default(), PLAIN)
    );
    insta::assert_snapshot!(
        "watch_80x24_cluster",
        shown(&cluster(), (80, 24), DisplayMode::default(), PLAIN)
    );
    let paused = DisplayMode { is_paused: true, shows_help: false };
    insta::assert_snapshot!("watch_40x12", shown(&single(), (40, 12), paused, PLAIN));
}

#[test]
fn the_help_fits_on_the_smallest_usual_screen() {
    let mode = DisplayMode { is_paused: false, shows_help: true };
    insta::assert_snapshot!("watch_help", shown(&single(), (80, 24), mode, PLAIN));
}

#[test]
fn no_size_and_no_lack_of_readings_panics() {
    let empty = Screen::new("x", &RecentWindow::new(None, 1), SECOND, &Judgement::default());
    for screen in [empty, single(), replica_set()] {
        for size in [(1, 1), (5, 3), (40, 5), (75, 10), (76, 10), (300, 100)] {
            for paint in
                [PLAIN, Paint { colour: true, unicode: true }, Paint { colour: true, unicode: false }]
            {
                let text = shown(&screen, size, DisplayMode::default(), paint);
                assert!(paint.unicode || text.is_ascii(), "{text}");
            }
        }
    }
}

#[test]
fn plain_lines_keep_their_columns() {
    let mut all = Vec::new();
    for (screen, several) in [(single(), false), (replica_set(), true)] {
        assert_eq!(text_view::is_several(&screen), several);
        let mut text = vec![text_view::header(several)];
        text.extend(text_view::lines(&screen, several));
        let columns: Vec<usize> = text.iter().map(|line| line.split_whitespace().count()).collect();
        assert!(columns.iter().all(|count| *count == columns[0]), "{text:#?}");
        all.extend(text);
    }
    insta::assert_snapshot!("watch_plain", all.join("\n"));
}

#[test]
fn json_has_every_number_of_the_screen() {
    let value = serde_json::to_value(single()).unwrap();
    assert_eq!(value["checkpoints"][0]["cycles"].as_array().unwrap().len(), 4);
    assert_eq!(value["checkpoints"][0]["next_s"], 56.0);
    assert_eq!(value["ladder"][2]["name"], "nvme0n1");
    assert_eq!(value["suspects"][2]["confidence"], "cannot_tell");
    assert_eq!(value["devices"][0]["per_s"], 1220.0);
}

/// A second's lines for a server that is not read for so long: the columns `reads/s`, `read` and `tickets`, and the state.
fn cells_after(recent: &mut RecentWindow, silent_ms: u64) -> Vec<String> {
    recent.pass(230 * SECOND_NS + silent_ms * 1_000_000);
    let screen = Screen::new("mongodb://db1", recent, SECOND, &judgement());
    let names: Vec<String> = text_view::header(false).split_whitespace().map(str::to_owned).collect();
    let line = text_view::lines(&screen, false).remove(0);
    let cells: Vec<&str> = line.split_whitespace().collect();
    let cell = |name: &str| cells[names.iter().position(|one| one == name).unwrap()].to_owned();
    ["reads/s", "read", "tickets", "dirty", "state"].map(cell).to_vec()
}

/// The last rate of a server that was killed or stopped was repeated for ten seconds.
#[test]
fn a_server_that_is_not_read_has_no_figures_and_is_stalled_after_two_intervals() {
    let mut recent = recent(1);
    assert_eq!(cells_after(&mut recent, 1400), ["2000", "4.39ms", "12+3", "11%", "primary"]);
    assert_eq!(cells_after(&mut recent, 1600)[..4], ["-"; 4]);
    assert_eq!(cells_after(&mut recent, 2000), ["-", "-", "-", "-", "STALLED"]);
    let screen = Screen::new("mongodb://db1", &recent, SECOND, &Judgement::default());
    let value = serde_json::to_value(&screen).unwrap();
    let member = &value["members"][0];
    assert_eq!((&member["condition"], &member["is_up"]), (&"stalled".into(), &serde_json::Value::Null));
    assert_eq!((member["operations_per_s"].as_f64(), value["elapsed_s"].as_f64()), (None, Some(232.0)));
    for list in ["latency", "ladder", "loops", "devices"] {
        assert_eq!(value[list].as_array().unwrap().len(), 0, "{list}: {value}");
    }
    let text = shown(&screen, (80, 24), DisplayMode::default(), PLAIN);
    assert!(text.contains("STALLED") && !text.contains("2000"), "{text}");
    // It answers again, and stops: its own connections end.
    Second { recent: &mut recent, second: 233 }.server(0, false, false);
    assert_eq!(cells_after(&mut recent, 3000), ["2000", "700us", "12+3", "11%", "primary"]);
    Second { recent: &mut recent, second: 234 }.put("server.0.up", 0.0);
    assert_eq!(cells_after(&mut recent, 4000), ["-", "-", "-", "-", "DOWN"]);
}

/// With several servers the others go on, and the set knows the lag of the one that is silent.
#[test]
fn one_of_several_servers_stalls() {
    let mut recent = recent(2);
    for second in 231..=233 {
        let mut second = Second { recent: &mut recent, second };
        second.server(1, false, false);
        second.put("server.0.replication.state", 1.0);
    }
    let screen = Screen::new("mongodb://db1,db2", &recent, SECOND, &Judgement::default());
    let lines = text_view::lines(&screen, true);
    assert!(lines[0].contains("STALLED") && !lines[0].contains("2000"), "{lines:#?}");
    assert!(lines[1].contains("secondary"), "{lines:#?}");
    let text = shown(&screen, (120, 40), DisplayMode::default(), PLAIN);
    let line = text.lines().find(|line| line.contains("db1.example.net")).unwrap();
    assert!(line.contains("STALLED") && !line.contains("2500"), "{text}");
}

/// A server that three scans keep busy, which read the disk, while finds wait for the lock of an index build.
fn busy() -> Screen {
    let mut recent = recent(1);
    let group = |kind: &str, running_us: u64, connections: &[u64]| OperationGroup {
        kind: kind.into(),
        namespace: "shop.orders".into(),
        count: connections.len() as u64,
        running_us,
        longest_us: running_us,
        driver: Some("PyMongo 4.10.1".into()),
        connections: connections.to_vec(),
        ..OperationGroup::default()
    };
    for second in 221..=230_u64 {
        let scans = OperationGroup { plan: Some("COLLSCAN".into()), ..group("find", 143_000, &[7, 8, 9]) };
        let waiting = OperationGroup { wait: Some("lock Database".into()), ..group("update", 400_000, &[4]) };
        let build = OperationGroup {
            phase: Some("Index Build".into()),
            progress: Some((26, 100)),
            longest_operation: Some("4711".into()),
            ..group("createIndexes", 1_200_000, &[5])
        };
        let thread = ThreadUse {
            name: "conn7".into(),
            processor_us: 500_000,
            read_bytes: Some(20_000_000),
            ..ThreadUse::default()
        };
        recent.evidence.results.push(Entry::ServerWork(Box::new(ServerWork {
            server: 0,
            begin_ns: (second - 1) * SECOND_NS,
            end_ns: second * SECOND_NS,
            has_read_operations: true,
            operations: vec![build, waiting, scans],
            threads: vec![thread],
            ..ServerWork::default()
        })));
    }
    Screen::new("mongodb://db1, /data", &recent, SECOND, &judgement())
}

#[test]
fn what_a_busy_server_runs_is_named_in_every_form() {
    let screen = busy();
    let value = serde_json::to_value(&screen).unwrap();
    let first = &value["operations"][0];
    assert_eq!((&first["kind"], &first["plan"]), (&"find".into(), &"COLLSCAN".into()));
    assert_eq!((first["running"].as_f64(), first["time_share"].as_f64()), (Some(3.0), Some(0.6)));
    assert_eq!((first["processors"].as_f64(), first["disk_bytes_per_s"].as_f64()), (Some(0.5), Some(2e7)));
    let lines = text_view::operations(&screen);
    let expected = "# 00:03:50 server 0: 60% of the time, 3.0 at once, up to 143ms, 20.0 MB/s of disk: \
                    find shop.orders COLLSCAN, PyMongo 4.10.1";
    assert_eq!(lines[0], expected);
    assert!(
        lines.iter().any(|line| line.contains("createIndexes shop.orders Index Build 26%")),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|line| line.contains("waits for lock Database")), "{lines:#?}");
    let text = shown(&screen, (120, 40), DisplayMode::default(), PLAIN);
    assert!(text.contains("find shop.orders COLLSCAN (PyMongo 4.10.1)"), "{text}");
    // A small terminal has them too: other sections yield.
    let small = shown(&screen, (80, 24), DisplayMode::default(), PLAIN);
    assert!(small.contains("find shop.orders COLLSCAN (PyMongo 4.10.1)"), "{small}");
    let idle = single();
    assert!(idle.operations.is_empty() && text_view::operations(&idle).is_empty());
}

/// The keys of a plan are no label: there may be many.
#[test]
fn the_numbers_of_an_operation_have_few_labels() {
    let screen = busy();
    let plans = ["COLLSCAN", "IXSCAN { a: 1 }, IXSCAN { B: 1, c: -1 }", "COUNT_SCAN { _id: 1 }", ""];
    let numbers = plans.map(|plan| {
        let one = OperationView { plan: Some(plan.to_owned()), ..screen.operations[0].clone() };
        one.numbers()
    });
    assert_eq!(numbers.each_ref().map(|one| one.plan.as_str()), ["COLLSCAN", "IXSCAN", "COUNT_SCAN", ""]);
    let [one, ..] = numbers;
    assert_eq!(
        (one.member.as_str(), one.kind.as_str(), one.namespace.as_str()),
        ("0", "find", "shop.orders")
    );
    assert_eq!((one.running, one.longest_s, one.disk_bytes_per_s), (3.0, 0.143, Some(2e7)));
}
