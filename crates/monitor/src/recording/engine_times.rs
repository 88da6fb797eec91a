//! Table: the buckets in which WiredTiger counts how long its reads and writes of files took, and the series that they become.
//!
//! 3.6.3 to 7.0 begin at 10 ms, 8.0 at 0; 8.2 says "block manager" for "file system". The number of a bucket differs between versions, its bounds do not.

/// The lower bounds, in milliseconds.
const BOUNDS: [&str; 7] = ["0", "10", "50", "100", "250", "500", "1000"];

/// The series of a bucket behind `server.{member}.`, by its path below `serverStatus`: `engine.read_times.50` counts reads of 50 ms and longer, up to the next bound.
pub(super) fn series_of(path: &str) -> Option<String> {
    let name = path.strip_prefix("wiredTiger.perf.")?;
    let name = name.strip_prefix("file system ").or_else(|| name.strip_prefix("block manager "))?;
    let (kind, rest) = name.split_once(" latency histogram (bucket ")?;
    let (_, range) = rest.split_once(") - ")?;
    let bound = range.strip_suffix("ms+").or_else(|| range.strip_suffix("ms")?.split('-').next())?;
    let is_known = matches!(kind, "read" | "write") && BOUNDS.contains(&bound);
    is_known.then(|| format!("engine.{kind}_times.{bound}"))
}

#[cfg(test)]
mod tests {
    use fathom_record::catalog::kind_of;

    use super::*;

    #[test]
    fn buckets_of_all_versions_are_the_same_series() {
        let series = |name: &str| series_of(&format!("wiredTiger.perf.{name}"));
        for name in [
            "file system read latency histogram (bucket 1) - 10-49ms",
            "file system read latency histogram (bucket 2) - 10-49ms",
            "block manager read latency histogram (bucket 2) - 10-49ms",
        ] {
            assert_eq!(series(name).as_deref(), Some("engine.read_times.10"), "{name}");
        }
        let last = series("file system write latency histogram (bucket 6) - 1000ms+");
        assert_eq!(last.as_deref(), Some("engine.write_times.1000"));
        assert_eq!(kind_of("server.0.engine.write_times.1000").map(|kind| kind.unit), Some("1"));
        for name in [
            "file system read latency histogram total (msecs)",
            "operation read latency histogram (bucket 1) - 100-249us",
            "file system read latency histogram (bucket 1) - 7-9ms",
        ] {
            assert_eq!(series(name), None, "{name}");
        }
    }
}
