//! Memory of the machine from `/proc/meminfo` (proc(5)): the available memory, and the pages that wait to be written.
//!
//! A line that a kernel does not have (`MemAvailable` before 3.14) is `None`, never zero.

use crate::View;

/// The figures of `/proc/meminfo`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The memory that programs may still take without paging.
    pub available_bytes: Option<u64>,
    /// Pages that were changed and wait to be written.
    pub dirty_bytes: Option<u64>,
    /// Pages that are being written now.
    pub writeback_bytes: Option<u64>,
}

/// Reads it; `None` without such a file.
pub fn read(view: &View) -> Option<Memory> {
    Some(parse(&view.text("proc/meminfo")?))
}

/// Parses the text; a line that does not follow the grammar is passed over.
pub fn parse(text: &str) -> Memory {
    Memory {
        available_bytes: field_bytes(text, "MemAvailable"),
        dirty_bytes: field_bytes(text, "Dirty"),
        writeback_bytes: field_bytes(text, "Writeback"),
    }
}

/// One line by its name, in bytes.
pub fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kernels_without_a_line_have_no_figure() {
        let text = "MemTotal:  100 kB\nMemAvailable:    50 kB\nDirty:      3 kB\nWritebackTmp: 9 kB\nWriteback: x kB\n";
        let expected =
            Memory { available_bytes: Some(51_200), dirty_bytes: Some(3_072), writeback_bytes: None };
        assert_eq!(parse(text), expected);
        assert_eq!(parse("Dirty: 18446744073709551615 kB").dirty_bytes, None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(Dirty|MemAvailable|.{0,10}):? {0,3}[0-9a-f]{0,22}( kB)?\n?") {
            parse(&text);
        }
    }
}
