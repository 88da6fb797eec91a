//! Sorted and disjoint lists of intervals of values, which narrow one field of an index.
//!
//! An end is a cut between values, before or after all values that are equal to it, so that open and closed ends, gaps and
//! touching intervals need no special cases.

use std::cmp::Ordering;

use bson::RawBson;

use crate::compare;
use crate::filter::show;

/// A place between values.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The value next to it.
    pub(super) value: RawBson,
    /// Whether it is after the value, not before.
    pub(super) after: bool,
}

/// The values between two cuts.
#[derive(Clone, Debug)]
pub(super) struct ValueInterval {
    pub(super) low: Cut,
    /// Its upper end; after `low`.
    pub(super) high: Cut,
}

/// Sorted, disjoint and not touching.
pub(super) type Intervals = Vec<ValueInterval>;

impl Cut {
    pub(super) fn before(value: RawBson) -> Cut {
        Cut { value, after: false }
    }

    pub(super) fn after(value: RawBson) -> Cut {
        Cut { value, after: true }
    }

    fn order(&self, other: &Cut) -> Ordering {
        compare(self.value.as_raw_bson_ref(), other.value.as_raw_bson_ref())
            .then(self.after.cmp(&other.after))
    }
}

impl ValueInterval {
    /// The values equal to one.
    pub(super) fn point(value: RawBson) -> ValueInterval {
        ValueInterval { low: Cut::before(value.clone()), high: Cut::after(value) }
    }

    pub(super) fn all() -> ValueInterval {
        ValueInterval { low: Cut::before(RawBson::MinKey), high: Cut::after(RawBson::MaxKey) }
    }

    /// Whether it holds but one value (and those equal to it).
    pub(super) fn is_point(&self) -> bool {
        !self.low.after
            && self.high.after
            && compare(self.low.value.as_raw_bson_ref(), self.high.value.as_raw_bson_ref()).is_eq()
    }

    /// The form in explain: `[1, 5)`; from its end to its beginning if it is walked backwards.
    pub(super) fn show(&self, backwards: bool) -> String {
        let (low, high) =
            (show::value(self.low.value.as_raw_bson_ref()), show::value(self.high.value.as_raw_bson_ref()));
        match backwards {
            false => format!(
                "{}{low}, {high}{}",
                if self.low.after { '(' } else { '[' },
                if self.high.after { ']' } else { ')' },
            ),
            true => format!(
                "{}{high}, {low}{}",
                if self.high.after { '[' } else { '(' },
                if self.low.after { ')' } else { ']' },
            ),
        }
    }
}

/// The union of the intervals: sorted, merged, without empty ones.
pub(super) fn union(mut intervals: Vec<ValueInterval>) -> Intervals {
    intervals.retain(|interval| interval.low.order(&interval.high).is_lt());
    intervals.sort_by(|left, right| left.low.order(&right.low));
    let mut merged: Intervals = Vec::with_capacity(intervals.len());
    for interval in intervals {
        match merged.last_mut() {
            Some(last) if interval.low.order(&last.high).is_le() => {
                if interval.high.order(&last.high).is_gt() {
                    last.high = interval.high;
                }
            }
            _ => merged.push(interval),
        }
    }
    merged
}

/// The intersection of two lists.
pub(super) fn intersection(left: &[ValueInterval], right: &[ValueInterval]) -> Intervals {
    let (mut lefts, mut rights) = (left.iter().peekable(), right.iter().peekable());
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (lefts.peek(), rights.peek()) {
        let low = if one.low.order(&other.low).is_ge() { &one.low } else { &other.low };
        let left_ends_first = one.high.order(&other.high).is_le();
        let high = if left_ends_first { &one.high } else { &other.high };
        if low.order(high).is_lt() {
            common.push(ValueInterval { low: low.clone(), high: high.clone() });
        }
        if left_ends_first {
            lefts.next();
        } else {
            rights.next();
        }
    }
    common
}

/// The complement of a list.
pub(super) fn complement(intervals: &[ValueInterval]) -> Intervals {
    let mut low = ValueInterval::all().low;
    let mut gaps = Vec::with_capacity(intervals.len() + 1);
    for interval in intervals {
        gaps.push(ValueInterval { low, high: interval.low.clone() });
        low = interval.high.clone();
    }
    gaps.push(ValueInterval { low, high: ValueInterval::all().high });
    union(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(low: i32, high: i32) -> ValueInterval {
        ValueInterval { low: Cut::before(RawBson::Int32(low)), high: Cut::before(RawBson::Int32(high)) }
    }

    fn shown(intervals: &[ValueInterval]) -> Vec<String> {
        intervals.iter().map(|interval| interval.show(false)).collect()
    }

    #[test]
    fn unions_merge_what_overlaps_or_touches() {
        let merged = union(vec![
            between(5, 7),
            between(1, 3),
            between(3, 4),
            between(2, 3),
            between(9, 9),
            ValueInterval::point(RawBson::Int32(7)),
        ]);
        assert_eq!(shown(&merged), ["[1, 4)", "[5, 7]"]);
    }

    #[test]
    fn intersections_keep_what_is_in_both() {
        let left = [between(1, 5), between(6, 9)];
        let right = [between(3, 7), ValueInterval::point(RawBson::Double(8.0))];
        assert_eq!(shown(&intersection(&left, &right)), ["[3, 5)", "[6, 7)", "[8.0, 8.0]"]);
        assert!(intersection(&[between(1, 3)], &[between(3, 5)]).is_empty());
    }

    #[test]
    fn complements_leave_the_gaps() {
        assert_eq!(
            shown(&complement(&[ValueInterval::point(RawBson::Int32(3))])),
            ["[MinKey, 3)", "(3, MaxKey]"]
        );
        assert!(complement(&[ValueInterval::all()]).is_empty());
        assert_eq!(shown(&complement(&[])), ["[MinKey, MaxKey]"]);
    }

    #[test]
    fn backwards_an_interval_reads_from_its_end() {
        assert_eq!(between(1, 5).show(true), "(5, 1]");
        assert!(ValueInterval::point(RawBson::Int32(1)).is_point());
        assert!(!between(1, 5).is_point());
    }
}
