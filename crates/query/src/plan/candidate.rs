//! One index as a candidate for a query: how far its fields are narrowed, the ranges of keys, and the order and the documents
//! that it yields.

use std::cmp::Reverse;

use super::bounds::Bounds;
use super::interval::{Cut, ValueInterval};
use super::predicates::{Predicate, on_one_key};
use super::{Access, IndexInfo, Plan, Range, index_bounds};
use crate::filter::path::has_index;
use crate::{Bound, FieldKind, KeyBuilder, KeyPattern, Projection, Result, Sort};

/// The sort, hint and projection of a query, besides the filter's predicates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    /// The predicates of the filter on single fields.
    pub(super) predicates: &'a [Predicate<'a>],
    /// The number of parts of the filter's conjunction.
    pub(super) parts: usize,
    /// The order that the query requests.
    pub(super) sort: Option<&'a Sort>,
    /// The fields that the query requests.
    pub(super) projection: Option<&'a Projection>,
}

/// An index with its bounds for a question.
#[derive(Clone, Debug)]
pub(super) struct Candidate<'a> {
    /// Its place in the list.
    pub(super) place: usize,
    index: IndexInfo<'a>,
    /// The bounds of the leading fields, as many as ranges of keys can express.
    fields: Vec<Bounds>,
    /// Whether the bounds express the whole filter.
    exact: bool,
    /// `Some` if it yields the requested order; then, whether it is walked from its end.
    order: Option<bool>,
    covered: bool,
}

/// The rank of a candidate; the greatest is taken. The head of the module gives the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CandidateRank {
    unique: bool,
    equal_fields: usize,
    single_points: usize,
    narrowed: bool,
    sorted: bool,
    narrowness: u8,
    /// A partial index holds no more keys than a full one.
    partial: bool,
    covered: bool,
    fields: Reverse<usize>,
    place: Reverse<usize>,
}

impl<'a> Candidate<'a> {
    /// The bounds of an index for a query. `unrestricted` leaves its keys unnarrowed, for an index that is used only because of a
    /// hint.
    pub(super) fn new(
        place: usize,
        index: IndexInfo<'a>,
        question: Question<'a>,
        unrestricted: bool,
    ) -> Candidate<'a> {
        let (fields, exact) = match unrestricted {
            true => (Vec::new(), question.parts == 0),
            false => narrow(index, question),
        };
        let constant = |place: usize| is_constant(index, &fields, place);
        let order = match question.sort {
            None => Some(false),
            Some(_) if index.multikey => None,
            Some(sort) => key_order(index.pattern, sort, constant),
        };
        let covered = exact && order.is_some() && covers(index, question.projection);
        Candidate { place, index, fields, exact, order, covered }
    }

    /// Whether the index narrows anything or avoids a sort, so that it is better than a scan of all records.
    pub(super) fn is_useful(&self, sort: Option<&Sort>) -> bool {
        !self.fields.is_empty() || (sort.is_some() && self.order.is_some())
    }

    /// Whether it narrows any field.
    pub(super) fn is_narrowed(&self) -> bool {
        !self.fields.is_empty()
    }

    pub(super) fn merit(&self) -> CandidateRank {
        let equal = self.fields.iter().take_while(|bounds| bounds.are_points());
        let equal_fields = equal.clone().count();
        let single_points = equal.take_while(|bounds| bounds.intervals.len() <= 1).count();
        let narrowness = self.fields.get(equal_fields).map_or(0, |bounds| bounds.narrowness);
        let whole = single_points == self.index.pattern.fields.len();
        CandidateRank {
            unique: whole && self.index.unique,
            equal_fields,
            single_points,
            narrowed: equal_fields > 0 || narrowness > 0,
            sorted: self.order.is_some(),
            narrowness,
            partial: self.index.partial.is_some(),
            covered: self.covered,
            fields: Reverse(self.index.pattern.fields.len()),
            place: Reverse(self.place),
        }
    }

    pub(super) fn plan(&self) -> Result<Plan> {
        let ranges = ranges_of(self.index.pattern, &self.fields)?;
        if ranges.is_empty() {
            return Ok(Plan { access: Access::Nothing, filter: false, sorted: true, covered: false });
        }
        let backwards = self.order.unwrap_or(false);
        Ok(Plan {
            access: Access::Index {
                index: self.place,
                ranges,
                backwards,
                bounds: index_bounds(self.index.pattern, &self.fields, backwards),
            },
            filter: !self.exact,
            sorted: self.order.is_some(),
            covered: self.covered,
        })
    }
}

/// The bounds of the leading fields, up to the first that is not bound to points, and whether they express the whole filter.
fn narrow(index: IndexInfo<'_>, question: Question<'_>) -> (Vec<Bounds>, bool) {
    let mut fields: Vec<Bounds> = Vec::new();
    let mut chosen: Vec<&Predicate<'_>> = Vec::new();
    let mut said: Vec<usize> = Vec::new();
    for field in &index.pattern.fields {
        let single = !index.multikey && !has_index(&field.path);
        let mut possible = question
            .predicates
            .iter()
            .filter(|predicate| predicate.path == field.path)
            .filter(|predicate| single || chosen.iter().all(|other| on_one_key(predicate, other)))
            .filter_map(|predicate| Some((predicate, predicate.bounds(field.kind, single)?)));
        let bounds = if single {
            // Every document has one key there, which must satisfy all.
            possible
                .inspect(|(predicate, bounds)| {
                    if bounds.exact && predicate.group.is_none() {
                        said.push(predicate.origin);
                    }
                })
                .map(|(_, bounds)| bounds)
                .reduce(|all, bounds| all.and(&bounds))
        } else {
            // Different keys of a document may satisfy one predicate each, so only one predicate can be used.
            let first = possible.next();
            let best = possible.fold(first, |best, other| match best {
                Some(best) if rank(&best.1) >= rank(&other.1) => Some(best),
                _ => Some(other),
            });
            best.map(|(predicate, bounds)| {
                chosen.push(predicate);
                bounds
            })
        };
        let Some(bounds) = bounds else { break };
        let last = !bounds.are_points();
        fields.push(bounds);
        if last {
            break;
        }
    }
    let fits = fitting(&fields);
    let cut = fits < fields.len();
    fields.truncate(fits);
    // A part with more than one predicate (an `$elemMatch`) is never fully expressed; otherwise a part has only one.
    said.sort_unstable();
    said.dedup();
    let exact = !cut && said.len() == question.parts;
    (fields, exact)
}

/// The rank of bounds by narrowing: points before intervals, fewer before more.
fn rank(bounds: &Bounds) -> (bool, u8, Reverse<usize>) {
    (bounds.are_points(), bounds.narrowness, Reverse(bounds.intervals.len()))
}

/// Whether all keys of the plan have the same value in a field.
fn is_constant(index: IndexInfo<'_>, fields: &[Bounds], place: usize) -> bool {
    // Several values may have the same hash.
    let hashed = index.pattern.fields.get(place).is_some_and(|field| field.kind == FieldKind::Hashed);
    match fields.get(place).map(|bounds| bounds.intervals.as_slice()) {
        Some([one]) => !hashed && ValueInterval::is_point(one),
        _ => false,
    }
}

/// Whether the keys hold all requested fields, so that no record is needed. A dotted path is not read from keys: they do not
/// distinguish a missing field from a missing subdocument.
fn covers(index: IndexInfo<'_>, projection: Option<&Projection>) -> bool {
    let Some(paths) = projection.and_then(Projection::included_paths) else { return false };
    let in_keys = |path: &str| {
        !path.contains('.')
            && index.pattern.fields.iter().any(|field| field.path == path && field.kind != FieldKind::Hashed)
    };
    !index.multikey && !index.sparse && paths.into_iter().all(in_keys)
}

/// The most ranges of one plan, unless a single list of points has more; beyond it fewer fields are narrowed.
const MAX_RANGES: usize = 4000;

/// The number of leading fields that can be narrowed together within the limit; at least one.
fn fitting(fields: &[Bounds]) -> usize {
    let mut ranges = 1_usize;
    for (place, bounds) in fields.iter().enumerate() {
        ranges = ranges.saturating_mul(bounds.intervals.len());
        if ranges > MAX_RANGES && place > 0 {
            return place;
        }
    }
    fields.len()
}

/// The ranges, ascending in key order; an empty list if a field has no interval. All but the last field have points only.
fn ranges_of(pattern: &KeyPattern, fields: &[Bounds]) -> Result<Vec<Range>> {
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

/// Appends the ranges of the fields from `place` on, for keys with the given beginning.
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
    let mut add = |interval: &super::interval::ValueInterval| {
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

/// The key at a cut; if the field descends, a cut after a value comes before it.
fn key(beginning: &KeyBuilder, cut: &Cut, descends: bool) -> Result<Vec<u8>> {
    let mut key = beginning.clone();
    key.append(cut.value.as_raw_bson_ref(), descends);
    key.check()?;
    Ok(key.finish(if cut.after == descends { Bound::Before } else { Bound::After }).bytes)
}

/// `Some` if the keys of an index have the order of a sort; then, whether from its end. Without a sort any order will do.
pub(super) fn covers_sort(pattern: &KeyPattern, sort: Option<&Sort>) -> Option<bool> {
    match sort {
        None => Some(false),
        Some(sort) => key_order(pattern, sort, |_| false),
    }
}

/// Compares the order of an index's keys with a sort: `None` if they differ or if that is unsure, in which case the documents
/// are sorted; else whether the index must be walked from its end. `constant` tells for a field of the index whether all
/// keys of the plan have one value there. Only for an index in which each document has one key.
fn key_order(pattern: &KeyPattern, sort: &Sort, constant: impl Fn(usize) -> bool) -> Option<bool> {
    let held = |path: &str| {
        pattern.fields.iter().enumerate().any(|(place, field)| field.path == path && constant(place))
    };
    let mut fields = pattern.fields.iter().enumerate();
    let mut backwards = None;
    for (path, descending) in &sort.fields {
        // A field that is equal in all documents does not change the order.
        if held(path) {
            continue;
        }
        let (_, field) = fields.find(|(place, field)| field.path == *path || !constant(*place))?;
        let index_descends = match field.kind {
            FieldKind::Ascending => false,
            FieldKind::Descending => true,
            FieldKind::Hashed => return None,
        };
        if field.path != *path
            || *backwards.get_or_insert(index_descends != *descending) != (index_descends != *descending)
        {
            return None;
        }
    }
    Some(backwards.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn keys_come_in_order_forwards_or_backwards() {
        let pattern = KeyPattern::parse(&rawdoc! { "a": 1, "b": -1, "c": 1 }).unwrap();
        for (sort, constant, expected) in [
            (vec![("a", false)], 0, Some(false)),
            (vec![("a", true)], 0, Some(true)),
            (vec![("a", false), ("b", true)], 0, Some(false)),
            (vec![("a", true), ("b", false), ("c", true)], 0, Some(true)),
            (vec![("a", false), ("b", false)], 0, None),
            (vec![("b", true)], 0, None),
            (vec![("b", true)], 1, Some(false)),
            (vec![("b", false), ("a", true)], 1, Some(true)),
            (vec![("a", false), ("c", false)], 0, None),
            (vec![("c", true)], 2, Some(true)),
            (vec![("d", false)], 2, None),
            (vec![("c", false), ("d", false)], 2, None),
        ] {
            let sort =
                Sort { fields: sort.into_iter().map(|(path, down)| (path.to_owned(), down)).collect() };
            assert_eq!(key_order(&pattern, &sort, |place| place < constant), expected, "{sort:?} {constant}");
        }
    }
}
