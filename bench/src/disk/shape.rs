//! The shapes that are compared: what a database does to a disk, in the words of both programs.

use std::fmt;

/// One shape; the block is 4 KiB throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// What is done.
    pub(super) pattern: Pattern,
    /// `psync` or `io_uring`; both programs use these names.
    pub(super) engine: &'static str,
    /// Threads of psync, or requests in flight of io_uring.
    pub(super) depth: u32,
}

/// What a shape does to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Random reads of the file that both share.
    RandRead,
    /// Random writes of data that never repeats, each program to its own file.
    RandWrite,
    /// Writes one after the other into room that was reserved, each followed by fdatasync: a journal.
    Append,
}

impl Pattern {
    /// The word of `fathom disk --pattern`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Pattern::RandRead => "randread",
            Pattern::RandWrite => "randwrite",
            Pattern::Append => "append",
        }
    }
}

const fn shape(pattern: Pattern, engine: &'static str, depth: u32) -> Shape {
    Shape { pattern, engine, depth }
}

impl Shape {
    /// All of them, in the order they run.
    pub(super) const ALL: [Shape; 10] = [
        shape(Pattern::RandRead, "psync", 1),
        shape(Pattern::RandRead, "psync", 8),
        shape(Pattern::RandRead, "psync", 32),
        shape(Pattern::RandRead, "io_uring", 1),
        shape(Pattern::RandRead, "io_uring", 8),
        shape(Pattern::RandRead, "io_uring", 32),
        shape(Pattern::RandRead, "io_uring", 128),
        shape(Pattern::RandWrite, "psync", 8),
        shape(Pattern::RandWrite, "io_uring", 32),
        shape(Pattern::Append, "psync", 1),
    ];
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sync = if self.pattern == Pattern::Append { "+fdatasync" } else { "" };
        write!(f, "{}{sync} 4K {} {}", self.pattern.word(), self.engine, self.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = Shape::ALL.iter().map(Shape::to_string).collect();
        assert_eq!(names.last().map(String::as_str), Some("append+fdatasync 4K psync 1"));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Shape::ALL.len());
    }
}
