//! How much of a series is read, and who takes it.

use crate::Point;

/// The largest file of readings that is read.
pub(crate) const MAX_SERIES_BYTES: u64 = 16 << 30;

/// What the reader of a series does with each reading: its name, its unit, its value with the window.
pub(crate) type Take<'t> = &'t mut dyn FnMut(&str, &str, Point);
