//! The parts of arrays that only `find` can ask for: `$slice` and the matched element of `path.$`.
use crate::raw::{Builder, Elements, find, kind};
use crate::{Code, Failure, Matched, Result};

/// A part of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// How many elements to pass over, from the end if negative; none if only a number was given.
    pub(super) skip: Option<i32>,
    /// How many to keep; without `skip`, the last ones if negative.
    pub(super) limit: i32,
}

impl Slice {
    /// The array's elements within the slice.
    pub(super) fn of(self, array: &[u8]) -> Result<Vec<u8>> {
        let size = |count: i32| usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let from_end = self.skip.unwrap_or(self.limit) < 0;
        // Only a slice from the end must know how many elements there are.
        let length = if from_end { Elements::new(array)?.count() } else { 0 };
        let start = match self.skip {
            Some(skip) if skip < 0 => length.saturating_sub(size(skip)),
            Some(skip) => size(skip),
            None if from_end => length.saturating_sub(size(self.limit)),
            None => 0,
        };
        let mut builder = Builder::with_capacity(array.len().min(4096));
        for (place, element) in Elements::new(array)?.skip(start).take(size(self.limit)).enumerate() {
            let element = element?;
            builder.push_index(element.kind, place, element.value);
        }
        Ok(builder.finish())
    }
}

/// The document with the first array along `path` cut down to the element that the filter matched; none if there is no array.
pub(super) fn only_matched(document: &[u8], path: &str, matched: Matched) -> Result<Option<Vec<u8>>> {
    let (part, rest) = path.split_once('.').map_or((path, None), |(part, rest)| (part, Some(rest)));
    let Some(element) = find(document, part.as_bytes())? else { return Ok(None) };
    let value = match (element.kind, rest) {
        (kind::ARRAY, _) => {
            let Some(position) = matched.position else {
                let message = "positional operator '.$' couldn't find a matching element in the array";
                return Err(Failure::new(Code(51246), message));
            };
            let Some(only) = Elements::new(element.value)?.nth(position).transpose()? else {
                return Err(Failure::new(Code(51247), "positional operator '.$' element mismatch"));
            };
            let mut array = Builder::with_capacity(only.whole.len() + 8);
            array.push_index(only.kind, 0, only.value);
            array.finish()
        }
        (kind::DOCUMENT, Some(rest)) => match only_matched(element.value, rest, matched)? {
            Some(value) => value,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let mut builder = Builder::with_capacity(document.len());
    builder.copy(document.get(4..element.start).unwrap_or_default());
    builder.push(element.kind, element.name, &value);
    builder.copy(document.get(element.end()..document.len().saturating_sub(1)).unwrap_or_default());
    Ok(Some(builder.finish()))
}
