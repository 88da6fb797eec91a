//! Extracts the predicates of a filter on single fields: from the parts of the conjunction and from within `$elemMatch`.

use std::borrow::Cow;

use super::bounds::{self, Bounds};
use crate::FieldKind;
use crate::filter::path::has_index;
use crate::filter::tree::{ComparisonOperator, Field, FilterNode, Test};

/// One predicate on one field.
#[derive(Clone, Debug)]
pub(super) struct Predicate<'f> {
    /// The whole dotted path.
    pub(super) path: Cow<'f, str>,
    /// The test of its values.
    pub(super) test: &'f Test,
    /// Whether the test must fail.
    pub(super) denied: bool,
    /// The `$elemMatch` that it is in, if any.
    pub(super) group: Option<Group>,
    /// Its place in the conjunction.
    pub(super) origin: usize,
}

/// An `$elemMatch` of documents: all its predicates apply to the same element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// A number that no other predicate of the filter has.
    pub(super) number: usize,
    /// The number of components of the path to the array.
    pub(super) components: usize,
}

/// The parts of a conjunction.
pub(super) fn conjunction(root: &FilterNode) -> &[FilterNode] {
    match root {
        FilterNode::And(nodes) => nodes,
        other => std::slice::from_ref(other),
    }
}

/// Appends the predicates of a conjunction, whose parts are counted from `first`.
pub(super) fn collect<'f>(root: &'f FilterNode, first: usize, out: &mut Vec<Predicate<'f>>) {
    for (place, node) in conjunction(root).iter().enumerate() {
        add(node, None, "", first + place, out);
    }
}

fn add<'f>(
    node: &'f FilterNode,
    group: Option<Group>,
    above: &str,
    origin: usize,
    out: &mut Vec<Predicate<'f>>,
) {
    let (field, denied) = match node {
        FilterNode::Field(field) => (field, false),
        FilterNode::Not(inner) => match inner.as_ref() {
            FilterNode::Field(field) => (field, true),
            _ => return,
        },
        _ => return,
    };
    let Field { path, test } = field;
    // Within an array a component of digits could also name an element of an array in it.
    if group.is_some() && has_index(path) {
        return;
    }
    let path = match above {
        "" => Cow::Borrowed(path.as_ref()),
        above => Cow::Owned(format!("{above}.{path}")),
    };
    if let (Test::ElementObject(inner), false) = (test, denied) {
        let group = Group { number: out.len() + origin, components: path.split('.').count() };
        for node in conjunction(inner) {
            add(node, Some(group), &path, origin, out);
        }
    }
    out.push(Predicate { path, test, denied, group, origin });
}

impl Predicate<'_> {
    /// The keys that it allows; `single` if every document has one key in the index, and no array index is in the path.
    pub(super) fn bounds(&self, kind: FieldKind, single: bool) -> Option<Bounds> {
        match (kind, self.denied) {
            (FieldKind::Hashed, false) => bounds::hashed(self.test),
            (FieldKind::Hashed, true) => None,
            // The component of digits names a position, whose value is the key, and a field of the same name in the documents of
            // the array: one that lacks the field matches null, and no key says so.
            (_, false) if has_index(&self.path) && self.names_null() => None,
            (_, false) => bounds::from_test(self.test),
            // Through its position the filter sees an element of an array as a whole, while the index has its content.
            (_, true) if has_index(&self.path) => None,
            (_, true) => bounds::denied(self.test, single),
        }
    }

    /// Whether a document must have the field to satisfy it, so that a sparse index has a key for each matching document.
    pub(super) fn needs_field(&self) -> bool {
        if let (Test::Compare(ComparisonOperator::Equal, _), true) = (self.test, self.denied) {
            // A path through an array may find no value in it, and so no null.
            return self.names_null() && !self.path.contains('.');
        }
        // An array within the array has no fields, and passes what asks of none; but then the outer field is there.
        !self.names_null() && !self.denied
    }

    /// Whether null is among the values of the test, so that a missing field matches it.
    fn names_null(&self) -> bool {
        match self.test {
            Test::Compare(_, constant) => matches!(constant, bson::RawBson::Null),
            Test::Member(list) => list.null,
            _ => false,
        }
    }
}

/// How many leading components two paths share.
pub(super) fn shared_components(left: &str, right: &str) -> usize {
    left.split('.').zip(right.split('.')).take_while(|(one, other)| one == other).count()
}

/// Whether two predicates can bind one key of an index in which documents have several keys: their fields are in different
/// arrays, or one `$elemMatch` applies them to the same element.
pub(super) fn on_one_key(left: &Predicate<'_>, right: &Predicate<'_>) -> bool {
    let shared = shared_components(&left.path, &right.path);
    shared == 0 || (left.group.is_some_and(|group| left.group == right.group && shared <= group.components))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_components_are_whole_names() {
        assert_eq!(shared_components("a.b", "a.c"), 1);
        assert_eq!(shared_components("ab", "a"), 0);
        assert_eq!(shared_components("a.b.c", "a.b"), 2);
    }
}
