//! The shapes that are compared: a database's access patterns, in the terms of both programs.

use std::fmt;

/// One shape; the block is 4 KiB throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BenchShape {
    /// The kind of requests.
    pub(super) pattern: RequestPattern,
    /// `psync` or `io_uring`; both programs use these names.
    pub(super) engine: &'static str,
    /// Threads of psync, or requests in flight of io_uring.
    pub(super) depth: u32,
}

/// The requests of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPattern {
    /// Random reads of the file that both share.
    RandRead,
    /// Random writes of data that never repeats, each program to its own file.
    RandWrite,
    /// Sequential writes into reserved space, each followed by fdatasync, as in a journal.
    Append,
}

impl RequestPattern {
    /// The word of `fathom disk --pattern`.
    pub(super) fn word(self) -> &'static str {
        match self {
            RequestPattern::RandRead => "randread",
            RequestPattern::RandWrite => "randwrite",
            RequestPattern::Append => "append",
        }
    }
}

const fn shape(pattern: RequestPattern, engine: &'static str, depth: u32) -> BenchShape {
    BenchShape { pattern, engine, depth }
}

impl BenchShape {
    /// All shapes, in the order in which they run.
    pub(super) const ALL: [BenchShape; 10] = [
        shape(RequestPattern::RandRead, "psync", 1),
        shape(RequestPattern::RandRead, "psync", 8),
        shape(RequestPattern::RandRead, "psync", 32),
        shape(RequestPattern::RandRead, "io_uring", 1),
        shape(RequestPattern::RandRead, "io_uring", 8),
        shape(RequestPattern::RandRead, "io_uring", 32),
        shape(RequestPattern::RandRead, "io_uring", 128),
        shape(RequestPattern::RandWrite, "psync", 8),
        shape(RequestPattern::RandWrite, "io_uring", 32),
        shape(RequestPattern::Append, "psync", 1),
    ];
}

impl fmt::Display for BenchShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sync = if self.pattern == RequestPattern::Append { "+fdatasync" } else { "" };
        write!(f, "{}{sync} 4K {} {}", self.pattern.word(), self.engine, self.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = BenchShape::ALL.iter().map(BenchShape::to_string).collect();
        assert_eq!(names.last().map(String::as_str), Some("append+fdatasync 4K psync 1"));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BenchShape::ALL.len());
    }
}
