//! Pressure stall information: the share of time in which tasks waited for the CPU, memory or I/O.
//!
//! From `/proc/pressure` (torvalds/linux:Documentation/accounting/psi.rst), kernel 4.20 and later. Many
//! distributions ship it turned off; then there is nothing to read and the answer is `None`, not zero.

use crate::View;

/// The time that tasks were stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Share of the last ten seconds, in percent.
    pub avg10_pct: f64,
    /// Running total in microseconds.
    pub total_us: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks that were not idle waited at once; `None` for the CPU before 5.13.
    pub full: Option<Stall>,
}

/// The pressure on `cpu`, `io` or `memory`; `None` where the kernel does not tell.
pub fn read(view: &View, resource: &str) -> Option<Pressure> {
    parse(&view.text(&format!("proc/pressure/{resource}"))?)
}

/// Parses a pressure file (also a cgroup's `io.pressure`).
pub fn parse(text: &str) -> Option<Pressure> {
    let stall = |kind: &str| text.lines().find_map(|line| parse_line(line.strip_prefix(kind)?));
    Some(Pressure { some: stall("some ")?, full: stall("full ") })
}

fn parse_line(line: &str) -> Option<Stall> {
    let field =
        |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let avg10_pct: f64 = field("avg10")?.parse().ok()?;
    Some(Stall {
        avg10_pct: Some(avg10_pct).filter(|pct| pct.is_finite())?,
        total_us: field("total")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_read() {
        let text = "some avg10=0.13 avg60=0.17 avg300=0.10 total=2461199\nfull avg10=1.50 avg60=0 avg300=0 total=7\n";
        let pressure = parse(text).unwrap();
        assert_eq!(pressure.some, Stall { avg10_pct: 0.13, total_us: 2_461_199 });
        assert_eq!(pressure.full, Some(Stall { avg10_pct: 1.5, total_us: 7 }));
        assert_eq!(parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n").unwrap().full, None);
        assert_eq!(parse("garbage"), None);
        assert_eq!(read(&View::live(), "no-such-resource"), None);
    }
}
