//! Figures as text, as all tables write them.

use fathom_units::{Bytes, Nanos};

/// A time in microseconds, which may be below 0 where a difference is.
pub(crate) fn time_us(us: f64) -> String {
    let sign = if us < 0.0 { "-" } else { "" };
    format!("{sign}{}", Nanos((us.abs() * 1000.0).round() as u64))
}

/// Bytes; none below 0.
pub(crate) fn bytes(value: f64) -> String {
    Bytes(value.max(0.0).round() as u64).to_string()
}
