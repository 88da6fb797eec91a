//! Update operators on arrays: `$push`, `$addToSet`, `$pull`, `$pullAll` and `$pop`, on the arrays' bytes.
use super::text::{element_text, type_name};
use crate::raw::{Builder, Element, Elements, Value, kind, malformed};
use crate::{Code, Failure, Filter, Result, Variables, compare, to_f64, to_i64_exact};
use bson::{Bson, RawBsonRef, RawDocument};
use std::cmp::Ordering;

/// `$push` with the modifiers of `$each`.
#[derive(Clone, Debug)]
pub(super) struct Push {
    pub(super) values: Vec<Value>,
    position: Option<i64>,
    slice: Option<i64>,
    sort: Option<SortBy>,
}

#[derive(Clone, Debug)]
enum SortBy {
    Whole { descending: bool },
    Fields(Vec<(String, bool)>),
}

/// An element of an array, as bytes and as a value.
#[derive(Clone, Copy)]
struct ArrayElement<'a> {
    kind: u8,
    bytes: &'a [u8],
    view: RawBsonRef<'a>,
}

fn items(array: &[u8]) -> Result<Vec<ArrayElement<'_>>> {
    let document = RawDocument::from_bytes(array).map_err(|_| malformed("an array's length is wrong"))?;
    let mut items = Vec::new();
    for (element, viewed) in Elements::new(array)?.zip(document.iter()) {
        let element = element?;
        let (_, view) = viewed.map_err(|_| malformed("an array's element is not well formed"))?;
        items.push(ArrayElement { kind: element.kind, bytes: element.value, view });
    }
    Ok(items)
}

fn item(value: &Value) -> Result<ArrayElement<'_>> {
    Ok(ArrayElement { kind: value.kind(), bytes: value.bytes(), view: value.view()? })
}

fn array_of<'a>(items: impl IntoIterator<Item = ArrayElement<'a>>, capacity: usize) -> Vec<u8> {
    let mut builder = Builder::with_capacity(capacity);
    for (index, item) in items.into_iter().enumerate() {
        builder.push_index(item.kind, index, item.bytes);
    }
    builder.finish()
}

/// The elements of an array as values.
pub(super) fn each_value(array: &Element<'_>) -> Result<Vec<Value>> {
    Elements::new(array.value)?.map(|element| Value::from_element(&element?)).collect()
}

/// The values without those that equal an earlier one.
pub(super) fn distinct(values: Vec<Value>) -> Result<Vec<Value>> {
    let mut sorted = Vec::with_capacity(values.len());
    for (place, value) in values.iter().enumerate() {
        sorted.push((value.view()?, place));
    }
    sorted.sort_by(|(left, left_place), (right, right_place)| {
        compare(*left, *right).then(left_place.cmp(right_place))
    });
    sorted.dedup_by(|(later, _), (earlier, _)| compare(*later, *earlier) == Ordering::Equal);
    let mut kept: Vec<usize> = sorted.into_iter().map(|(_, place)| place).collect();
    kept.sort_unstable();
    let mut kept = kept.into_iter().peekable();
    let unique = values.into_iter().enumerate().filter(|(place, _)| kept.next_if_eq(place).is_some());
    Ok(unique.map(|(_, value)| value).collect())
}

/// An array with values appended.
pub(super) fn append(array: &[u8], values: &[&Value]) -> Result<Vec<u8>> {
    let mut count = 0;
    for element in Elements::new(array)? {
        element?;
        count += 1;
    }
    let added: usize = values.iter().map(|value| value.bytes().len() + 12).sum();
    let mut builder = Builder::with_capacity(array.len() + added);
    builder.copy(array.get(4..array.len().saturating_sub(1)).unwrap_or_default());
    for (place, value) in values.iter().enumerate() {
        builder.push_index(value.kind(), count + place, value.bytes());
    }
    Ok(builder.finish())
}

/// The values that the array does not have yet.
pub(super) fn missing_from<'v>(array: &[u8], values: &'v [Value]) -> Result<Vec<&'v Value>> {
    let existing = items(array)?;
    let mut missing = Vec::new();
    for value in values {
        let view = value.view()?;
        if existing.iter().all(|item| compare(item.view, view) != Ordering::Equal) {
            missing.push(value);
        }
    }
    Ok(missing)
}

/// The array without the elements that `unwanted` selects; `None` if it selects none.
pub(super) fn without(
    array: &[u8],
    mut unwanted: impl FnMut(RawBsonRef<'_>) -> Result<bool>,
) -> Result<Option<Vec<u8>>> {
    let all = items(array)?;
    let mut kept = Vec::with_capacity(all.len());
    for item in &all {
        if !unwanted(item.view)? {
            kept.push(*item);
        }
    }
    Ok((kept.len() < all.len()).then(|| array_of(kept, array.len())))
}

/// Whether any of the values equals this one.
pub(super) fn is_among(values: &[Value], view: RawBsonRef<'_>) -> Result<bool> {
    for value in values {
        if compare(value.view()?, view) == Ordering::Equal {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The array without its first or last element; `None` if it is empty.
pub(super) fn popped(array: &[u8], first: bool) -> Result<Option<Vec<u8>>> {
    let mut all = items(array)?;
    if all.is_empty() {
        return Ok(None);
    }
    match first {
        true => drop(all.remove(0)),
        false => drop(all.pop()),
    }
    Ok(Some(array_of(all, array.len())))
}

impl Push {
    pub(super) fn parse(field: &Element<'_>) -> Result<Push> {
        let mut push = Push { values: Vec::new(), position: None, slice: None, sort: None };
        let each = match field.kind {
            kind::DOCUMENT => crate::raw::find(field.value, b"$each")?,
            _ => None,
        };
        let Some(each) = each else {
            push.values.push(Value::from_element(field)?);
            return Ok(push);
        };
        let mut seen = Vec::new();
        for clause in Elements::new(field.value)? {
            let clause = clause?;
            let name = clause.name_text()?;
            if !matches!(name, "$each" | "$slice" | "$sort" | "$position") {
                return bad_value(format!("Unrecognized clause in $push: {name}"));
            }
            if seen.contains(&name) {
                return bad_value(format!("Only one {name} is supported."));
            }
            seen.push(name);
            match name {
                "$slice" => push.slice = Some(integer(&clause, "be an integer value but was given type:")?),
                "$position" => push.position = Some(integer(&clause, "be an integer value, not of type:")?),
                "$sort" => push.sort = Some(SortBy::parse(&clause)?),
                _ => {}
            }
        }
        if each.kind != kind::ARRAY {
            return bad_value(format!(
                "The argument to $each in $push must be an array but it was of type: {}",
                type_name(each.kind)
            ));
        }
        push.values = each_value(&each)?;
        Ok(push)
    }

    /// The array after the push; `None` if it stays as it is.
    pub(super) fn apply(&self, array: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.position.is_none() && self.slice.is_none() && self.sort.is_none() {
            let values: Vec<&Value> = self.values.iter().collect();
            return if values.is_empty() { Ok(None) } else { append(array, &values).map(Some) };
        }
        let mut all = items(array)?;
        let at = self.place(all.len());
        let mut pushed = Vec::with_capacity(self.values.len());
        for value in &self.values {
            pushed.push(item(value)?);
        }
        all.splice(at..at, pushed);
        if let Some(sort) = &self.sort {
            all.sort_by(|left, right| sort.compare(left.view, right.view));
        }
        let length = all.len();
        let kept = usize::try_from(self.slice.map_or(u64::MAX, i64::unsigned_abs)).unwrap_or(usize::MAX);
        if self.slice.is_some_and(|slice| slice < 0) {
            all.drain(..length.saturating_sub(kept));
        } else {
            all.truncate(kept);
        }
        if self.sort.is_none() && self.values.is_empty() && all.len() == length {
            return Ok(None);
        }
        let capacity = array.len() + self.values.iter().map(|value| value.bytes().len() + 12).sum::<usize>();
        Ok(Some(array_of(all, capacity)))
    }

    /// The position of the new values in an array of `length` elements: past the end is the end, past the beginning the beginning.
    fn place(&self, length: usize) -> usize {
        match self.position {
            None => length,
            Some(position) => {
                let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
                if position < 0 { length.saturating_sub(distance) } else { distance.min(length) }
            }
        }
    }
}

fn bad_value<T>(message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Failure::new(Code::BadValue, message))
}

fn integer(clause: &Element<'_>, must: &str) -> Result<i64> {
    let value = Value::from_element(clause)?.to_bson()?;
    to_i64_exact(&value).map_or_else(
        || {
            let name = clause.name_text()?;
            bad_value(format!("The value for {name} must {must} {}", type_name(clause.kind)))
        },
        Ok,
    )
}

impl SortBy {
    fn parse(clause: &Element<'_>) -> Result<SortBy> {
        let direction = |value: &Bson| match to_f64(value) {
            Some(1.0) => Ok(false),
            Some(-1.0) => Ok(true),
            _ => bad_value("The $sort element value must be either 1 or -1"),
        };
        if clause.kind != kind::DOCUMENT {
            let value = Value::from_element(clause)?.to_bson()?;
            if to_f64(&value).is_none() {
                return bad_value(
                    "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
                );
            }
            return Ok(SortBy::Whole { descending: direction(&value)? });
        }
        let mut fields = Vec::new();
        for field in Elements::new(clause.value)? {
            let field = field?;
            let descending = direction(&Value::from_element(&field)?.to_bson()?)?;
            let path = field.name_text()?;
            if path.is_empty() {
                return bad_value("The $sort field cannot be empty");
            }
            if path.split('.').any(str::is_empty) {
                return bad_value(format!("The $sort field is a dotted field but has an empty part: {path}"));
            }
            fields.push((path.to_string(), descending));
        }
        if fields.is_empty() {
            return bad_value("The $sort pattern is empty when it should be a set of fields.");
        }
        Ok(SortBy::Fields(fields))
    }

    fn compare(&self, left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
        let directed = |order: Ordering, descending: bool| if descending { order.reverse() } else { order };
        match self {
            SortBy::Whole { descending } => directed(compare(left, right), *descending),
            SortBy::Fields(fields) => fields
                .iter()
                .map(|(path, descending)| directed(compare(at(left, path), at(right, path)), *descending))
                .find(|order| *order != Ordering::Equal)
                .unwrap_or(Ordering::Equal),
        }
    }
}

/// The value at a path, through documents and, by index, arrays; null if there is none.
fn at<'a>(value: RawBsonRef<'a>, path: &str) -> RawBsonRef<'a> {
    path.split('.')
        .try_fold(value, |value, part| match value {
            RawBsonRef::Document(document) => document.get(part).ok().flatten(),
            RawBsonRef::Array(array) => array.get(part.parse().ok()?).ok().flatten(),
            _ => None,
        })
        .unwrap_or(RawBsonRef::Null)
}

/// The elements that `$pull` removes.
#[derive(Clone, Debug)]
pub(super) enum Pull {
    /// Elements equal to a value.
    Equal(Value),
    /// Documents that a filter matches.
    Documents(Filter),
    /// Elements that a condition such as `{$gt: 1}` matches; the filter has it under the name [`ELEMENT`].
    Elements(Filter),
}

/// The name under which a condition sees a single value.
const ELEMENT: &str = "element";

impl Pull {
    fn parse_filter(field: &Element<'_>, filter: &[u8], variables: &Variables) -> Result<Filter> {
        let filter =
            RawDocument::from_bytes(filter).map_err(|_| malformed("a condition's length is wrong"))?;
        for name in [b"$expr".as_slice(), b"$where", b"$text"] {
            if crate::raw::find(filter.as_bytes(), name)?.is_some() {
                let name = String::from_utf8_lossy(name);
                let message = format!("{name} is not allowed in this context: {}", element_text(field)?);
                return Err(Failure::new(Code(224), message));
            }
        }
        Filter::parse(filter, variables)
    }

    pub(super) fn parse(field: &Element<'_>, variables: &Variables) -> Result<Pull> {
        let wrapped = |field: &Element<'_>| {
            let mut filter = Builder::with_capacity(field.value.len() + 16);
            filter.push(field.kind, ELEMENT.as_bytes(), field.value);
            filter.finish()
        };
        match field.kind {
            kind::DOCUMENT => {
                let first = Elements::new(field.value)?.next().transpose()?;
                match first.is_some_and(|first| is_condition(first.name)) {
                    true => Self::parse_filter(field, &wrapped(field), variables).map(Pull::Elements),
                    false => Self::parse_filter(field, field.value, variables).map(Pull::Documents),
                }
            }
            kind::REGEX => Self::parse_filter(field, &wrapped(field), variables).map(Pull::Elements),
            _ => Ok(Pull::Equal(Value::from_element(field)?)),
        }
    }

    /// Whether an element is removed.
    pub(super) fn takes(&self, element: RawBsonRef<'_>) -> Result<bool> {
        match self {
            Pull::Equal(value) => Ok(compare(value.view()?, element) == Ordering::Equal),
            Pull::Documents(filter) => match element {
                RawBsonRef::Document(document) => Ok(filter.matches(document)?.is_some()),
                _ => Ok(false),
            },
            Pull::Elements(filter) => matches_alone(filter, ELEMENT, element),
        }
    }
}

/// Whether a filter matches a document that has only this value under this name.
pub(super) fn matches_alone(filter: &Filter, name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    let name = bson::raw::CString::try_from(name).map_err(|_| malformed("a name contains a zero byte"))?;
    let mut candidate = bson::RawDocumentBuf::new();
    candidate.append(name, value);
    Ok(filter.matches(&candidate)?.is_some())
}

/// Whether a document that begins with this name is a condition on one value, rather than a filter for documents.
fn is_condition(name: &[u8]) -> bool {
    matches!(
        name,
        b"$eq"
            | b"$ne"
            | b"$gt"
            | b"$gte"
            | b"$lt"
            | b"$lte"
            | b"$in"
            | b"$nin"
            | b"$all"
            | b"$size"
            | b"$mod"
            | b"$type"
            | b"$exists"
            | b"$regex"
            | b"$options"
            | b"$elemMatch"
            | b"$bitsAllSet"
            | b"$bitsAllClear"
            | b"$bitsAnySet"
            | b"$bitsAnyClear"
            | b"$geoIntersects"
            | b"$geoWithin"
            | b"$within"
            | b"$near"
            | b"$nearSphere"
            | b"$geoNear"
            | b"$minDistance"
            | b"$maxDistance"
    )
}
