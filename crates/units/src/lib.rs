//! Bytes, nanoseconds and counts as people write and read them.
//!
//! A number without its unit is how `recSizeKB` and read-ahead sectors come to be confused, so quantities that
//! cross a crate border are these types or carry their unit last in their name (`latency_ns`, `rate_iops`).
//! Nothing here reads a clock or a device.

mod bytes;
mod count;
mod nanos;

pub use bytes::Bytes;
pub use count::{count, decimal, hours};
pub use nanos::Nanos;
