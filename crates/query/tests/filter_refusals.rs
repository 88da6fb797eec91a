//! Tests of refused filters, with MongoDB's codes and words.

use bson::{Bson, Document, RawDocumentBuf, Regex, doc};
use fathom_query::{Code, Filter, Variables};

fn failure(filter: &Document) -> (Code, String) {
    let raw = RawDocumentBuf::try_from(filter).unwrap();
    let variables = Variables::at(bson::DateTime::from_millis(0));
    match Filter::parse(&raw, &variables) {
        Ok(_) => panic!("{filter} was accepted"),
        Err(failure) => (failure.code(), failure.message().to_owned()),
    }
}

fn regex() -> Bson {
    Bson::RegularExpression(Regex {
        pattern: "x".to_owned().try_into().unwrap(),
        options: String::new().try_into().unwrap(),
    })
}

#[test]
fn refusals_have_mongodbs_code_and_words() {
    for (filter, code, words) in [
        (doc! { "$foo": 1 }, Code::BadValue, "unknown top level operator: $foo"),
        (doc! { "a": { "$foo": 1 } }, Code::BadValue, "unknown operator: $foo"),
        (doc! { "$where": "1" }, Code::BadValue, "$where: this server does not have it"),
        (doc! { "$text": { "$search": "x" } }, Code::IndexNotFound, "text index required for $text query"),
        (doc! { "a": { "$near": [1, 2] } }, Code(291), "unable to find index for $geoNear query"),
        (doc! { "a": { "$geoWithin": {} } }, Code::BadValue, "$geoWithin: this server does not have it"),
        (doc! { "a": { "$where": "1" } }, Code::BadValue, "$where cannot be applied to a field"),
        (doc! { "$and": 5 }, Code::BadValue, "$and must be an array"),
        (doc! { "$or": [] }, Code::BadValue, "$and/$or/$nor must be a nonempty array"),
        (doc! { "$nor": [5] }, Code::BadValue, "$or/$and/$nor entries need to be full objects"),
        (doc! { "a": { "$in": 5 } }, Code::BadValue, "$in needs an array"),
        (doc! { "a": { "$nin": 5 } }, Code::BadValue, "$nin needs an array"),
        (doc! { "a": { "$in": [{ "$gt": 1 }] } }, Code::BadValue, "cannot nest $ under $in"),
        (doc! { "a": { "$ne": regex() } }, Code::BadValue, "Can't have regex as arg to $ne."),
        (
            doc! { "a": { "$gt": regex() } },
            Code::BadValue,
            "Can't have RegEx as arg to predicate over field 'a'.",
        ),
        (doc! { "a": Bson::Undefined }, Code::BadValue, "cannot compare to undefined"),
        (doc! { "a": { "$not": 5 } }, Code::BadValue, "$not needs a regex or a document"),
        (doc! { "a": { "$not": {} } }, Code::BadValue, "$not cannot be empty"),
        (doc! { "a": { "$options": "i" } }, Code::BadValue, "$options needs a $regex"),
        (doc! { "a": { "$regex": 5 } }, Code::BadValue, "$regex has to be a string"),
        (doc! { "a": { "$regex": "(" } }, Code(51091), "Regular expression is invalid"),
        (doc! { "a": { "$size": -1 } }, Code::BadValue, "$size may not be negative"),
        (doc! { "a": { "$size": 1.5 } }, Code::BadValue, "$size must be a whole number"),
        (doc! { "a": { "$size": "1" } }, Code::BadValue, "$size needs a number"),
        (doc! { "a": { "$all": 5 } }, Code::BadValue, "$all needs an array"),
        (doc! { "a": { "$all": [{ "$gt": 1 }] } }, Code::BadValue, "no $ expressions in $all"),
        (
            doc! { "a": { "$all": [{ "$elemMatch": {} }, 5] } },
            Code::BadValue,
            "$all/$elemMatch has to be consistent",
        ),
        (doc! { "a": { "$elemMatch": 5 } }, Code::BadValue, "$elemMatch needs an Object"),
        (
            doc! { "a": { "$elemMatch": { "$where": "1" } } },
            Code::BadValue,
            "$elemMatch cannot contain $where expression",
        ),
        (
            doc! { "a": { "$elemMatch": { "$expr": 1 } } },
            Code::BadValue,
            "$expr can only be applied to the top-level document",
        ),
    ] {
        check(&filter, code, words);
    }
}

/// The filter is refused with the code, and with a message that holds the words.
fn check(filter: &Document, code: Code, words: &str) {
    let (got, message) = failure(filter);
    assert_eq!(got, code, "{filter}: {message}");
    assert!(message.contains(words), "{filter}: {message}");
}

#[test]
fn refusals_of_numbers_types_bits_and_schemas() {
    for (filter, code, words) in [
        (doc! { "a": { "$mod": 5 } }, Code::BadValue, "malformed mod, needs to be an array"),
        (doc! { "a": { "$mod": [1] } }, Code::BadValue, "malformed mod, not enough elements"),
        (doc! { "a": { "$mod": [1, 2, 3] } }, Code::BadValue, "malformed mod, too many elements"),
        (doc! { "a": { "$mod": [0, 0] } }, Code::BadValue, "divisor cannot be 0"),
        (doc! { "a": { "$type": "foo" } }, Code::BadValue, "Unknown type name alias: foo"),
        (doc! { "a": { "$type": 99 } }, Code::BadValue, "Invalid numerical type code: 99"),
        (doc! { "a": { "$type": [] } }, Code::FailedToParse, "$type must match at least one type"),
        (
            doc! { "a": { "$bitsAllSet": -1 } },
            Code::FailedToParse,
            "Expected a positive number in: $bitsAllSet: -1",
        ),
        (doc! { "a": { "$bitsAllSet": [-1] } }, Code::BadValue, "bit positions must be >= 0 but got: -1"),
        (doc! { "a": { "$bitsAllSet": "x" } }, Code::BadValue, "takes an Array, a number, or a BinData"),
        (doc! { "$jsonSchema": 5 }, Code::TypeMismatch, "$jsonSchema must be an object"),
        (doc! { "$jsonSchema": { "foo": 1 } }, Code::FailedToParse, "Unknown $jsonSchema keyword: foo"),
        (
            doc! { "$jsonSchema": { "$ref": "x" } },
            Code::FailedToParse,
            "$jsonSchema keyword '$ref' is not currently supported",
        ),
        (
            doc! { "$jsonSchema": { "type": "integer" } },
            Code::FailedToParse,
            "$jsonSchema type 'integer' is not currently supported.",
        ),
        (
            doc! { "$jsonSchema": { "required": [] } },
            Code::FailedToParse,
            "'required' cannot be an empty array",
        ),
        (doc! { "$jsonSchema": { "minItems": -1 } }, Code::FailedToParse, "'minItems'"),
        (doc! { "$alwaysTrue": 2 }, Code::FailedToParse, "$alwaysTrue must be an integer value of 1"),
    ] {
        check(&filter, code, words);
    }
}

#[test]
fn nesting_and_paths_have_limits() {
    let nested = (0..150).fold(doc! { "a": 1 }, |inner, _| doc! { "$and": [inner] });
    assert_eq!(failure(&nested).0, Code::BadValue);
    let nested = (0..150).fold(doc! { "$gt": 1 }, |inner, _| doc! { "$not": inner });
    assert_eq!(failure(&doc! { "a": nested }).0, Code::BadValue);
    assert_eq!(failure(&doc! { vec!["a"; 300].join("."): 1 }).0, Code::Overflow);
}
