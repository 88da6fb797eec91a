//! The whole page: what it holds, that nothing gets out of its place, and how large it becomes.

use fathom_record::{Manifest, Point, SeriesSet};

use super::*;
use fathom_stats::Histogram;

const SECOND_NS: u64 = 1_000_000_000;

/// Markup as a server, a log or a file name may bring it.
const HOSTILE: &str = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}";

fn manifest() -> Manifest {
    let mut manifest = Manifest::new("ycsb", "0.1.0", ["fathom".to_owned(), "ycsb".to_owned()]);
    manifest.environment.insert("kernel".into(), "6.18".into());
    manifest
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
    page(&PageSource {
        name,
        manifest: &manifest,
        results: &[],
        findings,
        series,
        latencies: &latencies,
        pictures: &Pictures::default(),
        histories: &[],
        notes,
    })
    .unwrap()
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
    // Of ten readings a second five are 1.
    assert!(text.contains("second,in flight (requests)\n1,0.5\n2,0.5\n"), "the device's queue");
    assert!(text.contains("does not tell what holds this system back"), "nobody judged it");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let own = [UPLOT_SCRIPT, UPLOT_STYLE].iter().map(|text| text.matches(outside).count()).sum::<usize>();
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
    // No attribute ends early: what stands between quotes of an id holds no quote.
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

#[test]
fn an_hour_is_a_small_page() {
    let text = made(&[], &series(3600, "sda"), &[], "run");
    assert!(text.len() < 3 << 20, "{} bytes", text.len());
    let empty = made(&[], &SeriesSet::default(), &[], "run");
    assert!(empty.contains("percentiles-read") && !empty.contains("Over time"));
}
