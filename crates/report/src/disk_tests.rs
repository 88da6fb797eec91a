//! Expected texts of the probe's output at 80 columns.

use fathom_record::disk::{
    DeviceView, DiskFitness, Entry, FitnessOutcome, Knee, Latency, Layout, Objective, Operations,
    ProbeSubject, RewriteTimes, Step, Stream,
};

use crate::entry_lines;

fn operations(kind: &str, per_s: f64, mib_per_s: f64, p50_ns: u64, response: bool) -> Operations {
    let latency = Latency {
        mean_ns: p50_ns as f64,
        min_ns: p50_ns / 2,
        p50_ns,
        p99_ns: Some(p50_ns * 3),
        p999_ns: None,
        max_ns: p50_ns * 40,
    };
    Operations {
        kind: kind.into(),
        count: 1_000,
        per_s,
        mib_per_s,
        response: response.then(|| latency.clone()),
        latency,
    }
}

fn stream(pattern: &str, durable: &str, operations: Vec<Operations>) -> Stream {
    Stream {
        pattern: pattern.into(),
        block_bytes: 4096,
        engine: "psync".into(),
        depth: 1,
        durable: durable.into(),
        rate_per_s: operations.iter().any(|o| o.response.is_some()).then_some(500.0),
        operations,
        little_gap: Some(0.012),
        verified: 0,
    }
}

fn step(streams: Vec<Stream>) -> Step {
    Step {
        phase: "journal".into(),
        begin_ns: 0,
        end_ns: 4_000_000_000,
        streams,
        run_queue_wait_pct: Some(12.3),
        cpu_us_per_operation: Some(7.0),
        generator_busy_pct: Some(3.0),
        machine_busy_pct: Some(9.0),
        ready_after_ns: Some(200_000),
        devices: vec![DeviceView {
            name: "sda".into(),
            reads_per_s: 0.0,
            writes_per_s: 610.0,
            flushes_per_s: Some(610.0),
            r_await_ms: None,
            w_await_ms: Some(0.123),
            f_await_ms: Some(1.53),
            aqu_sz: 0.97,
            util_pct: 96.0,
        }],
        per_interval: vec![610.0],
    }
}

fn text(entry: &Entry, header: bool) -> String {
    let lines = entry_lines(entry, header, 80);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    lines.join("\n")
}

#[test]
fn a_durable_write_shows_its_two_parts_and_their_sum() {
    let parts = vec![
        operations("write", 610.0, 2.38, 75_100, false),
        operations("sync", 610.0, 0.0, 1_520_000, false),
        operations("durable", 610.0, 2.38, 1_600_000, false),
    ];
    let expected = "
journal: append 4 KiB, psync, fdatasync each
kind depth  ops/s MiB/s    p50    p99  p99.9    max N-XR  cpu r/w/f await aqu-sz
write    1    610  2.38 75.1µs  225µs      - 3.00ms 1.2%  12%   -/.12/1.5   0.97
sync     1    610     - 1.52ms 4.56ms      - 60.8ms    -    -           -      -
both     1    610  2.38 1.60ms 4.80ms      - 64.0ms    -    -           -      -";
    assert_eq!(text(&Entry::Step(step(vec![stream("append", "fdatasync", parts)])), true), expected);
}

#[test]
fn an_open_loop_shows_both_clocks() {
    let parts = vec![operations("read", 499.7, 1.95, 210_000, true)];
    let expected = "
journal: randread 4 KiB, psync, 500 per second offered
kind depth  ops/s MiB/s    p50    p99  p99.9    max N-XR  cpu r/w/f await aqu-sz
read     1    500  1.95  210µs  630µs      - 8.40ms 1.2%  12%   -/.12/1.5   0.97
 resp    1               210µs  630µs      - 8.40ms  from the intended start";
    assert_eq!(text(&Entry::Step(step(vec![stream("randread", "none", parts)])), true), expected);
}

#[test]
fn no_figure_however_large_breaks_the_table() {
    for per_s in [0.01, 9.999, 99.99, 12_345.6, 99_949.0, 999_949.0, 9_876_543.0] {
        for ns in [1, 999, 99_999, 999_999_999, 9_999_999_999] {
            let parts = vec![operations("read", per_s, per_s * 16.0, ns, false)];
            let mut step = step(vec![stream("randread", "none", parts)]);
            step.devices[0].r_await_ms = Some(ns as f64 / 1e6);
            step.devices[0].aqu_sz = per_s;
            // Longer rows than the table are allowed only for figures that no disk shows.
            let lines = entry_lines(&Entry::Step(step), false, 80);
            assert!(lines[0].chars().count() <= 80, "{}", lines[0]);
        }
    }
}

#[test]
fn everything_else_is_sentences() {
    let subject = ProbeSubject {
        directory: "/data".into(),
        file_system: "xfs".into(),
        device: Some("sda1".into()),
        size_bytes: 2 << 30,
        direct: true,
        alignment_bytes: 512,
    };
    assert_eq!(
        text(&Entry::Subject(subject), false),
        "Probing /data (xfs on sda1), 2 GiB, direct I/O, aligned to 512 bytes."
    );
    let layout = Layout {
        bytes: 1 << 30,
        seconds: 30.2,
        mib_per_s: 33.9,
        rewritten: Some(RewriteTimes { bytes: 64 << 20, first_mib_per_s: 33.0, second_mib_per_s: 210.0 }),
        reused: false,
        cut_short: true,
    };
    let expected = "\
Laid out 1 GiB of incompressible data in 30.2 s, 33.9 MiB/s. The time for it
  ended, so the file is smaller than requested. Its last 64 MiB were written
  twice: at 33.0 MiB/s, then at 210 MiB/s.";
    assert_eq!(text(&Entry::Layout(layout), false), expected);
    let knee = Knee {
        phase: "random reads".into(),
        latency_at_one_ns: 700_000.0,
        throughput_max_per_s: 3_000.0,
        concurrency: 2.1,
        depth_for_90_pct: Some(2),
        model: "cap".into(),
        rivals: vec![("cap".into(), -90.0, 0.004), ("usl".into(), -20.0, 0.2)],
        words: "The words.".into(),
        withheld: None,
    };
    let expected =
        "\nKnee of random reads: The words.\n  R1 700 µs, Xmax 3,000/s, N* 2.10; model: cap (residual 0.4 %)";
    assert_eq!(text(&Entry::Knee(knee.clone()), false), expected);
    let withheld = Knee { withheld: Some("the CPU was busy".into()), ..knee };
    let expected = "\nKnee of random reads: The words.\n  Verdict withheld: the CPU was busy.";
    assert_eq!(text(&Entry::Knee(withheld), false), expected);
    let objective = Objective {
        objective: "p99<5ms".into(),
        rate_per_s: Some(900.0),
        tried: vec![],
        words: "It holds.".into(),
    };
    assert_eq!(text(&Entry::Objective(objective), false), "\nIt holds.");
    let verdict = DiskFitness { outcome: FitnessOutcome::Sound, words: "Sound.".into() };
    assert_eq!(text(&Entry::Fitness(verdict), false), "\nVerdict: Sound.");
}
