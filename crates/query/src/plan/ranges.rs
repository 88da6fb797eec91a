//! Intervals of fields as ranges of index keys: for each combination of the points of leading fields, one range of the next.

use super::Range;
use super::bounds::Bounds;
use super::interval::Cut;
use crate::{Bound, FieldKind, KeyBuilder, KeyPattern, Result};

/// How many ranges one plan may have, unless a single list of points has more; beyond it fewer fields are narrowed.
const RANGES_LIMIT: usize = 4000;

/// How many leading fields can be narrowed together within the limit; at least one.
pub(super) fn fitting(fields: &[Bounds]) -> usize {
    let mut ranges = 1_usize;
    for (place, bounds) in fields.iter().enumerate() {
        ranges = ranges.saturating_mul(bounds.intervals.len());
        if ranges > RANGES_LIMIT && place > 0 {
            return place;
        }
    }
    fields.len()
}

/// The ranges, ascending in key order; none at all if a field has no interval. All but the last field are held to points.
pub(super) fn of(pattern: &KeyPattern, fields: &[Bounds]) -> Result<Vec<Range>> {
    let count = fields.iter().map(|bounds| bounds.intervals.len()).product();
    let mut ranges = Vec::with_capacity(count);
    if fields.is_empty() {
        ranges.push(Range {
            low: KeyBuilder::new().finish(Bound::Before).bytes,
            high: KeyBuilder::new().finish(Bound::After).bytes,
        });
    } else if count > 0 {
        extend(pattern, fields, 0, &KeyBuilder::new(), &mut ranges)?;
    }
    Ok(ranges)
}

/// Appends the ranges of the fields from `place` on behind a beginning of keys.
fn extend(
    pattern: &KeyPattern,
    fields: &[Bounds],
    place: usize,
    beginning: &KeyBuilder,
    ranges: &mut Vec<Range>,
) -> Result<()> {
    let (Some(bounds), Some(field)) = (fields.get(place), pattern.fields.get(place)) else { return Ok(()) };
    let descends = field.kind == FieldKind::Descending;
    let last = place + 1 == fields.len();
    let mut add = |interval: &super::interval::Interval| {
        if !last {
            let mut longer = beginning.clone();
            longer.append(interval.low.value.as_raw_bson_ref(), descends);
            return extend(pattern, fields, place + 1, &longer, ranges);
        }
        let (first, end) = match descends {
            false => (&interval.low, &interval.high),
            true => (&interval.high, &interval.low),
        };
        ranges.push(Range { low: key(beginning, first, descends)?, high: key(beginning, end, descends)? });
        Ok(())
    };
    match descends {
        false => bounds.intervals.iter().try_for_each(&mut add),
        true => bounds.intervals.iter().rev().try_for_each(&mut add),
    }
}

/// The key at a cut; what is after a value is before it when the field descends.
fn key(beginning: &KeyBuilder, cut: &Cut, descends: bool) -> Result<Vec<u8>> {
    let mut key = beginning.clone();
    key.append(cut.value.as_raw_bson_ref(), descends);
    key.check()?;
    Ok(key.finish(if cut.after == descends { Bound::Before } else { Bound::After }).bytes)
}
