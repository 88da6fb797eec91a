//! The BSON bytes of single values that generators draw or take from other values; and moments: a
//! fixed time, or an offset from the time at which they are drawn.

use std::io::Write;

use bson::spec::{BinarySubtype, ElementType};
use bson::{Bson, DateTime, RawBsonRef, RawDocument};
use fathom_errors::Error;
use fathom_stats::SeededRandom;

use crate::core_workload::Lengths;
use crate::document_workload::item::Item;
use crate::values::append_random;

#[inline]
pub(super) fn long(value: i64, out: &mut Vec<u8>) -> ElementType {
    out.extend_from_slice(&value.to_le_bytes());
    ElementType::Int64
}

#[inline]
pub(super) fn double(value: f64, out: &mut Vec<u8>) -> ElementType {
    out.extend_from_slice(&value.to_le_bytes());
    ElementType::Double
}

#[inline]
pub(super) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

/// A text whose bytes are appended by a function.
pub(super) fn text(out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) -> ElementType {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    append(out);
    out.push(0);
    put_length(out, start, 4);
    ElementType::String
}

/// Fills in the length at `start`: the number of bytes after the `header_bytes` that begin there.
fn put_length(out: &mut [u8], start: usize, header_bytes: usize) {
    let length = i32::try_from(out.len().saturating_sub(start + header_bytes)).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(start..).and_then(|bytes| bytes.first_chunk_mut::<4>()) {
        *place = length.to_le_bytes();
    }
}

pub(super) fn append_text(
    lengths: &Lengths,
    compressibility: f64,
    binary: bool,
    random: &mut SeededRandom,
    out: &mut Vec<u8>,
) -> ElementType {
    let bytes = usize::try_from(lengths.draw(random)).unwrap_or(usize::MAX);
    let random_bytes = (bytes as f64 / compressibility).ceil() as usize;
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    if binary {
        out.push(BinarySubtype::Generic.into());
    }
    let first = out.len();
    append_random(random, random_bytes.min(bytes), out);
    out.resize(first + bytes, b'a');
    if binary {
        put_length(out, start, 5);
        return ElementType::Binary;
    }
    out.push(0);
    put_length(out, start, 4);
    ElementType::String
}

/// Appends the one value of a document, as text.
pub(super) fn append_plain(alone: &[u8], out: &mut Vec<u8>) {
    let value = RawDocument::from_bytes(alone).ok().and_then(|alone| alone.iter().flatten().next());
    // Writing into memory does not fail.
    let _ = match value {
        Some((_, RawBsonRef::String(text))) => out.write_all(text.as_bytes()),
        Some((_, RawBsonRef::Int32(number))) => write!(out, "{number}"),
        Some((_, RawBsonRef::Int64(number))) => write!(out, "{number}"),
        Some((_, RawBsonRef::Double(number))) => write!(out, "{number}"),
        Some((_, RawBsonRef::Boolean(truth))) => write!(out, "{truth}"),
        Some((_, RawBsonRef::ObjectId(id))) => write!(out, "{id}"),
        Some((_, value)) => match Bson::try_from(value) {
            Ok(value) => write!(out, "{value}"),
            Err(_) => Ok(()),
        },
        None => Ok(()),
    };
}

/// Appends a number times a factor; a value of another type is appended unchanged.
pub(super) fn multiplied(
    element_type: ElementType,
    bytes: &[u8],
    times: f64,
    out: &mut Vec<u8>,
) -> ElementType {
    let whole = times.fract() == 0.0;
    match (element_type, bytes.first_chunk::<4>(), bytes.first_chunk::<8>()) {
        (ElementType::Int32, Some(bytes), _) if whole => {
            let value = i64::from(i32::from_le_bytes(*bytes)).saturating_mul(times as i64);
            match i32::try_from(value) {
                Ok(value) => {
                    out.extend_from_slice(&value.to_le_bytes());
                    ElementType::Int32
                }
                Err(_) => long(value, out),
            }
        }
        (ElementType::Int32, Some(bytes), _) => double(f64::from(i32::from_le_bytes(*bytes)) * times, out),
        (ElementType::Int64, _, Some(bytes)) if whole => {
            long(i64::from_le_bytes(*bytes).saturating_mul(times as i64), out)
        }
        (ElementType::Int64, _, Some(bytes)) => double(i64::from_le_bytes(*bytes) as f64 * times, out),
        (ElementType::Double, _, Some(bytes)) => double(f64::from_le_bytes(*bytes) * times, out),
        _ => {
            out.extend_from_slice(bytes);
            element_type
        }
    }
}

/// Fills in the type of an element that begins at `start`, or removes the element.
#[inline]
pub(super) fn settle(element_type: Option<ElementType>, start: usize, out: &mut Vec<u8>) {
    match (element_type, out.get_mut(start)) {
        (Some(element_type), Some(place)) => *place = element_type as u8,
        _ => out.truncate(start),
    }
}

/// A moment in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::document_workload) enum TimeValue {
    /// A time in milliseconds since 1970.
    At(i64),
    /// Milliseconds from now, negative for the past.
    FromNow(i64),
}

/// Milliseconds in a unit of time.
const UNITS: [(&str, i64); 6] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];
/// About 10,000 years in milliseconds.
const MAX_MS: i64 = 315_360_000_000_000;

impl TimeValue {
    /// Reads `now`, `-7d`, `+90s` or `2026-01-31T12:00:00Z`.
    pub(in crate::document_workload) fn read(item: &Item<'_>) -> Result<TimeValue, Error> {
        let text = item.text().unwrap_or_default();
        let found = match text {
            "now" => Some(TimeValue::FromNow(0)),
            _ => offset(text).map(TimeValue::FromNow).or_else(|| {
                let time: jiff::Timestamp = text.parse().ok()?;
                Some(TimeValue::At(time.as_millisecond()))
            }),
        };
        found.ok_or_else(|| {
            item.refuse("a moment is expected: now, -7d, +90s (ms, s, m, h, d, w) or 2026-01-31T12:00:00Z")
        })
    }

    /// The moment in milliseconds since 1970. Both ends of a range take one `now`: two readings of the clock would put `now` before itself.
    pub(in crate::document_workload) fn millis(self, now: DateTime) -> i64 {
        match self {
            TimeValue::At(millis) => millis,
            TimeValue::FromNow(offset) => now.timestamp_millis().saturating_add(offset),
        }
    }
}

fn offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => return None,
    };
    let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
    let (count, unit) = rest.split_at_checked(digits)?;
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let offset = count.parse::<i64>().ok()?.checked_mul(*millis)?;
    (offset <= MAX_MS).then_some(sign * offset)
}

#[cfg(test)]
mod tests {
    use serde_yaml_ng::Value;

    use super::*;

    #[test]
    fn moments_are_read() {
        for (text, moment) in [
            ("now", Some(TimeValue::FromNow(0))),
            ("-7d", Some(TimeValue::FromNow(-604_800_000))),
            ("+90s", Some(TimeValue::FromNow(90_000))),
            ("-5ms", Some(TimeValue::FromNow(-5))),
            ("1970-01-02T00:00:00Z", Some(TimeValue::At(86_400_000))),
            ("7d", None),
            ("-7", None),
            ("-7y", None),
            ("-99999999999999999999d", None),
            ("-999999999999d", None),
            ("", None),
            ("yesterday", None),
        ] {
            let value = Value::String(text.to_owned());
            assert_eq!(TimeValue::read(&Item::root(&value)).ok(), moment, "{text}");
        }
    }
}
