//! The whole page: its contents, that no text leaves its place, and its size.

use fathom_record::{Manifest, Point, SeriesSet, Severity};

use super::*;
use fathom_stats::Histogram;

const SECOND_NS: u64 = 1_000_000_000;

/// Markup that a server, a log or a file name may contain.
const HOSTILE: &str = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}";

fn manifest() -> Manifest {
    let mut manifest = Manifest::new("ycsb", "0.1.0", ["fathom".to_owned(), "ycsb".to_owned()]);
    manifest.environment.insert("kernel".into(), "6.18".into());
    manifest
}

/// The content of a page without results.
pub(super) fn source<'r>(
    manifest: &'r Manifest,
    series: &'r SeriesSet,
    pictures: &'r Pictures,
) -> PageSource<'r> {
    PageSource {
        name: "run",
        manifest,
        results: &[],
        findings: &[],
        series,
        operations: &[],
        latencies: &[],
        pictures,
        histories: &[],
        notes: &[],
        redaction: None,
    }
}

/// Seconds of a watched server with a disk.
fn series(seconds: u64, device: &str) -> SeriesSet {
    let mut series = SeriesSet::default();
    for second in 0..seconds {
        let value = 100.0 + (second % 60) as f64;
        let point = Point { begin_ns: second * SECOND_NS, end_ns: (second + 1) * SECOND_NS, value };
        for name in [
            "reads.operations",
            "writes.operations",
            "reads.latency_us",
            "writes.latency_us",
            "cache.used_bytes",
            "cache.most_bytes",
            "wait.page_read_us",
            "engine.written_bytes",
            "tickets.read.out",
        ] {
            series.add(&format!("server.0.{name}"), "1", point);
        }
        for name in
            ["reads", "read_ms", "writes", "write_ms", "read_bytes", "written_bytes", "flushes", "flush_ms"]
        {
            series.add(&format!("device.{device}.{name}"), "1", point);
        }
        for name in [
            "host.cpu.user_pct",
            "host.pressure.io.some_us",
            "client.read.per_s",
            "client.read.response.mean_ns",
        ] {
            series.add(name, "1", point);
        }
        for tenth in 0..10 {
            let end_ns = second * SECOND_NS + (tenth + 1) * SECOND_NS / 10;
            let point = Point { begin_ns: end_ns, end_ns, value: f64::from(u8::from(tenth < 5)) };
            series.add(&format!("device.{device}.in_flight"), "1", point);
        }
    }
    series
}

fn made(findings: &[Finding], series: &SeriesSet, notes: &[String], name: &str) -> String {
    let mut histogram = Histogram::new();
    (1..20_000u64).for_each(|us| histogram.record(us * 1000));
    let latencies = [("read.service".to_owned(), histogram, fathom_record::LatencyMap::default())];
    let manifest = manifest();
    let pictures = Pictures::default();
    let source = source(&manifest, series, &pictures);
    page(&PageSource { name, findings, latencies: &latencies, notes, ..source }).unwrap()
}

#[test]
fn charts_have_their_data_and_what_they_rest_on() {
    let text = made(&[], &series(120, "sda"), &[], "run");
    for id in [
        "server-latency-0",
        "device-time-sda",
        "device-queue-sda",
        "processors",
        "client-rate",
        "percentiles-read",
    ] {
        assert_eq!(text.matches(&format!("<figure class=\"chart\" id=\"{id}\"")).count(), 1, "{id}");
    }
    let figures = text.matches("<figure class=\"chart\"").count();
    assert_eq!(text.matches("<pre class=\"csv\"").count(), figures);
    assert_eq!(text.matches("class=\"small\">n = ").count(), figures);
    // Five of ten readings a second are 1.
    assert!(text.contains("second,in flight (requests)\n1,0.5\n2,0.5\n"), "the device's queue");
    assert!(text.contains("does not tell what holds this system back"), "nobody judged it");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let own = [SCRIPT, STYLE].iter().map(|text| text.matches(outside).count()).sum::<usize>();
        assert_eq!(text.matches(outside).count(), own, "{outside}");
    }
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let mut finding = Finding::new(HOSTILE, Severity::Warning, HOSTILE)
        .evidence(HOSTILE)
        .advice(HOSTILE)
        .command(HOSTILE)
        .source(HOSTILE);
    (finding.next_look, finding.undo) = (Some(HOSTILE.into()), Some(HOSTILE.into()));
    finding.series = vec![HOSTILE.into()];
    let notes = [HOSTILE.to_owned()];
    let device = HOSTILE.replace('.', "");
    let text = made(&[finding], &series(20, &device), &notes, HOSTILE);
    assert_eq!(text.matches("<script>").count(), 2, "our own two");
    assert_eq!(text.matches("</script>").count(), 2);
    assert_eq!(text.matches("<img").count(), 0);
    assert!(text.contains("{{ 7*7 }}") && !text.contains("49}}"), "a template within is text");
    // No attribute ends early: an id contains no quote.
    for id in text.split("<figure class=\"chart\" id=\"").skip(1) {
        let id = id.split('"').next().unwrap();
        assert!(!id.contains('<') && !id.contains('>'), "{id}");
    }
}

#[test]
fn what_a_finding_would_gain_is_a_sentence() {
    let gain = fathom_record::Gain {
        of: "mean latency".into(),
        share: 0.25,
        interval: (0.2, 0.3),
        basis: "Measured here.".into(),
    };
    let told = gain_sentence(&gain);
    let finding = Finding::new("x", Severity::Warning, "It is slow.").gain(gain);
    let text = made(&[finding], &SeriesSet::default(), &[], "run");
    assert!(text.contains(&format!("<p>{told}</p>")), "{told}");
    assert!(!text.contains("interval&quot;"), "no figures for machines");
}

/// The first screen has the answer, its picture and the costs for readers who stop there; settings, figures and the method follow.
#[test]
fn the_answer_comes_first_and_the_method_last() {
    let setting = |id: &str, claim: &str| {
        Finding::new(id, Severity::Warning, claim)
            .evidence("/proc/sys/kernel/pid_max = 32768")
            .command(format!("sysctl -w {id}=1"))
            .undo(format!("sysctl -w {id}=0"))
    };
    let cost = fathom_record::verdict::Cost {
        clock: fathom_record::verdict::LatencyClock::Response,
        share: 0.8,
        interval: (0.7, 0.9),
        mean_us: 8000.0,
        p99_us: None,
        unserved_per_s: None,
        basis: "Measured here.".into(),
    };
    let findings = [
        setting("kernel.pid_max", "Few process numbers."),
        setting("vm.swappiness", "The kernel swaps."),
        Finding::new("note", Severity::Note, "Worth knowing."),
        Finding::new("due", Severity::Warning, "The cache is small."),
        Finding::new("costly", Severity::Warning, "Writes wait for the journal.").cost(cost),
        Finding::new("fine", Severity::Ok, "Swap is not used."),
    ];
    let text = made(&findings, &series(120, "sda"), &[], "run");
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word}"));
    let order = [
        "class=\"answer",
        "id=\"client-response-mean\"",
        "<span class=\"word\">Critical</span> Writes wait",
        "<span class=\"word\">Worth doing</span> The cache",
        "<span class=\"word\">Note</span> Worth knowing.",
        "<table class=\"settings\">",
        "id=\"charts\"",
        "id=\"method\"",
    ];
    assert!(order.map(at).is_sorted(), "{:?}", order.map(at));
    assert_eq!(text.matches("<article class=\"finding large").count(), 1, "only what costs is large");
    assert_eq!(text.matches("<table class=\"settings\">").count(), 1);
    assert!(
        text.contains("<pre class=\"command\">sysctl -w kernel.pid_max=0\nsysctl -w vm.swappiness=0</pre>")
    );
    assert!(text.contains("Few process numbers. <small>kernel.pid_max</small>"));
    // Evidence and method are folded.
    assert!(
        at("<details><summary>Evidence") > at("Writes wait")
            && at("<details><summary>Method") > at("id=\"method\"")
    );
    assert_eq!(text.matches("id=\"client-response-mean\"").count(), 1, "each chart is there once");
}

#[test]
fn the_charts_end_with_the_load() {
    let mut series = series(20, "sda");
    let at = |begin_ns: u64, end_ns: u64, value: f64| Point { begin_ns, end_ns, value };
    // A last moment of the load, and a server that is read after it.
    series.add("client.read.per_s", "1/s", at(20 * SECOND_NS, 20 * SECOND_NS + SECOND_NS / 10, 0.0));
    series.add("server.0.reads.operations", "1", at(20 * SECOND_NS, 21 * SECOND_NS, 0.0));
    let text = made(&[], &series, &[], "run");
    let csv = |id: &str| {
        let figure = text.split(&format!("id=\"{id}\"")).nth(1).unwrap();
        figure.split("tabindex=\"0\">").nth(1).unwrap().split("</pre>").next().unwrap().to_owned()
    };
    for id in ["client-rate", "server-operations-0"] {
        assert_eq!(csv(id).lines().count(), 21, "{id}: {}", csv(id));
        assert!(csv(id).ends_with("119") || csv(id).contains("20,119"), "{id}: {}", csv(id));
    }
}

#[test]
fn names_are_left_out_where_that_is_asked_for() {
    let mut manifest = manifest();
    manifest.command_line =
        ["fathom", "ycsb", "-p", "mongodb.url=mongodb://db1.example/shop"].map(str::to_owned).to_vec();
    manifest.environment.insert("server.0".into(), "db1.example:27017".into());
    manifest.environment.insert("server.0.dbpath".into(), "/data/db1".into());
    let finding = Finding::new("x", Severity::Warning, "db1.example waits for /data/db1.");
    let redaction = Redaction::new([(&manifest, &[][..])]);
    let (series, pictures) = (series(20, "sda"), Pictures::default());
    let source = PageSource { findings: &[finding], ..source(&manifest, &series, &pictures) };
    let whole = page(&source).unwrap();
    let clean = page(&PageSource { redaction: Some(&redaction), ..source }).unwrap();
    for name in ["db1.example", "&#x2f;data&#x2f;db1", "shop"] {
        assert!(whole.contains(name) && !clean.contains(name), "{name}");
    }
    assert!(clean.contains("[host 1] waits for [path].") && clean.contains("id=\"device-time-sda\""));
    let drawings = |text: &str| text.matches("<svg viewBox").count();
    assert_eq!(drawings(&clean), drawings(&whole), "charts stay");
}

#[test]
fn what_two_loads_found_stands_once_with_the_evidence_of_both() {
    let found = |share: u32| {
        Finding::new("processor-is-short", Severity::Warning, "The processors were busy.")
            .evidence(format!("{share} % of their time."))
    };
    let text = made(&[found(90), found(95)], &SeriesSet::default(), &[], "run");
    // It occurs once as a finding; the verdict has it too.
    assert_eq!(text.matches("<article").count(), 1);
    assert!(text.contains("90 % of their time.") && text.contains("95 % of their time."));
}

#[test]
fn an_error_before_the_first_result_is_the_answer() {
    let mut manifest = manifest();
    manifest.error = Some("cannot write /data: no space left".into());
    manifest.error_id = Some("no-space".into());
    let (series, pictures) = (SeriesSet::default(), Pictures::default());
    let text = page(&source(&manifest, &series, &pictures)).unwrap();
    let answer = text.split("id=\"verdict\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(answer.contains("before anything was measured") && answer.contains("no space left"), "{answer}");
    assert!(text.contains("no space left <small>no-space</small>"), "{text}");
}

#[test]
fn an_hour_is_a_small_page() {
    let text = made(&[], &series(3600, "sda"), &[], "run");
    assert!(text.len() < 3 << 20, "{} bytes", text.len());
    let empty = made(&[], &SeriesSet::default(), &[], "run");
    assert!(empty.contains("percentiles-read") && !empty.contains("Over time"));
}
