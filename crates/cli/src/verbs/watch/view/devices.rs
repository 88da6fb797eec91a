//! What the block devices do now.

use serde::Serialize;

use super::reading::Look;

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// Mean times of requests, in milliseconds; none where there were none.
    pub(crate) read_ms: Option<f64>,
    pub(crate) write_ms: Option<f64>,
    pub(crate) flush_ms: Option<f64>,
    pub(crate) per_s: f64,
    pub(crate) read_bytes_per_s: f64,
    pub(crate) written_bytes_per_s: f64,
    pub(crate) in_flight: Option<f64>,
}

/// Every device that is watched.
pub(super) fn all(look: Look<'_>) -> Vec<Device> {
    let device = |name: String| {
        let of = |what: &str| format!("device.{name}.{what}");
        let rate = |what: &str| look.rate(&of(what));
        let (reads, writes) = (rate("reads")?, rate("writes")?);
        Some(Device {
            read_ms: look.mean(&of("read_ms"), &of("reads")),
            write_ms: look.mean(&of("write_ms"), &of("writes")),
            flush_ms: look.mean(&of("flush_ms"), &of("flushes")),
            per_s: reads + writes + rate("flushes").unwrap_or(0.0),
            read_bytes_per_s: rate("read_bytes").unwrap_or(0.0),
            written_bytes_per_s: rate("written_bytes").unwrap_or(0.0),
            in_flight: look.level(&of("in_flight")),
            name,
        })
    };
    look.named("device.", ".reads").into_iter().filter_map(device).collect()
}

/// The share of time in which some task waited for a device, of the host's processors too.
pub(super) fn pressure_share(look: Look<'_>, of: &str) -> Option<f64> {
    look.rate(&format!("host.pressure.{of}.some_us")).map(|us| us / 1e6)
}
