//! Finds the values that a document has under dotted paths, through arrays as MongoDB's indexes do
//! (mongodb/mongo:src/mongo/db/index/btree_key_generator.cpp).
//!
//! Each array on a path yields one tuple of values for each of its elements. Two different arrays in one tuple are refused. A
//! number within a path is a position if the array has that position, else a field name of its elements; if it could
//! be both, the document is refused.
use crate::{Code, Failure, Result};
use bson::raw::{RawBsonRef, RawDocument};

/// The rest of a path that is left to walk; empty at its end.
type Rest<'a> = &'a str;

/// The value at one path, or the first array on the path, with the rest of the path within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathValue<'a> {
    pub(crate) value: RawBsonRef<'a>,
    pub(crate) rest: Rest<'a>,
    /// The name of the last field walked.
    name: &'a str,
}

/// Walks `path` from `document` up to its end or the first array; `None` if the document has no value there.
pub(crate) fn find<'a>(document: &'a RawDocument, path: Rest<'a>) -> Result<Option<PathValue<'a>>> {
    let mut document = document;
    let mut path = path;
    loop {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let Some(value) = field(document, name)? else { return Ok(None) };
        match value {
            RawBsonRef::Document(inner) if !rest.is_empty() => {
                document = inner;
                path = rest;
            }
            RawBsonRef::Array(_) => return Ok(Some(PathValue { value, rest, name })),
            _ => return Ok(rest.is_empty().then_some(PathValue { value, rest, name })),
        }
    }
}

fn field<'a>(document: &'a RawDocument, name: &str) -> Result<Option<RawBsonRef<'a>>> {
    document.get(name).map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))
}

/// The state of the walk along one path.
#[derive(Clone, Copy, Debug)]
enum PathState<'a> {
    /// Still to be walked.
    Open(Rest<'a>),
    /// Its value is known.
    Fixed(RawBsonRef<'a>),
    /// The path ends at the array that is being walked through.
    AtArray,
}

/// An array's element that a path names by its position, and the value that the path finds from there.
#[derive(Clone, Copy, Debug, Default)]
struct PositionedElement<'a> {
    /// None: the path names no element of the array.
    element: Option<RawBsonRef<'a>>,
    found: Option<PathValue<'a>>,
}

/// The state of the walk through one document.
struct Walk<'t, 'a> {
    take: &'t mut dyn FnMut(&[RawBsonRef<'a>], bool) -> Result<()>,
    multikey: bool,
}

/// Passes each tuple of values under `paths` to `take`, with a flag whether no path led to any value. Missing values are
/// null, those of an empty array undefined. Returns whether a path went through an array, other than to a position in it.
pub(crate) fn tuples<'a>(
    document: &'a RawDocument,
    paths: impl Iterator<Item = &'a str>,
    take: &mut dyn FnMut(&[RawBsonRef<'a>], bool) -> Result<()>,
) -> Result<bool> {
    let places: Vec<PathState<'a>> = paths.map(PathState::Open).collect();
    let positions = vec![PositionedElement::default(); places.len()];
    let mut walk = Walk { take, multikey: false };
    walk.document(document, places, &positions, 0)?;
    Ok(walk.multikey)
}

impl<'a> Walk<'_, 'a> {
    /// Continues from `document`, an element of an array or the whole document.
    fn document(
        &mut self,
        document: &'a RawDocument,
        mut places: Vec<PathState<'a>>,
        positions: &[PositionedElement<'a>],
        mut missing: usize,
    ) -> Result<()> {
        let mut array: Option<(&'a bson::RawArray, &'a str)> = None;
        // An array that is itself an element named by its position is indexed whole, not element by element.
        let mut expands = true;
        for (place, position) in places.iter_mut().zip(positions) {
            let PathState::Open(path) = *place else { continue };
            let found = next(document, path, position)?;
            match found {
                None => {
                    *place = PathState::Fixed(RawBsonRef::Null);
                    missing += 1;
                }
                Some(PathValue { value: RawBsonRef::Array(found), rest, name }) => {
                    match array {
                        None => array = Some((found, name)),
                        Some((first, _)) if std::ptr::eq(first, found) => {}
                        Some((_, first)) => return Err(parallel(name, first)),
                    }
                    expands &= !matches!(position.element, Some(RawBsonRef::Array(_)));
                    *place = if rest.is_empty() { PathState::AtArray } else { PathState::Open(rest) };
                }
                Some(found) => *place = PathState::Fixed(found.value),
            }
        }
        match array {
            None => self.tuple(&places, missing),
            Some((array, _)) => self.array(array, &places, missing, expands),
        }
    }

    fn tuple(&mut self, places: &[PathState<'a>], missing: usize) -> Result<()> {
        let values: Vec<RawBsonRef<'a>> = places
            .iter()
            .map(|place| match place {
                PathState::Fixed(value) => *value,
                PathState::Open(_) | PathState::AtArray => RawBsonRef::Null,
            })
            .collect();
        (self.take)(&values, missing == values.len())
    }

    fn array(
        &mut self,
        array: &'a bson::RawArray,
        places: &[PathState<'a>],
        missing: usize,
        expands: bool,
    ) -> Result<()> {
        let whole = RawBsonRef::Array(array);
        let at = |value: RawBsonRef<'a>| -> Vec<PathState<'a>> {
            let fix = |place: &PathState<'a>| match place {
                PathState::AtArray => PathState::Fixed(value),
                other => *other,
            };
            places.iter().map(fix).collect()
        };
        if array.is_empty() {
            self.multikey |= expands;
            let none = vec![PositionedElement::default(); places.len()];
            return self.document(EMPTY.get(), at(RawBsonRef::Undefined), &none, missing);
        }
        let mut positions = Vec::with_capacity(places.len());
        for place in places {
            let PathState::Open(path) = *place else {
                self.multikey |= expands && matches!(place, PathState::AtArray);
                positions.push(PositionedElement::default());
                continue;
            };
            let position = position(array, path)?;
            self.multikey |= position.element.is_none();
            positions.push(position);
        }
        for element in array {
            let element = element.map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))?;
            let inner = element.as_document().unwrap_or(EMPTY.get());
            let fixed = at(if expands { element } else { whole });
            self.document(inner, fixed, &positions, missing)?;
        }
        Ok(())
    }
}

/// The next value or array on a path: within the document, or at the position of the array around it.
fn next<'a>(
    document: &'a RawDocument,
    path: Rest<'a>,
    position: &PositionedElement<'a>,
) -> Result<Option<PathValue<'a>>> {
    let name = path.split('.').next().unwrap_or(path);
    let within = find(document, path)?;
    if position.element.is_none() {
        return Ok(within);
    }
    if field(document, name)?.is_some() {
        return Err(Failure::new(
            Code(16746),
            format!(
                "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: '{name}'"
            ),
        ));
    }
    Ok(position.found)
}

/// The element of `array` whose position the first name of `path` gives, and the value that the rest of the path finds there.
fn position<'a>(array: &'a bson::RawArray, path: Rest<'a>) -> Result<PositionedElement<'a>> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let canonical = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_digit())
        && (name == "0" || !name.starts_with('0'));
    let Some(index) = name.parse::<usize>().ok().filter(|_| canonical) else {
        return Ok(PositionedElement::default());
    };
    let element = array.get(index).map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))?;
    let found = match element {
        None => return Ok(PositionedElement::default()),
        Some(RawBsonRef::Document(document)) if !rest.is_empty() => find(document, rest)?,
        Some(value @ RawBsonRef::Array(_)) => Some(PathValue { value, rest, name }),
        Some(value) => rest.is_empty().then_some(PathValue { value, rest, name }),
    };
    Ok(PositionedElement { element, found })
}

fn parallel(name: &str, first: &str) -> Failure {
    Failure::new(PARALLEL_ARRAYS, format!("cannot index parallel arrays [{name}] [{first}]"))
}

/// The code of error `CannotIndexParallelArrays`.
pub(crate) const PARALLEL_ARRAYS: Code = Code(171);

/// An empty document, for elements of arrays that are not documents.
struct EmptyDocument(std::sync::LazyLock<bson::RawDocumentBuf>);

impl EmptyDocument {
    fn get(&self) -> &RawDocument {
        &self.0
    }
}

static EMPTY: EmptyDocument = EmptyDocument(std::sync::LazyLock::new(bson::RawDocumentBuf::new));
