//! If processors are short, findings that look like the disk's are withheld; a sound run gives no finding.

use fathom_explain::{Evidence, judge};
use fathom_record::{Confidence, Point};

use crate::path::{Setting, simulate};

fn misses() -> Evidence {
    let setting = Setting {
        name: "misses",
        seconds: 30,
        miss_part: 0.5,
        device_us: 4000.0,
        device_places: 8,
        ..Setting::default()
    };
    simulate(&setting).0
}

fn put(evidence: &mut Evidence, name: &str, value: f64) {
    for second in 0..30u64 {
        let (begin_ns, end_ns) = (second * 1_000_000_000, (second + 1) * 1_000_000_000);
        evidence.series.add(name, "1", Point { begin_ns, end_ns, value });
    }
}

/// The alarms, and whether the disk's finding is decided.
fn judged(evidence: &Evidence) -> (Vec<String>, bool) {
    let judgement = judge(evidence);
    let alarms = judgement.findings.iter().filter(|one| one.is_alarm()).map(|one| one.id.clone()).collect();
    let disk = judgement.findings.iter().find(|one| one.id == "cache-misses-on-path").unwrap();
    assert_eq!(judgement.withheld.is_empty(), disk.is_alarm(), "{judgement:#?}");
    (alarms, disk.confidence != Confidence::CannotTell)
}

#[test]
fn an_idle_host_is_judged_and_its_threads_short_waits_are_not_held_against_it() {
    let mut evidence = misses();
    put(&mut evidence, "host.cpu.idle_pct", 60.0);
    put(&mut evidence, "host.cpu.iowait_pct", 10.0);
    put(&mut evidence, "host.cpu.count", 2.0);
    put(&mut evidence, "host.runnable", 2.0);
    put(&mut evidence, "monitor.run_wait_pct", 0.3);
    put(&mut evidence, "server.0.process.run_wait_us", 800_000.0);
    assert_eq!(judged(&evidence), (vec!["cache-misses-on-path".to_owned()], true));
}

#[test]
fn a_busy_host_withholds_the_disk_and_says_who_waits() {
    let mut evidence = misses();
    put(&mut evidence, "host.cpu.idle_pct", 1.0);
    put(&mut evidence, "server.0.process.run_wait_us", 2_000_000.0);
    assert_eq!(judged(&evidence), (vec!["processor-is-short".to_owned()], false));
    let judgement = judge(&evidence);
    let finding = judgement.findings.iter().find(|one| one.id == "processor-is-short").unwrap();
    assert!(finding.evidence.iter().any(|said| said.contains("Server 0's threads waited")), "{finding:#?}");
}

#[test]
fn a_quota_on_an_idle_host_and_steal_are_shortages_too() {
    for (name, value, words) in [
        ("server.0.process.throttled_us", 300_000.0, "quota held server 0 back for 30 %"),
        ("host.cpu.steal_pct", 12.0, "12.0 % of the processors' time to other machines"),
    ] {
        let mut evidence = misses();
        put(&mut evidence, "host.cpu.idle_pct", 80.0);
        put(&mut evidence, name, value);
        let judgement = judge(&evidence);
        let finding = judgement.findings.iter().find(|one| one.id == "processor-is-short").expect(name);
        assert!(finding.evidence.iter().any(|said| said.contains(words)), "{finding:#?}");
    }
}

#[test]
fn samplers_that_wait_and_a_busy_client_withhold_too() {
    let mut evidence = misses();
    put(&mut evidence, "monitor.run_wait_pct", 9.0);
    assert_eq!(judged(&evidence), (vec!["processor-is-short".to_owned()], false));
    // Threads that wake up together wait for each other, on a host with idle processors too.
    put(&mut evidence, "host.cpu.idle_pct", 60.0);
    assert!(judge(&evidence).withheld.is_empty());
    let mut evidence = misses();
    put(&mut evidence, "host.cpu.idle_pct", 60.0);
    put(&mut evidence, "monitor.run_wait_pct", 25.0);
    assert_eq!(judged(&evidence), (vec!["processor-is-short".to_owned()], false));
    let mut evidence = misses();
    // Added to the simulated 0.2, so that the mean is 0.8.
    put(&mut evidence, "client.cpu_share", 1.4);
    assert_eq!(judged(&evidence), (vec!["client-limited".to_owned()], false));
}

/// Two minutes at a rate, and three seconds of them in which a quota holds the server back and operations wait 40 times as long.
#[test]
fn a_quota_that_holds_a_server_back_at_times_costs_what_operations_wait_then() {
    let mut evidence = Evidence { window_ns: (0, 120_000_000_000), ..Evidence::default() };
    for second in 0..120u64 {
        let (begin_ns, end_ns) = (second * 1_000_000_000, (second + 1) * 1_000_000_000);
        let is_held_back = [20, 60, 100].contains(&second);
        let (mean_ns, throttled_us) = if is_held_back { (20e6, 2_500_000.0) } else { (0.5e6, 0.0) };
        for (name, value) in [
            ("client.operations.per_s", 500.0),
            ("client.read.per_s", 500.0),
            ("client.read.response.mean_ns", mean_ns),
            ("client.read.service.mean_ns", 0.5e6),
            ("server.0.process.throttled_us", throttled_us),
            ("server.0.process.cpu_quota", 0.1),
            ("server.0.reads.operations", 500.0),
            ("server.0.reads.latency_us", 50_000.0),
            ("host.cpu.idle_pct", 80.0),
        ] {
            evidence.series.add(name, "1", Point { begin_ns, end_ns, value });
        }
    }
    let judgement = judge(&evidence);
    let finding = judgement.findings.iter().find(|one| one.id == "processor-is-short").unwrap();
    // 58.5 ms of 60 + 58.5 ms.
    let share = finding.gain.as_ref().unwrap().share;
    assert!((share - 58.5 / 118.5).abs() < 0.01, "{finding:#?}");
}

#[test]
fn the_processes_that_took_the_processors_are_named() {
    let mut evidence = misses();
    put(&mut evidence, "host.cpu.idle_pct", 1.0);
    put(&mut evidence, "server.0.process.run_wait_us", 2_000_000.0);
    let fact = |evidence: &mut Evidence, name: &str, value: &str| {
        evidence.environment.insert(name.to_owned(), value.to_owned())
    };
    fact(&mut evidence, "host.top.cpu", "sh (4711) 62 %, fathom (12) 20 %");
    let finding = |evidence: &Evidence| {
        let findings = judge(evidence).findings;
        findings.into_iter().find(|one| one.id == "processor-is-short").unwrap()
    };
    let others = finding(&evidence);
    assert!(others.evidence.iter().any(|said| said.contains("sh (4711) 62 %")), "{others:#?}");
    assert!(others.claim.starts_with("The processors were too busy"), "{}", others.claim);
    fact(&mut evidence, "host.top.cpu.own_share", "0.8");
    let own = finding(&evidence);
    assert!(
        own.claim.starts_with("The load generator and the server together fill this machine"),
        "{}",
        own.claim
    );
    assert!(own.advice.unwrap().contains("from another host"));
}

/// An idle host whose quota of two processors' threads is used up, without a client.
#[test]
fn a_quota_holds_a_server_back_for_no_more_than_all_of_the_time() {
    let mut evidence = Evidence { window_ns: (0, 30_000_000_000), ..Evidence::default() };
    for (name, value) in [
        ("server.0.process.throttled_us", 1_940_000.0),
        ("server.0.process.cpu_quota", 0.06),
        ("server.0.process.cpu_us", 60_000.0),
        ("server.0.reads.operations", 200.0),
        ("server.0.writes.operations", 200.0),
        ("server.0.reads.latency_us", 100_000.0),
        ("server.0.writes.latency_us", 100_000.0),
        ("server.0.ping_us", 92_000.0),
        ("server.0.connections.current", 18.0),
        ("host.cpu.idle_pct", 96.0),
        ("host.cpu.count", 2.0),
    ] {
        put(&mut evidence, name, value);
    }
    let judgement = judge(&evidence);
    let finding = judgement.findings.iter().find(|one| one.id == "processor-is-short").unwrap();
    assert!(finding.claim.contains("A quota of processors holds the server back"), "{finding:#?}");
    assert!(finding.claim.contains("back 97 % of the time"), "{finding:#?}");
    assert!(finding.evidence.iter().any(|said| said.contains("used up (100 %) by 400 operations a second")));
    assert!(!finding.advice.as_ref().unwrap().contains("stop what else runs"), "{finding:#?}");
    // Half of the ping for 97 % of the time is 44.6 ms; 18 connections at 400 a second hold an operation for 45 ms.
    let cost = finding.cost.as_ref().unwrap();
    assert!((cost.mean_us - 44_500.0).abs() < 500.0, "{cost:?}");
    assert!(judgement.verdict.unwrap().sentence.starts_with("Held back by a quota of processors: "));
    assert_eq!(finding.command, None, "neither its file nor its process is known");
    for (file, setting, lift) in [
        ("/sys/fs/cgroup/cpu/db/cpu.cfs_quota_us", "6000", "-1"),
        ("/sys/fs/cgroup/db.service/cpu.max", "6000 100000", "max"),
    ] {
        for (name, value) in [("file", file), ("setting", setting)] {
            let name = format!("server.0.process.cpu_quota.{name}");
            evidence.environment.insert(name, value.to_owned());
        }
        let judgement = judge(&evidence);
        let finding = judgement.findings.iter().find(|one| one.id == "processor-is-short").unwrap();
        assert_eq!(finding.command, Some(format!("echo {lift} > {file}")));
        assert_eq!(finding.undo, Some(format!("echo \"{setting}\" > {file}")));
        let verdict = judgement.verdict.unwrap();
        assert!(verdict.next.as_ref().unwrap().contains(file), "{verdict:#?}");
    }
}

/// A host that one server fills, without a client: reads take long, and writes do not.
fn filled(read_us: f64, write_us: f64) -> Evidence {
    let mut evidence = Evidence { window_ns: (0, 30_000_000_000), ..Evidence::default() };
    for (name, value) in [
        ("server.0.process.cpu_us", 1_930_000.0),
        ("server.0.process.run_wait_us", 2_000_000.0),
        ("server.0.reads.operations", 200.0),
        ("server.0.writes.operations", 200.0),
        ("server.0.reads.latency_us", 200.0 * read_us),
        ("server.0.writes.latency_us", 200.0 * write_us),
        ("host.cpu.idle_pct", 0.0),
        ("host.cpu.count", 2.0),
        ("host.runnable", 6.5),
    ] {
        put(&mut evidence, name, value);
    }
    evidence
}

#[test]
fn a_server_that_fills_the_processors_is_not_told_to_stop_other_programs() {
    let judgement = judge(&filled(10_800.0, 122.0));
    let finding = judgement.findings.iter().find(|one| one.id == "server-fills-processors").unwrap();
    assert!(
        finding.claim.starts_with("Server 0 itself uses 1.93 of the host's 2 processors, for its reads"),
        "{finding:#?}"
    );
    assert_eq!(finding.cost, None, "the mean is of two kinds");
    let verdict = judgement.verdict.unwrap();
    assert_eq!((verdict.cause.as_deref(), verdict.exit_code()), (Some("server-fills-processors"), 4));
    assert!(verdict.reasons[0].contains("The writes lose 122 µs each at most"), "{verdict:#?}");
    // Counters say that these are scans, if no plan does.
    let mut evidence = filled(10_800.0, 122.0);
    put(&mut evidence, "server.0.scan.documents", 2_600_000.0);
    put(&mut evidence, "server.0.documents.returned", 400.0);
    let reasons = judge(&evidence).verdict.unwrap().reasons;
    assert!(
        reasons
            .iter()
            .any(|said| said.starts_with("Queries examine 2,600,000 documents a second and return 400, as")),
        "{reasons:#?}"
    );
    // Operations of one kind wait for each other, and the cost is that of the wait.
    let judgement = judge(&filled(5000.0, 4000.0));
    let verdict = judgement.verdict.unwrap();
    assert_eq!(
        (verdict.cause.as_deref(), verdict.exit_code()),
        (Some("server-fills-processors"), 1),
        "{verdict:#?}"
    );
}
