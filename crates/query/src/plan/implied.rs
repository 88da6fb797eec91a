//! Decides whether a filter matches every document that another filter matches, so that a query may use a partial index. It may
//! wrongly say no, but never wrongly yes (after mongodb/mongo:src/mongo/db/matcher/expression_algo.cpp).

use bson::{RawBson, RawBsonRef};

use super::predicates::conjunction;
use crate::filter::numbers::is_nan;
use crate::filter::tree::{ComparisonOperator, Field, FilterNode, Test};
use crate::{canonical_type, compare};

/// Whether `narrow` matches nothing that `wide` does not.
pub(super) fn is_subset(narrow: &FilterNode, wide: &FilterNode) -> bool {
    match wide {
        FilterNode::And(parts) => parts.iter().all(|part| is_subset(narrow, part)),
        FilterNode::Always(true) => true,
        FilterNode::Or(branches) if branches.iter().any(|branch| is_subset(narrow, branch)) => true,
        _ => match narrow {
            FilterNode::Or(branches) => branches.iter().all(|branch| is_subset(branch, wide)),
            FilterNode::And(parts) => parts.iter().any(|part| is_subset(part, wide)),
            FilterNode::Always(false) => true,
            part => leaf_is_subset(part, wide),
        },
    }
}

fn leaf_is_subset(narrow: &FilterNode, wide: &FilterNode) -> bool {
    let FilterNode::Field(wide) = wide else { return false };
    match narrow {
        FilterNode::Field(narrow) if narrow.path == wide.path => test_is_subset(&narrow.test, &wide.test),
        FilterNode::Not(inner) => match conjunction(inner) {
            [FilterNode::Field(Field { path, test })] => {
                // A value that is not null exists; with an array on the path there may be no value that could be null.
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
        Test::Compare(ComparisonOperator::Equal, constant) => matches!(constant, RawBson::Null),
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
        (Test::Compare(ComparisonOperator::Equal, constant), Test::Type(types)) => {
            // Numbers of all types are equal, and null is equal to nothing.
            let kind = constant.as_raw_bson_ref();
            matches!(kind, RawBsonRef::ObjectId(_) | RawBsonRef::Boolean(_) | RawBsonRef::DateTime(_))
                && types.has(kind)
        }
        (Test::Member(list), _) => {
            list.patterns.is_empty()
                && list.values.iter().all(|value| {
                    test_is_subset(&Test::Compare(ComparisonOperator::Equal, value.clone()), wide)
                })
        }
        (Test::Compare(ComparisonOperator::Equal, constant), Test::Member(list)) => {
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
    narrow: ComparisonOperator,
    left: RawBsonRef<'_>,
    wide: ComparisonOperator,
    right: RawBsonRef<'_>,
) -> bool {
    use ComparisonOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
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
