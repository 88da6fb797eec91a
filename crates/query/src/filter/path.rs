//! Walks a dotted path through a document as filters do: it descends into arrays on the path, element by element, and a
//! component of digits is also an index (the rules of mongodb/mongo:src/mongo/db/matcher/path.cpp). It does not allocate.

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::Result;
use crate::raw::unreadable;

/// The treatment of an array at the end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastArray {
    /// Its elements are visited, then the array itself.
    Opened,
    /// Only the array itself is visited.
    Whole,
}

/// A path and the treatment of an array at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathWalk<'p> {
    /// The rest of the dotted path.
    pub(super) path: &'p str,
    /// The treatment of an array at its end.
    pub(super) leaf: LastArray,
    /// The index in the outermost array through which the path went.
    pub(super) position: Option<usize>,
}

impl<'p> PathWalk<'p> {
    /// Visits each value at the path, `None` if it is missing, with the index in the outermost array on the way, until
    /// `visit` returns true; returns whether it did.
    pub(super) fn document<'d, F>(self, document: &'d RawDocument, visit: &mut F) -> Result<bool>
    where
        F: FnMut(Option<RawBsonRef<'d>>, Option<usize>) -> Result<bool>,
    {
        let mut document = document;
        let mut path = self.path;
        loop {
            let (head, rest) = split(path);
            let value = document.get(head).map_err(unreadable)?;
            match (value, rest) {
                (Some(RawBsonRef::Array(array)), None) if self.leaf == LastArray::Opened => {
                    return self.opened(array, visit);
                }
                (value, None) => return visit(value, self.position),
                (Some(RawBsonRef::Document(inner)), Some(rest)) => {
                    document = inner;
                    path = rest;
                }
                (Some(RawBsonRef::Array(array)), Some(rest)) => {
                    return PathWalk { path: rest, ..self }.elements(array, visit);
                }
                (_, Some(_)) => return visit(None, self.position),
            }
        }
    }

    /// Visits the elements of an array at the end of the path, then the array itself.
    fn opened<'d, F>(self, array: &'d RawArray, visit: &mut F) -> Result<bool>
    where
        F: FnMut(Option<RawBsonRef<'d>>, Option<usize>) -> Result<bool>,
    {
        for (index, element) in array.into_iter().enumerate() {
            if visit(Some(element.map_err(unreadable)?), self.position.or(Some(index)))? {
                return Ok(true);
            }
        }
        visit(Some(RawBsonRef::Array(array)), self.position)
    }

    /// Handles an array in the middle of the path. The walk continues into its documents with the rest of the path, and into the
    /// element whose index the next component names without that component; the latter does not count as traversing the array.
    fn elements<'d, F>(self, array: &'d RawArray, visit: &mut F) -> Result<bool>
    where
        F: FnMut(Option<RawBsonRef<'d>>, Option<usize>) -> Result<bool>,
    {
        let (head, rest) = split(self.path);
        let wanted = index_of(head);
        for (index, element) in array.into_iter().enumerate() {
            let element = element.map_err(unreadable)?;
            if let RawBsonRef::Document(inner) = element
                && (PathWalk { position: self.position.or(Some(index)), ..self }).document(inner, visit)?
            {
                return Ok(true);
            }
            if wanted != Some(index) {
                continue;
            }
            let done = match (element, rest) {
                (element, None) => visit(Some(element), self.position)?,
                (RawBsonRef::Document(inner), Some(path)) => {
                    PathWalk { path, ..self }.document(inner, visit)?
                }
                (RawBsonRef::Array(inner), Some(path)) => PathWalk { path, ..self }.elements(inner, visit)?,
                (_, Some(_)) => false,
            };
            if done {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The first component, and the rest if there is one.
fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    }
}

/// The index that a component names: digits without a leading zero.
pub(crate) fn index_of(component: &str) -> Option<usize> {
    let digits = component.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = component == "0" || !component.starts_with('0');
    if digits && canonical { component.parse().ok() } else { None }
}

/// Whether a component of the path is an index, so that filter and index may see different values.
pub(crate) fn has_index(path: &str) -> bool {
    path.split('.').any(|component| index_of(component).is_some())
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, doc};

    use super::*;

    /// The values that a walk visits, as `value@position`.
    fn visited(document: bson::Document, path: &str, leaf: LastArray) -> Vec<String> {
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        let mut seen = Vec::new();
        PathWalk { path, leaf, position: None }
            .document(&raw, &mut |value, position| {
                let value = value.map_or("missing".to_owned(), crate::filter::show::value);
                seen.push(position.map_or(value.clone(), |position| format!("{value}@{position}")));
                Ok(false)
            })
            .unwrap();
        seen
    }

    #[test]
    fn arrays_are_opened_at_the_end_and_on_the_way() {
        for (document, path, expected) in [
            (doc! { "a": 5 }, "a", vec!["5"]),
            (doc! { "a": 5 }, "b", vec!["missing"]),
            (doc! { "a": 5 }, "a.b", vec!["missing"]),
            (doc! { "a": [5, 6] }, "a", vec!["5@0", "6@1", "[ 5, 6 ]"]),
            (doc! { "a": { "b": [5] } }, "a.b", vec!["5@0", "[ 5 ]"]),
            (
                doc! { "a": [{ "b": 5 }, 3, {}, { "b": [1, 2] }] },
                "a.b",
                vec!["5@0", "missing@2", "1@3", "2@3", "[ 1, 2 ]@3"],
            ),
            (doc! { "a": [[{ "b": 5 }]] }, "a.b", vec![]),
            (doc! { "a": [] }, "a.b", vec![]),
            (doc! { "a": [] }, "a", vec!["[]"]),
        ] {
            assert_eq!(visited(document.clone(), path, LastArray::Opened), expected, "{path} of {document}");
        }
    }

    #[test]
    fn digits_mean_an_index_and_a_field() {
        for (document, path, expected) in [
            (doc! { "a": [5, [2, 4], 3] }, "a.1", vec!["[ 2, 4 ]"]),
            (doc! { "a": [5, { "1": 4 }, 3] }, "a.1", vec!["4@1", "{ 1: 4 }"]),
            (doc! { "a": [{ "b": 1 }, { "b": 2 }] }, "a.1.b", vec!["missing@0", "missing@1", "2"]),
            (doc! { "a": [[{ "b": 5 }]] }, "a.0.b", vec!["5@0"]),
            (doc! { "a": [[5, 6]] }, "a.0.1", vec!["6"]),
            (doc! { "a": { "0": [7] } }, "a.0", vec!["7@0", "[ 7 ]"]),
            (doc! { "a": [5] }, "a.00", vec![]),
        ] {
            assert_eq!(visited(document.clone(), path, LastArray::Opened), expected, "{path} of {document}");
        }
    }

    #[test]
    fn a_whole_leaf_is_not_opened() {
        assert_eq!(visited(doc! { "a": [5, 6] }, "a", LastArray::Whole), ["[ 5, 6 ]"]);
        assert_eq!(visited(doc! { "a": [{ "b": [1] }] }, "a.b", LastArray::Whole), ["[ 1 ]@0"]);
    }
}
