//! One index as an answer to a query: how far its fields are narrowed, what order and what documents it yields.

use std::cmp::Reverse;

use super::bounds::Bounds;
use super::interval::Interval;
use super::predicates::{Predicate, on_one_key};
use super::{Access, IndexInfo, Plan, ranges, shown, sorting};
use crate::filter::path::has_index;
use crate::{FieldKind, Projection, Result, Sort};

/// What is asked, beside the filter's statements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    /// The statements of the filter about single fields.
    pub(super) predicates: &'a [Predicate<'a>],
    /// How many parts the filter's conjunction has.
    pub(super) parts: usize,
    /// The order asked for.
    pub(super) sort: Option<&'a Sort>,
    /// The fields asked for.
    pub(super) projection: Option<&'a Projection>,
}

/// An index with what it makes of a question.
#[derive(Clone, Debug)]
pub(super) struct Candidate<'a> {
    /// Its place in the list.
    pub(super) place: usize,
    index: IndexInfo<'a>,
    /// Of the leading fields; as many as ranges of keys can express.
    fields: Vec<Bounds>,
    /// Whether the bounds say all of the filter.
    exact: bool,
    /// Whether it yields the order asked for; then, whether from its end.
    order: Option<bool>,
    covered: bool,
}

/// How good a candidate is; the greatest is taken. See the module's head for the why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Merit {
    unique: bool,
    equal_fields: usize,
    single_points: usize,
    narrowed: bool,
    sorted: bool,
    narrowness: u8,
    /// A partial index holds no more than a whole one would.
    partial: bool,
    covered: bool,
    fields: Reverse<usize>,
    place: Reverse<usize>,
}

impl<'a> Candidate<'a> {
    /// What an index makes of a question. `unrestricted` leaves its keys unnarrowed, for an index that is only walked because a
    /// hint says so.
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
            Some(sort) => sorting::order(index.pattern, sort, constant),
        };
        let covered = exact && order.is_some() && covers(index, question.projection);
        Candidate { place, index, fields, exact, order, covered }
    }

    /// Whether the index narrows anything or spares a sort, so that it is worth more than all records.
    pub(super) fn is_useful(&self, sort: Option<&Sort>) -> bool {
        !self.fields.is_empty() || (sort.is_some() && self.order.is_some())
    }

    /// Whether it narrows anything.
    pub(super) fn is_narrowed(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Its rank.
    pub(super) fn merit(&self) -> Merit {
        let equal = self.fields.iter().take_while(|bounds| bounds.are_points());
        let equal_fields = equal.clone().count();
        let single_points = equal.take_while(|bounds| bounds.intervals.len() <= 1).count();
        let narrowness = self.fields.get(equal_fields).map_or(0, |bounds| bounds.narrowness);
        let whole = single_points == self.index.pattern.fields.len();
        Merit {
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

    /// The plan.
    pub(super) fn plan(&self) -> Result<Plan> {
        let ranges = ranges::of(self.index.pattern, &self.fields)?;
        if ranges.is_empty() {
            return Ok(Plan { access: Access::Nothing, filter: false, sorted: true, covered: false });
        }
        let backwards = self.order.unwrap_or(false);
        Ok(Plan {
            access: Access::Index {
                index: self.place,
                ranges,
                backwards,
                bounds: shown::bounds(self.index.pattern, &self.fields, backwards),
            },
            filter: !self.exact,
            sorted: self.order.is_some(),
            covered: self.covered,
        })
    }
}

/// The bounds of the leading fields, up to the first that is not held to points, and whether they say all of the filter.
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
            // Several keys of a document may satisfy one statement each, so that one statement has to do.
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
    let fits = ranges::fitting(&fields);
    let cut = fits < fields.len();
    fields.truncate(fits);
    // A part that is more than one statement (an `$elemMatch`) is never said; two statements of one part do not occur else.
    said.sort_unstable();
    said.dedup();
    let exact = !cut && said.len() == question.parts;
    (fields, exact)
}

/// How well bounds narrow: points before intervals, fewer before more.
fn rank(bounds: &Bounds) -> (bool, u8, Reverse<usize>) {
    (bounds.are_points(), bounds.narrowness, Reverse(bounds.intervals.len()))
}

/// Whether all keys of the plan have the same value in a field.
fn is_constant(index: IndexInfo<'_>, fields: &[Bounds], place: usize) -> bool {
    // One hash may be that of several values.
    let hashed = index.pattern.fields.get(place).is_some_and(|field| field.kind == FieldKind::Hashed);
    match fields.get(place).map(|bounds| bounds.intervals.as_slice()) {
        Some([one]) => !hashed && Interval::is_point(one),
        _ => false,
    }
}

/// Whether the keys hold all fields asked for, so that no record is needed. A dotted path is not read out of keys: they do not
/// tell a field that is missing from one whose document is.
fn covers(index: IndexInfo<'_>, projection: Option<&Projection>) -> bool {
    let Some(paths) = projection.and_then(Projection::included_paths) else { return false };
    let in_keys = |path: &str| {
        !path.contains('.')
            && index.pattern.fields.iter().any(|field| field.path == path && field.kind != FieldKind::Hashed)
    };
    !index.multikey && !index.sparse && paths.into_iter().all(in_keys)
}
