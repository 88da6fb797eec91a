//! Prints the comparison: a table that grows row by row, with the targets at its end.

use fathom_units::{count, decimal};

use super::crowd::{Crowd, MEMORY_TARGET_BYTES, START_TARGET_S};
use super::duel::{CPU_TARGET, DuelRow, IOPS_TARGET, ProgramRatio};

/// The difference between a program's own figure and the kernel's above which a note is printed: the two do not cover
/// exactly the same seconds.
const MIN_COUNT_DIFFERENCE: f64 = 0.10;

/// The two lines above the rows of a place.
pub(super) fn header() -> String {
    format!(
        "{:28}{:>9}{:>10}{:>7}  {:11}{:6}  {:>8}{:>8}{:>7}  {:11}\n{:28}{:>9}{:>10}{:>7}  {:11}{:6}  {:>8}{:>8}{:>7}  {:11}",
        "",
        "IOPS",
        "",
        "",
        "",
        "",
        "CPU us",
        "per I/O",
        "",
        "",
        "shape",
        "fathom",
        "fio",
        "ratio",
        "min-max",
        "",
        "fathom",
        "fio",
        "ratio",
        "min-max",
    )
}

/// One row, and a line below it if the programs' own figures are in doubt.
pub(super) fn row(row: &DuelRow) -> String {
    let mut line = format!("{:28}{}", row.shape, side(&row.iops, &count, 9, 10));
    match &row.cpu_us_per_io {
        Some(cpu) => line.push_str(&format!("  {}", side(cpu, &decimal, 8, 8))),
        None => line.push_str("  the kernel keeps no account of I/O"),
    }
    if row.disturbed > 0 {
        line.push_str(&format!(
            "\n  other programs were at work in {} of {} rounds",
            row.disturbed, row.rounds
        ));
    }
    if let Some(counted) = &row.counted_per_s {
        for (name, own, counted) in
            [("fathom", row.iops.fathom, counted.fathom), ("fio", row.iops.fio, counted.fio)]
        {
            if (own / counted - 1.0).abs() > MIN_COUNT_DIFFERENCE {
                let counted = count(counted);
                line.push_str(&format!(
                    "\n  {name} says {}, the kernel counted {counted} in the middle",
                    count(own)
                ));
            }
        }
    }
    line.trim_end().to_owned()
}

fn side(comparison: &ProgramRatio, number: &dyn Fn(f64) -> String, first: usize, second: usize) -> String {
    let ProgramRatio { fathom, fio, ratio, ratio_min, ratio_max, ok } = *comparison;
    let span = format!("{ratio_min:.2}-{ratio_max:.2}");
    format!("{:>first$}{:>second$}{ratio:7.3}  {span:11}{:6}", number(fathom), number(fio), verdict(ok))
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "missed" }
}

/// The lines about a thousand threads.
pub(super) fn crowd(crowd: &Crowd) -> String {
    let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let (ours, theirs) = (&crowd.fathom, &crowd.fio);
    format!(
        "{} psync threads: peak memory {} (fio {}), target below {}: {}\n\
         {} psync threads: all have read after {:.2} s, at worst {:.2} s (fio {:.2}, {:.2}), target {START_TARGET_S} s: {}\n\
         {} psync threads: IOPS {} (fio {})",
        crowd.threads,
        mib(ours.peak_bytes),
        mib(theirs.peak_bytes),
        mib(MEMORY_TARGET_BYTES),
        verdict(crowd.memory_ok),
        crowd.threads,
        ours.all_running_s,
        ours.all_running_max_s,
        theirs.all_running_s,
        theirs.all_running_max_s,
        verdict(crowd.start_ok),
        crowd.threads,
        count(ours.iops),
        count(theirs.iops),
    )
}

/// The targets over all rows.
pub(super) fn targets(rows: &[DuelRow]) -> String {
    let iops = rows.iter().map(|row| (row, row.iops.ok)).collect::<Vec<_>>();
    let cpu: Vec<_> = rows.iter().filter_map(|row| Some((row, row.cpu_us_per_io?.ok))).collect();
    format!(
        "{}\n{}",
        target(&format!("IOPS >= {IOPS_TARGET} of fio's"), &iops),
        target(&format!("CPU per I/O <= {CPU_TARGET} of fio's"), &cpu)
    )
}

fn target(name: &str, rows: &[(&DuelRow, bool)]) -> String {
    let missed: Vec<String> =
        rows.iter().filter(|(_, ok)| !ok).map(|(row, _)| format!("{} {}", row.place, row.shape)).collect();
    let reached = rows.len() - missed.len();
    let missed = if missed.is_empty() { String::new() } else { format!("; missed: {}", missed.join(", ")) };
    format!("{name}: {} ({reached} of {} shapes{missed})", verdict(reached == rows.len()), rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ratio: f64, ok: bool) -> ProgramRatio {
        ProgramRatio {
            fathom: 12_000.0 * ratio,
            fio: 12_000.0,
            ratio,
            ratio_min: ratio,
            ratio_max: ratio,
            ok,
        }
    }

    #[test]
    fn rows_stand_under_their_heads_and_misses_are_named() {
        let fast = DuelRow {
            place: "disk",
            shape: "randread 4K psync 1".into(),
            rounds: 5,
            disturbed: 2,
            iops: comparison(0.9, false),
            cpu_us_per_io: Some(comparison(1.0, true)),
            counted_per_s: Some(comparison(0.7, false)),
        };
        let text = row(&fast);
        assert!(text.contains("10,800    12,000  0.900  0.90-0.90  missed"), "{text}");
        assert!(text.contains("fathom says 10,800, the kernel counted 8,400"), "{text}");
        assert!(text.contains("in 2 of 5 rounds"), "{text}");
        let head = header();
        let end_of_fio = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end_of_fio(head.lines().last().unwrap(), "fio"), end_of_fio(&text, "12,000"));
        let targets = targets(&[fast]);
        assert!(targets.contains("missed (0 of 1 shapes; missed: disk randread 4K psync 1)"), "{targets}");
        assert!(targets.ends_with("ok (1 of 1 shapes)"), "{targets}");
    }
}
