//! The files of a run folder.

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const RESULTS: &str = "results.jsonl";
pub(crate) const FINDINGS: &str = "findings.json";
pub(crate) const LATENCY: &str = "latency";

/// The largest manifest that is read.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
