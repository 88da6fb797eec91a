//! Whether every document that one filter matches is matched by another: what lets a query use a partial index. May say no
//! where the answer is yes, never the other way (after mongodb/mongo:src/mongo/db/matcher/expression_algo.cpp).

use bson::{RawBson, RawBsonRef};

use super::predicates::conjunction;
use crate::filter::numbers::is_nan;
use crate::filter::tree::{Comparison, Field, Node, Test};
use crate::{canonical_type, compare};

/// Whether `narrow` matches nothing that `wide` does not.
pub(super) fn is_subset(narrow: &Node, wide: &Node) -> bool {
    match wide {
        Node::And(parts) => parts.iter().all(|part| is_subset(narrow, part)),
        Node::Always(true) => true,
        Node::Or(branches) if branches.iter().any(|branch| is_subset(narrow, branch)) => true,
        _ => match narrow {
            Node::Or(branches) => branches.iter().all(|branch| is_subset(branch, wide)),
            Node::And(parts) => parts.iter().any(|part| is_subset(part, wide)),
            Node::Always(false) => true,
            part => leaf_is_subset(part, wide),
        },
    }
}

fn leaf_is_subset(narrow: &Node, wide: &Node) -> bool {
    let Node::Field(wide) = wide else { return false };
    match narrow {
        Node::Field(narrow) if narrow.path == wide.path => test_is_subset(&narrow.test, &wide.test),
        Node::Not(inner) => match conjunction(inner) {
            [Node::Field(Field { path, test })] => {
                // What is not null is there; where an array is on the way there may be nothing that could be null.
                *path == wide.path
                    && !path.contains('.')
                    && matches!(wide.test, Test::Exists)
                    && takes_null(test)
            }
            _ => false,
        },
        _ => false,
    }
}

fn takes_null(test: &Test) -> bool {
    match test {
        Test::Compare(Comparison::Equal, constant) => matches!(constant, RawBson::Null),
        Test::Member(list) => list.null,
        _ => false,
    }
}

fn test_is_subset(narrow: &Test, wide: &Test) -> bool {
    match (narrow, wide) {
        (Test::Compare(_, constant), Test::Exists) => !matches!(constant, RawBson::Null),
        (Test::Member(list), Test::Exists) => !list.null,
        (_, Test::Exists) => true,
        (Test::Type(narrow), Test::Type(wide)) => narrow.is_within(*wide),
        (Test::Compare(Comparison::Equal, constant), Test::Type(types)) => {
            // Numbers of all types are equal, and null is equal to nothing.
            let kind = constant.as_raw_bson_ref();
            matches!(kind, RawBsonRef::ObjectId(_) | RawBsonRef::Boolean(_) | RawBsonRef::DateTime(_))
                && types.has(kind)
        }
        (Test::Member(list), _) => {
            list.patterns.is_empty()
                && list
                    .values
                    .iter()
                    .all(|value| test_is_subset(&Test::Compare(Comparison::Equal, value.clone()), wide))
        }
        (Test::Compare(Comparison::Equal, constant), Test::Member(list)) => {
            let constant = constant.as_raw_bson_ref();
            list.values.iter().any(|value| compare(value.as_raw_bson_ref(), constant).is_eq())
        }
        (Test::Compare(narrow, left), Test::Compare(wide, right)) => {
            comparison_is_subset(*narrow, left.as_raw_bson_ref(), *wide, right.as_raw_bson_ref())
        }
        (Test::Regex(narrow), Test::Regex(wide)) => narrow == wide,
        (Test::Size(narrow), Test::Size(wide)) => narrow == wide,
        _ => false,
    }
}

fn comparison_is_subset(
    narrow: Comparison,
    left: RawBsonRef<'_>,
    wide: Comparison,
    right: RawBsonRef<'_>,
) -> bool {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    if canonical_type(left) != canonical_type(right) {
        return false;
    }
    if is_nan(left) || is_nan(right) {
        let meet = |comparison| !matches!(comparison, Less | Greater);
        return is_nan(left) && is_nan(right) && meet(narrow) && meet(wide);
    }
    let order = compare(left, right);
    if narrow == wide && order.is_eq() {
        return true;
    }
    match (narrow, wide) {
        (Less | LessOrEqual | Equal, LessOrEqual) | (Less, Less) => order.is_le(),
        (LessOrEqual | Equal, Less) => order.is_lt(),
        (Greater | GreaterOrEqual | Equal, GreaterOrEqual) | (Greater, Greater) => order.is_ge(),
        (GreaterOrEqual | Equal, Greater) => order.is_gt(),
        _ => false,
    }
}
