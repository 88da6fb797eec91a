//! The order of BSON values across types, as MongoDB compares and sorts them (mongodb/mongo:src/mongo/bson/bsonelement.cpp).
//!
//! The order is the same for raw values, owned values, and one of each. Numbers of all types are compared exactly: a double
//! is not rounded when it is compared with a 64-bit integer. No input is refused: a malformed document ends at the damage,
//! and below [`MAX_DEPTH`] levels values of one class count as equal, so that no input exhausts the stack. Documents that the
//! server stored are neither malformed nor that deep.

use crate::decimal::{Decimal, FiniteDecimal};
use bson::raw::{RawBson, RawBsonRef, RawDocument, RawIter};
use bson::spec::ElementType;
use bson::{Bson, Document, cstr};
use std::cmp::Ordering;

/// How deep documents may be nested (mongodb/mongo:src/mongo/bson/bson_depth.h).
pub(crate) const MAX_DEPTH: u32 = 200;

/// The class that values are first ordered by: MinKey -1, null 5, numbers 10, strings 15, ... MaxKey 127.
pub fn canonical_type(value: RawBsonRef<'_>) -> i8 {
    canonical_type_of(value.element_type())
}

/// As [`canonical_type`], for a type alone.
pub(crate) fn canonical_type_of(kind: ElementType) -> i8 {
    match kind {
        ElementType::MinKey => -1,
        ElementType::Undefined => 0,
        ElementType::Null => 5,
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => 10,
        ElementType::String | ElementType::Symbol => 15,
        ElementType::EmbeddedDocument => 20,
        ElementType::Array => 25,
        ElementType::Binary => 30,
        ElementType::ObjectId => 35,
        ElementType::Boolean => 40,
        ElementType::DateTime => 45,
        ElementType::Timestamp => 47,
        ElementType::RegularExpression => 50,
        ElementType::DbPointer => 55,
        ElementType::JavaScriptCode => 60,
        ElementType::JavaScriptCodeWithScope => 65,
        ElementType::MaxKey => 127,
    }
}

/// Compares two values; numbers by value whatever their type, NaN below all numbers, arrays element by element.
pub fn compare(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    compare_values(Value::Raw(left), Value::Raw(right), 0)
}

/// As [`compare`], for owned values.
pub fn compare_owned(left: &Bson, right: &Bson) -> Ordering {
    compare_values(Value::Owned(left), Value::Owned(right), 0)
}

/// As [`compare`], for a stored value and one of a query.
pub fn compare_mixed(left: RawBsonRef<'_>, right: &Bson) -> Ordering {
    compare_values(Value::Raw(left), Value::Owned(right), 0)
}

/// Compares two documents field by field: type, then name, then value.
pub fn compare_documents(left: &RawDocument, right: &RawDocument) -> Ordering {
    compare_fields(
        ContainerElements::Raw(left.iter_elements()),
        ContainerElements::Raw(right.iter_elements()),
        0,
    )
}

/// A value, raw or owned.
#[derive(Clone, Copy)]
enum Value<'a> {
    Raw(RawBsonRef<'a>),
    Owned(&'a Bson),
}

/// The operands of a comparison: a class of values that have a flat form, or a container.
enum ComparisonOperand<'a> {
    Flat(RawBsonRef<'a>),
    Document(ContainerElements<'a>),
    Array(ContainerElements<'a>),
    Code(&'a str, ContainerElements<'a>),
    DbPointer(Value<'a>),
}

/// The values within a value, in order, with their names; names within an array are empty.
enum ContainerElements<'a> {
    Raw(RawIter<'a>),
    Document(bson::document::Iter<'a>),
    Array(std::slice::Iter<'a, Bson>),
}

impl<'a> Iterator for ContainerElements<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            ContainerElements::Raw(elements) => {
                let element = elements.next()?.ok()?;
                Some((element.key().as_str(), Value::Raw(element.value().ok()?)))
            }
            ContainerElements::Document(fields) => {
                fields.next().map(|(name, value)| (name.as_str(), Value::Owned(value)))
            }
            ContainerElements::Array(values) => values.next().map(|value| ("", Value::Owned(value))),
        }
    }
}

impl<'a> ContainerElements<'a> {
    fn from_document(document: &'a Document) -> Self {
        ContainerElements::Document(document.iter())
    }
}

impl<'a> Value<'a> {
    fn kind(self) -> ElementType {
        match self {
            Value::Raw(value) => value.element_type(),
            Value::Owned(value) => value.element_type(),
        }
    }

    fn shape(self) -> ComparisonOperand<'a> {
        match self {
            Value::Raw(RawBsonRef::Document(document)) => {
                ComparisonOperand::Document(ContainerElements::Raw(document.iter_elements()))
            }
            Value::Raw(RawBsonRef::Array(array)) => {
                ComparisonOperand::Array(ContainerElements::Raw(array.iter_elements()))
            }
            Value::Raw(RawBsonRef::JavaScriptCodeWithScope(code)) => {
                ComparisonOperand::Code(code.code, ContainerElements::Raw(code.scope.iter_elements()))
            }
            Value::Raw(RawBsonRef::DbPointer(_)) | Value::Owned(Bson::DbPointer(_)) => {
                ComparisonOperand::DbPointer(self)
            }
            Value::Raw(value) => ComparisonOperand::Flat(value),
            Value::Owned(Bson::Document(document)) => {
                ComparisonOperand::Document(ContainerElements::from_document(document))
            }
            Value::Owned(Bson::Array(array)) => {
                ComparisonOperand::Array(ContainerElements::Array(array.iter()))
            }
            Value::Owned(Bson::JavaScriptCodeWithScope(code)) => {
                ComparisonOperand::Code(&code.code, ContainerElements::from_document(&code.scope))
            }
            Value::Owned(value) => ComparisonOperand::Flat(flat(value)),
        }
    }
}

/// The raw form of an owned value if it needs no allocation; null otherwise.
pub(crate) fn flat(value: &Bson) -> RawBsonRef<'_> {
    match value {
        Bson::Double(value) => RawBsonRef::Double(*value),
        Bson::String(text) => RawBsonRef::String(text),
        Bson::Boolean(value) => RawBsonRef::Boolean(*value),
        Bson::RegularExpression(regex) => RawBsonRef::RegularExpression(bson::raw::RawRegexRef {
            pattern: &regex.pattern,
            options: &regex.options,
        }),
        Bson::JavaScriptCode(code) => RawBsonRef::JavaScriptCode(code),
        Bson::Int32(value) => RawBsonRef::Int32(*value),
        Bson::Int64(value) => RawBsonRef::Int64(*value),
        Bson::Timestamp(value) => RawBsonRef::Timestamp(*value),
        Bson::Binary(value) => RawBsonRef::Binary(value.as_raw_binary()),
        Bson::ObjectId(value) => RawBsonRef::ObjectId(*value),
        Bson::DateTime(value) => RawBsonRef::DateTime(*value),
        Bson::Symbol(text) => RawBsonRef::Symbol(text),
        Bson::Decimal128(value) => RawBsonRef::Decimal128(*value),
        Bson::Undefined => RawBsonRef::Undefined,
        Bson::MaxKey => RawBsonRef::MaxKey,
        Bson::MinKey => RawBsonRef::MinKey,
        Bson::Null
        | Bson::Array(_)
        | Bson::Document(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::DbPointer(_) => RawBsonRef::Null,
    }
}

fn compare_values(left: Value<'_>, right: Value<'_>, depth: u32) -> Ordering {
    match (left.shape(), right.shape()) {
        (ComparisonOperand::Flat(left), ComparisonOperand::Flat(right)) => compare_flat(left, right),
        (ComparisonOperand::Document(left), ComparisonOperand::Document(right)) => {
            compare_fields(left, right, depth + 1)
        }
        (ComparisonOperand::Array(left), ComparisonOperand::Array(right)) => {
            compare_arrays(left, right, depth + 1)
        }
        (ComparisonOperand::Code(code, scope), ComparisonOperand::Code(other, other_scope)) => {
            code.cmp(other).then_with(|| compare_fields(scope, other_scope, depth + 1))
        }
        (ComparisonOperand::DbPointer(left), ComparisonOperand::DbPointer(right)) => {
            compare_pointers(left, right)
        }
        _ => canonical_type_of(left.kind()).cmp(&canonical_type_of(right.kind())),
    }
}

fn compare_flat(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    use RawBsonRef::{
        Binary, Boolean, DateTime, Int32, Int64, JavaScriptCode, ObjectId, RegularExpression, String, Symbol,
        Timestamp,
    };
    match (left, right) {
        (Int32(left), Int32(right)) => left.cmp(&right),
        (String(left) | Symbol(left), String(right) | Symbol(right)) => left.cmp(right),
        (ObjectId(left), ObjectId(right)) => left.cmp(&right),
        (Int64(left), Int64(right)) => left.cmp(&right),
        (Boolean(left), Boolean(right)) => left.cmp(&right),
        (DateTime(left), DateTime(right)) => left.cmp(&right),
        (Timestamp(left), Timestamp(right)) => left.cmp(&right),
        (Binary(left), Binary(right)) => {
            let by_length = left.bytes.len().cmp(&right.bytes.len());
            by_length
                .then_with(|| u8::from(left.subtype).cmp(&u8::from(right.subtype)))
                .then_with(|| left.bytes.cmp(right.bytes))
        }
        (RegularExpression(left), RegularExpression(right)) => {
            left.pattern.cmp(right.pattern).then_with(|| left.options.cmp(right.options))
        }
        (JavaScriptCode(left), JavaScriptCode(right)) => left.cmp(right),
        _ => match (Number::from_value(left), Number::from_value(right)) {
            (Some(left), Some(right)) => left.compare(right),
            // Equal classes here are only those with a single value: MinKey, undefined, null, MaxKey.
            _ => canonical_type(left).cmp(&canonical_type(right)),
        },
    }
}

fn compare_fields(mut left: ContainerElements<'_>, mut right: ContainerElements<'_>, depth: u32) -> Ordering {
    if depth > MAX_DEPTH {
        return Ordering::Equal;
    }
    loop {
        let ((left_name, left), (right_name, right)) = match (left.next(), right.next()) {
            (Some(left), Some(right)) => (left, right),
            (left, right) => return left.is_some().cmp(&right.is_some()),
        };
        let order = canonical_type_of(left.kind())
            .cmp(&canonical_type_of(right.kind()))
            .then_with(|| left_name.cmp(right_name))
            .then_with(|| compare_values(left, right, depth));
        if order.is_ne() {
            return order;
        }
    }
}

fn compare_arrays(mut left: ContainerElements<'_>, mut right: ContainerElements<'_>, depth: u32) -> Ordering {
    if depth > MAX_DEPTH {
        return Ordering::Equal;
    }
    loop {
        let ((_, left), (_, right)) = match (left.next(), right.next()) {
            (Some(left), Some(right)) => (left, right),
            (left, right) => return left.is_some().cmp(&right.is_some()),
        };
        let order = compare_values(left, right, depth);
        if order.is_ne() {
            return order;
        }
    }
}

/// Compares by the length of the namespace, then the namespace, then the id.
fn compare_pointers(left: Value<'_>, right: Value<'_>) -> Ordering {
    let (left, right) = (pointer_bytes(left), pointer_bytes(right));
    left.len().cmp(&right.len()).then_with(|| left.cmp(&right))
}

fn pointer_bytes(pointer: Value<'_>) -> Vec<u8> {
    match pointer {
        Value::Raw(value) => db_pointer_bytes(value),
        Value::Owned(Bson::DbPointer(value)) => {
            db_pointer_bytes(RawBson::DbPointer(value.clone()).as_raw_bson_ref())
        }
        Value::Owned(_) => Vec::new(),
    }
}

/// The namespace of a DBPointer, followed by its 12-byte id. The library keeps these fields private, so they are read
/// from a document around the value; no driver writes this type any more.
pub(crate) fn db_pointer_bytes(pointer: RawBsonRef<'_>) -> Vec<u8> {
    let mut document = bson::RawDocumentBuf::new();
    document.append(cstr!("p"), pointer);
    // Around the value: document length, type, "p\0" before, and the end marker after; within it: length, text, NUL, id.
    let bytes = document.into_bytes();
    let value = bytes.get(11..bytes.len().saturating_sub(1)).unwrap_or_default();
    let Some((text, id)) = value.split_last_chunk::<12>() else { return Vec::new() };
    let mut joined = text.split_last().map_or(&[][..], |(_, name)| name).to_vec();
    joined.extend_from_slice(id);
    joined
}

/// A number of any type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// Of 32 or 64 bits.
    Integer(i64),
    Double(f64),
    Decimal(bson::Decimal128),
}

impl Number {
    /// The number of a value; `None` for other types.
    pub(crate) fn from_value(value: RawBsonRef<'_>) -> Option<Number> {
        match value {
            RawBsonRef::Int32(value) => Some(Number::Integer(i64::from(value))),
            RawBsonRef::Int64(value) => Some(Number::Integer(value)),
            RawBsonRef::Double(value) => Some(Number::Double(value)),
            RawBsonRef::Decimal128(value) => Some(Number::Decimal(value)),
            _ => None,
        }
    }

    pub(crate) fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Integer(left), Number::Integer(right)) => left.cmp(&right),
            (Number::Double(left), Number::Double(right)) => compare_doubles(left, right),
            (Number::Integer(left), Number::Double(right)) => compare_integer(left, right),
            (Number::Double(left), Number::Integer(right)) => compare_integer(right, left).reverse(),
            (Number::Decimal(left), Number::Decimal(right)) => {
                Decimal::from_value(left).compare(Decimal::from_value(right))
            }
            (Number::Decimal(left), Number::Double(right)) => Decimal::from_value(left).compare_double(right),
            (Number::Double(left), Number::Decimal(right)) => {
                Decimal::from_value(right).compare_double(left).reverse()
            }
            (Number::Decimal(left), Number::Integer(right)) => {
                Decimal::from_value(left).compare(Decimal::Finite(FiniteDecimal::from_integer(right)))
            }
            (Number::Integer(left), Number::Decimal(right)) => {
                Decimal::Finite(FiniteDecimal::from_integer(left)).compare(Decimal::from_value(right))
            }
        }
    }
}

/// NaN is the least and equals itself; -0 equals 0.
fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// Compares exactly, even if a double cannot hold the integer.
fn compare_integer(left: i64, right: f64) -> Ordering {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if right.is_nan() || right < -TWO_TO_63 {
        Ordering::Greater
    } else if right >= TWO_TO_63 {
        Ordering::Less
    } else {
        let whole = right.trunc();
        left.cmp(&(whole as i64)).then_with(|| compare_doubles(0.0, right - whole))
    }
}

#[cfg(test)]
#[path = "order_samples.rs"]
pub(crate) mod samples;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::samples::ladder;
    use bson::doc;

    fn raw(value: &Bson) -> RawBson {
        RawBson::try_from(value.clone()).unwrap()
    }

    /// Compares in all four ways and requires one answer.
    fn order(left: &Bson, right: &Bson) -> Ordering {
        let (raw_left, raw_right) = (raw(left), raw(right));
        let order = compare_owned(left, right);
        assert_eq!(
            order,
            compare(raw_left.as_raw_bson_ref(), raw_right.as_raw_bson_ref()),
            "{left} beside {right}, raw"
        );
        assert_eq!(order, compare_mixed(raw_left.as_raw_bson_ref(), right), "{left} beside {right}, mixed");
        order
    }

    #[test]
    fn the_ladder_is_strictly_ordered() {
        let ladder = ladder();
        for (place, left) in ladder.iter().enumerate() {
            for (other, right) in ladder.iter().enumerate() {
                assert_eq!(order(left, right), place.cmp(&other), "{left:?} beside {right:?}");
            }
        }
    }

    #[test]
    fn numbers_are_equal_across_types() {
        let ones = [
            Bson::Int32(1),
            Bson::Int64(1),
            Bson::Double(1.0),
            Bson::Decimal128("1".parse().unwrap()),
            Bson::Decimal128("1.000".parse().unwrap()),
        ];
        let zeros = [Bson::Int32(0), Bson::Double(-0.0), Bson::Decimal128("-0E+3".parse().unwrap())];
        for same in [&ones[..], &zeros[..]] {
            for left in same {
                for right in same {
                    assert_eq!(order(left, right), Ordering::Equal);
                }
            }
        }
        assert_eq!(order(&Bson::Int64(i64::MAX), &Bson::Double(i64::MAX as f64)), Ordering::Less);
        assert_eq!(order(&Bson::Int64(i64::MIN), &Bson::Double(i64::MIN as f64)), Ordering::Equal);
        assert_eq!(order(&Bson::Int32(-1), &Bson::Double(-1.5)), Ordering::Greater);
        assert_eq!(
            order(&Bson::Double(f64::NAN), &Bson::Decimal128("NaN".parse().unwrap())),
            Ordering::Equal
        );
    }

    #[test]
    fn documents_compare_by_type_then_name_then_value() {
        let cases = [
            (doc! { "b": 1 }, doc! { "a": "" }, Ordering::Less),
            (doc! { "a": 2 }, doc! { "b": 1 }, Ordering::Less),
            (doc! { "a": 1 }, doc! { "a": 1.0 }, Ordering::Equal),
            (doc! { "a": 1, "b": 1 }, doc! { "a": 1 }, Ordering::Greater),
        ];
        for (left, right, expected) in cases {
            let (left, right) = (
                bson::RawDocumentBuf::try_from(left).unwrap(),
                bson::RawDocumentBuf::try_from(right).unwrap(),
            );
            assert_eq!(compare_documents(&left, &right), expected);
            assert_eq!(compare_documents(&right, &left), expected.reverse());
        }
    }

    #[test]
    fn nothing_nests_deep_enough_to_exhaust_the_stack() {
        let mut bytes = vec![5, 0, 0, 0, 0];
        for _ in 0..100_000 {
            let mut outer = ((bytes.len() + 8) as i32).to_le_bytes().to_vec();
            if bytes.len() > 60_000 {
                break;
            }
            outer.extend([3, b'a', 0]);
            outer.extend(&bytes);
            outer.push(0);
            bytes = outer;
        }
        let document = RawDocument::from_bytes(&bytes).unwrap();
        assert_eq!(compare_documents(document, document), Ordering::Equal);
    }

    #[test]
    fn integers_beside_doubles_are_not_rounded() {
        let two_to_53 = 9_007_199_254_740_992.0;
        assert_eq!(compare_integer(9_007_199_254_740_993, two_to_53), Ordering::Greater);
        assert_eq!(compare_integer(i64::MAX, i64::MAX as f64), Ordering::Less);
        assert_eq!(compare_integer(i64::MIN, i64::MIN as f64), Ordering::Equal);
        assert_eq!(compare_integer(-1, -1.5), Ordering::Greater);
        assert_eq!(compare_integer(1, 1.5), Ordering::Less);
        assert_eq!(compare_integer(i64::MIN, f64::NAN), Ordering::Greater);
        assert_eq!(compare_integer(i64::MIN, f64::NEG_INFINITY), Ordering::Greater);
        assert_eq!(compare_integer(i64::MAX, f64::INFINITY), Ordering::Less);
    }
}
