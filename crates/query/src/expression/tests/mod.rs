//! Tests of every operator on examples with documented results, and of refusals with their codes.

mod arrays;
mod conditions;
mod dates;
mod every;
mod limits;
mod numbers;
mod paths;
mod refusals;
mod strings;
mod types;

use bson::{Bson, DateTime, RawBson, RawDocumentBuf, bson, doc};

use crate::{Expression, Result, Variables};

/// 2017-06-19T15:13:25.713Z, which is a Monday.
pub(super) const MOMENT: i64 = 1_497_885_205_713;

fn document() -> RawDocumentBuf {
    let document = doc! {
        "one": 1,
        "long": 5_i64,
        "half": 0.5,
        "text": "Hello",
        "null": null,
        "yes": true,
        "date": DateTime::from_millis(MOMENT),
        "numbers": [3, 1, 2],
        "deep": { "a": { "b": 7 }, "list": [{ "x": 1 }, { "x": 2 }, 5, { "y": 3 }, [{ "x": 9 }]] },
        "decimal": decimal("2.5"),
    };
    RawDocumentBuf::try_from(&document).unwrap()
}

pub(super) fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

/// The value of an expression for the document; `None` if it is missing.
pub(super) fn value(expression: &Bson) -> Result<Option<Bson>> {
    let mut variables = Variables::at(DateTime::from_millis(MOMENT));
    variables.insert("given", 42);
    let raw = RawBson::try_from(expression.clone()).unwrap();
    Expression::parse_with(raw.as_raw_bson_ref(), &variables)?.evaluate(&document(), &variables)
}

/// Checks expressions against the values that they must yield, types included.
pub(super) fn check(table: &[(Bson, Bson)]) {
    for (expression, expected) in table {
        match value(expression) {
            Ok(Some(found)) => {
                let same = found == *expected
                    || matches!((&found, expected), (Bson::Double(a), Bson::Double(b)) if a.is_nan() && b.is_nan());
                assert!(same, "{expression} is {found:?}, not {expected:?}");
            }
            other => panic!("{expression} is {other:?}, not {expected:?}"),
        }
    }
}

/// Checks expressions against the codes that they must fail with.
pub(super) fn check_codes(table: &[(Bson, i32)]) {
    for (expression, code) in table {
        match value(expression) {
            Err(failure) => assert_eq!(failure.code().0, *code, "{expression}: {failure}"),
            Ok(found) => panic!("{expression} is {found:?}, not a failure with code {code}"),
        }
    }
}

#[test]
fn messages_are_those_of_mongodb() {
    for (expression, expected) in [
        (bson!({ "$foo": 1 }), "Unrecognized expression '$foo'"),
        (bson!({ "$cmp": [1] }), "Expression $cmp takes exactly 2 arguments. 1 were passed in."),
        (bson!({ "$add": ["x"] }), "$add only supports numeric or date types, not string"),
        (bson!("$$nobody"), "Use of undefined variable: nobody"),
        (bson!({ "$size": "$one" }), "The argument to $size must be an array, but was of type: int"),
        (
            bson!({ "$toInt": "x1" }),
            "Failed to parse number 'x1' in $convert with no onError value: Did not consume whole string.",
        ),
        (
            bson!({ "$toDate": true }),
            "Unsupported conversion from bool to date in $convert with no onError value",
        ),
    ] {
        assert_eq!(value(&expression).unwrap_err().message(), expected);
    }
}
