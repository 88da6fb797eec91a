//! Computes the keys of a field that can pass one test: at least these keys, and no others if `exact` is set.
//!
//! Comparisons are bounded by the least and the greatest value of their type, and a regular expression by two strings if
//! all its matches begin with the same text.

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, DateTime, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, RawRegexRef, Timestamp};

use super::interval::{Cut, Intervals, ValueInterval, complement, intersection, union};
use crate::filter::numbers::is_nan;
use crate::filter::pattern::RegexPattern;
use crate::filter::tree::{ComparisonOperator, Field, FilterNode, InList, Test};
use crate::hash64;

/// The keys of a field that can pass a test.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The keys that can pass.
    pub(super) intervals: Intervals,
    /// Whether a document without an array there passes exactly when its key is among them.
    pub(super) exact: bool,
    /// The narrowing, as far as it is known without data: 0 none, 1 to a type or by a denial, 2 on one side, 3
    /// on both. Points count separately.
    pub(super) narrowness: u8,
}

impl Bounds {
    fn new(intervals: Vec<ValueInterval>, exact: bool, narrowness: u8) -> Bounds {
        Bounds { intervals: union(intervals), exact, narrowness }
    }

    /// The bounds of both tests together.
    pub(super) fn and(&self, other: &Bounds) -> Bounds {
        Bounds {
            intervals: intersection(&self.intervals, &other.intervals),
            exact: self.exact && other.exact,
            narrowness: (self.narrowness + other.narrowness).min(3),
        }
    }

    /// Whether all of them are points.
    pub(super) fn are_points(&self) -> bool {
        self.intervals.iter().all(ValueInterval::is_point)
    }
}

/// The keys of documents that can pass; `None` if the test does not limit keys.
pub(super) fn from_test(test: &Test) -> Option<Bounds> {
    match test {
        Test::Compare(ComparisonOperator::Equal, constant) => {
            Some(Bounds::new(equal(constant), is_plain(constant), 3))
        }
        Test::Compare(comparison, constant) => range(*comparison, constant),
        Test::Member(list) => Some(member(list)),
        Test::Exists => Some(Bounds::new(vec![ValueInterval::all()], false, 0)),
        Test::Type(types) => {
            use bson::spec::ElementType::{Array, Decimal128, Double, Undefined};
            // The index has the elements of arrays.
            if types.has_type(Array) || types.has_type(Undefined) {
                return Some(Bounds::new(vec![ValueInterval::all()], false, 0));
            }
            let mut intervals: Vec<ValueInterval> = types.kinds().map(bracket_of).collect();
            if types.has_type(Double) || types.has_type(Decimal128) {
                intervals.push(ValueInterval::point(RawBson::Double(f64::NAN)));
            }
            Some(Bounds::new(intervals, false, 1))
        }
        Test::Regex(pattern) => {
            let mut intervals = Vec::new();
            let narrowness = matching(pattern, &mut intervals);
            Some(Bounds::new(intervals, false, narrowness))
        }
        Test::Modulo { .. } => Some(Bounds::new(vec![bracket_of(bson::spec::ElementType::Double)], false, 1)),
        Test::ElementValue(nodes) => Some(elements(nodes)),
        Test::Size(_) | Test::Bits(_) | Test::ElementObject(_) => None,
    }
}

/// The keys of documents that can fail the test; only for tests whose keys are known exactly. With `single` every document has
/// one key there, so that its key alone decides.
pub(super) fn denied(test: &Test, single: bool) -> Option<Bounds> {
    match test {
        Test::Exists => {
            let missing = [RawBson::Undefined, RawBson::Null];
            Some(Bounds::new(missing.map(ValueInterval::point).into(), false, 2))
        }
        Test::Compare(ComparisonOperator::Equal, RawBson::Null) if single => {
            // An empty array is not null, and its key may be undefined.
            let intervals = complement(&[ValueInterval::point(RawBson::Null)]);
            Some(Bounds { intervals, exact: false, narrowness: 1 })
        }
        Test::Compare(_, constant) if is_plain(constant) => from_test(test).filter(|bounds| bounds.exact),
        Test::Member(list) if list.patterns.is_empty() && list.values.iter().all(is_plain) => from_test(test),
        _ => None,
    }
    .map(|bounds| match test {
        Test::Compare(ComparisonOperator::Equal, RawBson::Null) | Test::Exists => bounds,
        _ => {
            Bounds { intervals: complement(&bounds.intervals), exact: single && bounds.exact, narrowness: 1 }
        }
    })
}

/// The hashes of the values that can pass; only for equality.
pub(super) fn hashed(test: &Test) -> Option<Bounds> {
    let points = match test {
        Test::Compare(ComparisonOperator::Equal, constant) => equal(constant),
        Test::Member(list) if list.patterns.is_empty() => member(list).intervals,
        _ => return None,
    };
    let hashes = points
        .iter()
        .map(|point| ValueInterval::point(RawBson::Int64(hash64(point.low.value.as_raw_bson_ref()))))
        .collect();
    Some(Bounds::new(hashes, false, 3))
}

/// Whether only a key equal to the constant means a value equal to it.
fn is_plain(constant: &RawBson) -> bool {
    bracket_is_exact(constant.as_raw_bson_ref().element_type())
}

fn equal(constant: &RawBson) -> Vec<ValueInterval> {
    match constant {
        // A missing field is in the index as null.
        RawBson::Null => [RawBson::Undefined, RawBson::Null].map(ValueInterval::point).into(),
        RawBson::Array(array) => {
            // The index has the elements of an array, undefined for an empty one, and whole arrays only from within another array.
            let first = array.into_iter().next().and_then(Result::ok).map_or(RawBson::Undefined, Into::into);
            vec![ValueInterval::point(constant.clone()), ValueInterval::point(first)]
        }
        other => vec![ValueInterval::point(other.clone())],
    }
}

fn member(list: &InList) -> Bounds {
    let mut intervals: Vec<ValueInterval> = Vec::with_capacity(list.values.len());
    list.values.iter().for_each(|value| intervals.extend(equal(value)));
    let mut narrowness = 3;
    for pattern in &list.patterns {
        narrowness = narrowness.min(matching(pattern, &mut intervals));
    }
    let exact = list.patterns.is_empty() && list.values.iter().all(is_plain);
    Bounds::new(intervals, exact, narrowness)
}

/// Strings that can match, and the expression itself.
fn matching(pattern: &RegexPattern, intervals: &mut Vec<ValueInterval>) -> u8 {
    let strings = bracket_of(bson::spec::ElementType::String);
    let prefix = prefix_of(pattern);
    let narrowness = if prefix.is_some() { 3 } else { 1 };
    intervals.push(match prefix {
        Some(prefix) => ValueInterval {
            high: prefix_end(&prefix).map_or(strings.high, |end| Cut::before(RawBson::String(end))),
            low: Cut::before(RawBson::String(prefix)),
        },
        None => strings,
    });
    if let (Ok(source), Ok(options)) = (pattern.source.clone().try_into(), pattern.options.clone().try_into())
    {
        intervals
            .push(ValueInterval::point(RawBson::RegularExpression(bson::Regex { pattern: source, options })));
    }
    narrowness
}

fn range(comparison: ComparisonOperator, constant: &RawBson) -> Option<Bounds> {
    let raw = constant.as_raw_bson_ref();
    let or_equal = matches!(comparison, ComparisonOperator::LessOrEqual | ComparisonOperator::GreaterOrEqual);
    let upward = matches!(comparison, ComparisonOperator::Greater | ComparisonOperator::GreaterOrEqual);
    let all = || Some(Bounds::new(vec![ValueInterval::all()], false, 0));
    match raw {
        // The index holds no whole arrays.
        RawBsonRef::Array(_) => return None,
        RawBsonRef::MinKey if upward => return all(),
        RawBsonRef::MaxKey if !upward => return all(),
        RawBsonRef::Null | RawBsonRef::MinKey | RawBsonRef::MaxKey => {
            let points = if or_equal { equal(constant) } else { Vec::new() };
            return Some(Bounds::new(points, false, 3));
        }
        number if is_nan(number) => {
            let points = if or_equal { equal(constant) } else { Vec::new() };
            return Some(Bounds::new(points, true, 3));
        }
        _ => {}
    }
    let bracket = bracket_of(raw.element_type());
    let interval = match upward {
        true => ValueInterval { low: Cut { value: constant.clone(), after: !or_equal }, high: bracket.high },
        false => ValueInterval { low: bracket.low, high: Cut { value: constant.clone(), after: or_equal } },
    };
    Some(Bounds::new(vec![interval], is_plain(constant), 2))
}

/// The keys of the elements that pass all operators of an `$elemMatch`.
fn elements(nodes: &[FilterNode]) -> Bounds {
    let mut all = Bounds::new(vec![ValueInterval::all()], false, 0);
    for node in nodes {
        let bounds = match node {
            // An array within an array is in the index as a whole, so its elements are unknown.
            FilterNode::Field(Field { test: Test::ElementValue(_), .. }) => None,
            FilterNode::Field(field) => from_test(&field.test),
            FilterNode::Not(inner) => match inner.as_ref() {
                FilterNode::Field(field) if !matches!(field.test, Test::Exists) => denied(&field.test, false),
                _ => None,
            },
            _ => None,
        };
        if let Some(bounds) = bounds {
            all = all.and(&bounds);
        }
    }
    all.exact = false;
    all
}

/// All values that a comparison with a value of this type, or `$type`, can match: at least these, and no others if
/// [`bracket_is_exact`]. For the rare types between regular expressions and MaxKey it has all of them.
fn bracket_of(kind: ElementType) -> ValueInterval {
    let (low, high) = match kind {
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => {
            (Cut::before(RawBson::Double(f64::NEG_INFINITY)), Cut::after(RawBson::Double(f64::INFINITY)))
        }
        ElementType::String | ElementType::Symbol => {
            (Cut::before(RawBson::String(String::new())), Cut::before(empty_document()))
        }
        ElementType::EmbeddedDocument => (Cut::before(empty_document()), Cut::before(empty_array())),
        ElementType::Array => (Cut::before(empty_array()), Cut::before(empty_binary())),
        ElementType::Binary => (Cut::before(empty_binary()), Cut::before(id(0))),
        ElementType::ObjectId => (Cut::before(id(0)), Cut::after(id(0xff))),
        ElementType::Boolean => (Cut::before(RawBson::Boolean(false)), Cut::after(RawBson::Boolean(true))),
        ElementType::DateTime => (
            Cut::before(RawBson::DateTime(DateTime::from_millis(i64::MIN))),
            Cut::after(RawBson::DateTime(DateTime::from_millis(i64::MAX))),
        ),
        ElementType::Timestamp => (Cut::before(timestamp(0)), Cut::after(timestamp(u32::MAX))),
        ElementType::Null => (Cut::before(RawBson::Null), Cut::after(RawBson::Null)),
        ElementType::Undefined => (Cut::before(RawBson::Undefined), Cut::after(RawBson::Undefined)),
        ElementType::MinKey => (Cut::before(RawBson::MinKey), Cut::after(RawBson::MinKey)),
        ElementType::MaxKey => (Cut::before(RawBson::MaxKey), Cut::after(RawBson::MaxKey)),
        ElementType::RegularExpression
        | ElementType::DbPointer
        | ElementType::JavaScriptCode
        | ElementType::JavaScriptCodeWithScope => (Cut::before(empty_regex()), Cut::before(RawBson::MaxKey)),
    };
    ValueInterval { low, high }
}

/// Whether keys between two values of this type are exactly the values between them, so that no document need be read.
/// Arrays and documents are excluded: their keys in an index are not the values themselves.
fn bracket_is_exact(kind: ElementType) -> bool {
    matches!(
        kind,
        ElementType::Double
            | ElementType::Int32
            | ElementType::Int64
            | ElementType::Decimal128
            | ElementType::String
            | ElementType::Symbol
            | ElementType::Binary
            | ElementType::ObjectId
            | ElementType::Boolean
            | ElementType::DateTime
            | ElementType::Timestamp
    )
}

fn empty_document() -> RawBson {
    RawBson::Document(RawDocumentBuf::new())
}

fn empty_array() -> RawBson {
    RawBson::Array(RawArrayBuf::new())
}

fn empty_binary() -> RawBson {
    RawBson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() })
}

fn empty_regex() -> RawBson {
    RawBsonRef::RegularExpression(RawRegexRef { pattern: cstr!(""), options: cstr!("") }).into()
}

fn id(byte: u8) -> RawBson {
    RawBson::ObjectId(ObjectId::from_bytes([byte; 12]))
}

fn timestamp(part: u32) -> RawBson {
    RawBson::Timestamp(Timestamp { time: part, increment: part })
}

/// The prefix, if the expression is anchored and begins with plain characters.
fn prefix_of(pattern: &RegexPattern) -> Option<String> {
    let (rest, at_line) = match pattern.source.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (pattern.source.strip_prefix(r"\A")?, false),
    };
    let elsewhere = pattern.options.chars().any(|option| match option {
        'i' | 'x' => true,
        'm' => at_line,
        _ => false,
    });
    // With an alternative the anchor applies to one side only; for an escaped bar this only gives up the index.
    if elsewhere || rest.contains('|') {
        return None;
    }
    let mut prefix = String::new();
    let mut characters = rest.chars();
    while let Some(next) = characters.next() {
        match next {
            // The character before these may be missing.
            '*' | '?' | '{' => {
                prefix.pop();
                break;
            }
            '\\' => match characters.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => prefix.push(escaped),
                _ => break,
            },
            '^' | '$' | '.' | '[' | '(' | ')' | '+' => break,
            plain => prefix.push(plain),
        }
    }
    (!prefix.is_empty()).then_some(prefix)
}

/// The least string that is greater than every string with the prefix; `None` if there is none.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // UTF-8 orders characters by number; between two of them are the surrogates, which are not characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_what_every_match_begins_with() {
        for (source, options, expected) in [
            ("^abc", "", Some("abc")),
            ("^abc", "s", Some("abc")),
            ("abc", "", None),
            ("^abc", "i", None),
            ("^abc", "m", None),
            (r"\Aabc", "m", Some("abc")),
            ("^abc*", "", Some("ab")),
            ("^a?", "", None),
            ("^ab{0,2}", "", Some("a")),
            ("^ab+c", "", Some("ab")),
            ("^ab.c", "", Some("ab")),
            (r"^a\.b", "", Some("a.b")),
            (r"^a\d", "", Some("a")),
            ("^ab|c", "", None),
            ("^ab(c|d)", "", None),
            ("^user1$", "", Some("user1")),
        ] {
            let pattern = RegexPattern::new(source, options).unwrap();
            assert_eq!(prefix_of(&pattern).as_deref(), expected, "/{source}/{options}");
        }
    }

    #[test]
    fn ends_are_beyond_the_prefix() {
        assert_eq!(prefix_end("abc").as_deref(), Some("abd"));
        assert_eq!(prefix_end("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(prefix_end("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(prefix_end("\u{10ffff}"), None);
    }
}
