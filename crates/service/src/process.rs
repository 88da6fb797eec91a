//! What the kernel says of this process: memory, page faults, CPU time (proc(5), `/proc/self/stat`).

/// One reading of `/proc/self/stat`; zeros where it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Time in user space.
    pub user_micros: u64,
    /// Time in the kernel.
    pub system_micros: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// Memory in use.
    pub resident_bytes: u64,
}

impl ProcessFigures {
    /// Of this process, now.
    pub fn read() -> ProcessFigures {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        ProcessFigures::parse(
            &text,
            rustix::param::clock_ticks_per_second(),
            rustix::param::page_size() as u64,
        )
        .unwrap_or_default()
    }

    /// Fields are numbered from 1 in proc(5); the name in parentheses may hold anything, so they are counted from its end.
    fn parse(text: &str, ticks_per_second: u64, page_bytes: u64) -> Option<ProcessFigures> {
        const FIRST_AFTER_NAME: usize = 3;
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - FIRST_AFTER_NAME)?.parse::<u64>().ok();
        let micros = |ticks: u64| ticks.saturating_mul(1_000_000) / ticks_per_second.max(1);
        Some(ProcessFigures {
            minor_faults: field(10)?,
            major_faults: field(12)?,
            user_micros: micros(field(14)?),
            system_micros: micros(field(15)?),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)?.saturating_mul(page_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_shifts_nothing() {
        let text = "42 (a ) b) S 1 1 1 0 -1 4194560 100 0 7 0 250 50 0 0 20 0 9 0 77 1048576 256 99\n";
        let figures = ProcessFigures::parse(text, 100, 4096).unwrap();
        assert_eq!(figures.minor_faults, 100);
        assert_eq!(figures.major_faults, 7);
        assert_eq!((figures.user_micros, figures.system_micros), (2_500_000, 500_000));
        assert_eq!((figures.virtual_bytes, figures.resident_bytes), (1 << 20, 1 << 20));
        assert_eq!(ProcessFigures::parse("42 (x) S 1", 100, 4096), None);
        assert!(ProcessFigures::read().resident_bytes > 0);
    }
}
