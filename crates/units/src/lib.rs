//! Bytes, nanoseconds and counts in the forms that users write and read.
//!
//! Numbers without a unit cause errors such as those with `recSizeKB` and read-ahead sectors. Quantities that cross a
//! crate border therefore have these types, or carry their unit last in their name (`latency_ns`, `rate_iops`). This
//! crate reads no clock and no device.

mod bytes;
mod count;
mod nanos;

pub use bytes::Bytes;
pub use count::{count, decimal, hours, time_span};
pub use nanos::Nanos;
