//! The tree of names of a projection, and the parts of arrays that only `find` can request at its leaves: `$slice` and the
//! matched element of `path.$`.
//!
//! A projection is parsed for each find and consulted for each field of each document. So a few names, as in
//! most projections, are stored contiguously and distinguished by a number. Many names are stored in a map: a
//! long list must not be searched for each of a document's fields.

use std::collections::BTreeMap;

use crate::raw::{Builder, Elements, find, kind};
use crate::{Code, Expression, Failure, Filter, FilterMatch, Result};

/// The greatest depth of a path.
const MAX_DEPTH: usize = 200;
/// The most names that are searched one by one.
const MAX_LINEAR_NAMES: usize = 16;

/// The children of one level.
#[derive(Clone, Debug, Default)]
pub(super) struct ProjectionNode {
    children: Children,
    /// The names that are added after the document's own fields, in the projection's order.
    pub(super) added: Vec<String>,
    /// Whether all children are [`Child::Named`], so that a walk may end when it has seen all of them.
    pub(super) plain: bool,
}

/// The meaning of a name. The large variants are boxed, so that a projection of names, the usual kind, takes little memory:
/// every find with one builds its tree.
#[derive(Clone, Debug)]
pub(super) enum Child {
    /// Kept by an inclusion, left out by an exclusion.
    Named,
    Nested(Box<ProjectionNode>),
    Computed(Box<Expression>),
    Slice(Box<Slice>),
    /// The first element of the array that the filter, which names the field, matches.
    First(Box<Filter>),
}

impl Child {
    /// Whether it adds a value if the document has none.
    fn is_added(&self) -> bool {
        matches!(self, Child::Computed(_) | Child::First(_))
    }
}

impl ProjectionNode {
    pub(super) fn new() -> ProjectionNode {
        ProjectionNode { plain: true, ..ProjectionNode::default() }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Child> {
        self.children.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.children.remove(name.as_bytes());
    }

    /// Whether it adds values if the document has none.
    pub(super) fn adds(&self) -> bool {
        !self.added.is_empty()
    }

    /// Adds the name of a top-level field; false if it exists already or is not a plain name.
    pub(super) fn name(&mut self, name: &[u8]) -> bool {
        if name.is_empty() || name.iter().any(|byte| matches!(byte, b'.' | b'$')) {
            return false;
        }
        self.children.add(name, Child::Named)
    }

    /// Puts a child at a path and creates the missing levels.
    pub(super) fn insert(&mut self, path: &str, child: Child) -> Result<()> {
        self.insert_parts(path, path, child)
    }

    fn insert_parts(&mut self, path: &str, rest: &str, child: Child) -> Result<()> {
        let Some((part, deeper)) = rest.split_once('.') else {
            let (is_added, is_plain) = (child.is_added(), matches!(child, Child::Named));
            if !self.children.add(rest.as_bytes(), child) {
                return Err(Failure::new(Code(31250), format!("Path collision at {path}")));
            }
            if is_added {
                self.added.push(rest.to_string());
            }
            self.plain &= is_plain;
            return Ok(());
        };
        self.plain = false;
        if child.is_added() && !self.added.iter().any(|name| name == part) {
            self.added.push(part.to_string());
        }
        if self.children.get(part.as_bytes()).is_none() {
            self.children.add(part.as_bytes(), Child::Nested(Box::new(ProjectionNode::new())));
        }
        match self.children.get_mut(part.as_bytes()) {
            Some(Child::Nested(node)) => node.insert_parts(path, deeper, child),
            _ => {
                let message = format!("Path collision at {path} remaining portion {deeper}");
                Err(Failure::new(Code(31249), message))
            }
        }
    }

    /// The paths, if the tree has only names.
    pub(super) fn plain_paths(&self, prefix: &str, paths: &mut Vec<String>) -> bool {
        self.children.all(|name, child| {
            let path = format!("{prefix}{}", String::from_utf8_lossy(name));
            match child {
                Child::Named => {
                    paths.push(path);
                    true
                }
                Child::Nested(node) => node.plain_paths(&format!("{path}."), paths),
                _ => false,
            }
        })
    }
}

/// Names with their meanings.
#[derive(Clone, Debug)]
enum Children {
    Few(ShortNameList),
    Many(BTreeMap<Vec<u8>, Child>),
}

/// Up to [`MAX_LINEAR_NAMES`] names, in the order in which they came.
#[derive(Clone, Debug, Default)]
struct ShortNameList {
    /// The bytes of all names, concatenated.
    names: Vec<u8>,
    entries: Vec<ChildEntry>,
}

#[derive(Clone, Debug)]
struct ChildEntry {
    digest: u64,
    start: usize,
    end: usize,
    child: Child,
}

impl Default for Children {
    fn default() -> Self {
        Children::Few(ShortNameList::default())
    }
}

/// A number that differs for most names that differ: the first and the last eight bytes, and the length.
fn digest(name: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    };
    let first = name.first_chunk::<8>().map_or_else(|| word(name), |bytes| u64::from_le_bytes(*bytes));
    let last = name.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    first ^ last.rotate_left(24) ^ (name.len() as u64).rotate_left(56)
}

impl ShortNameList {
    fn place(&self, name: &[u8]) -> Option<usize> {
        let digest = digest(name);
        let same = |entry: &ChildEntry| entry.digest == digest && self.name(entry) == name;
        self.entries.iter().position(same)
    }

    fn name(&self, entry: &ChildEntry) -> &[u8] {
        self.names.get(entry.start..entry.end).unwrap_or_default()
    }

    fn push(&mut self, name: &[u8], child: Child) {
        if self.entries.is_empty() {
            // One piece of memory each for what most projections have.
            self.entries.reserve(MAX_LINEAR_NAMES);
            self.names.reserve(8 * MAX_LINEAR_NAMES);
        }
        let start = self.names.len();
        self.names.extend_from_slice(name);
        self.entries.push(ChildEntry { digest: digest(name), start, end: self.names.len(), child });
    }
}

impl Children {
    fn get(&self, name: &[u8]) -> Option<&Child> {
        match self {
            Children::Few(few) => few.entries.get(few.place(name)?).map(|entry| &entry.child),
            Children::Many(many) => many.get(name),
        }
    }

    fn get_mut(&mut self, name: &[u8]) -> Option<&mut Child> {
        match self {
            Children::Few(few) => {
                let place = few.place(name)?;
                few.entries.get_mut(place).map(|entry| &mut entry.child)
            }
            Children::Many(many) => many.get_mut(name),
        }
    }

    fn len(&self) -> usize {
        match self {
            Children::Few(few) => few.entries.len(),
            Children::Many(many) => many.len(),
        }
    }

    /// Adds a name; false if it exists already.
    fn add(&mut self, name: &[u8], child: Child) -> bool {
        let is_new = self.get(name).is_none();
        if is_new {
            self.insert(name, child);
        }
        is_new
    }

    /// Adds a name that does not exist yet.
    fn insert(&mut self, name: &[u8], child: Child) {
        match self {
            Children::Few(few) if few.entries.len() < MAX_LINEAR_NAMES => few.push(name, child),
            Children::Few(few) => {
                let ShortNameList { names, entries } = std::mem::take(few);
                let name_of =
                    |entry: &ChildEntry| names.get(entry.start..entry.end).unwrap_or_default().to_vec();
                let mut many: BTreeMap<_, _> =
                    entries.into_iter().map(|entry| (name_of(&entry), entry.child)).collect();
                many.insert(name.to_vec(), child);
                *self = Children::Many(many);
            }
            Children::Many(many) => {
                many.insert(name.to_vec(), child);
            }
        }
    }

    fn remove(&mut self, name: &[u8]) {
        match self {
            Children::Few(few) => {
                if let Some(place) = few.place(name) {
                    few.entries.remove(place);
                }
            }
            Children::Many(many) => {
                many.remove(name);
            }
        }
    }

    /// Each name with its child; ends when `each` returns false.
    fn all(&self, mut each: impl FnMut(&[u8], &Child) -> bool) -> bool {
        match self {
            Children::Few(few) => few.entries.iter().all(|entry| each(few.name(entry), &entry.child)),
            Children::Many(many) => many.iter().all(|(name, child)| each(name, child)),
        }
    }
}

/// Checks a path by the rules of MongoDB's field paths.
pub(super) fn check_path(path: &str) -> Result<()> {
    if !path.is_empty() && !path.bytes().any(|byte| matches!(byte, b'.' | b'$')) {
        return Ok(());
    }
    if path.is_empty() {
        return Err(Failure::new(Code(40352), "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(Failure::new(Code(40353), "FieldPath must not end with a '.'."));
    }
    for (depth, part) in path.split('.').enumerate() {
        if part.is_empty() {
            return Err(Failure::new(Code(15998), "FieldPath field names may not be empty strings."));
        }
        if part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db") {
            return Err(Failure::new(Code(16410), "FieldPath field names may not start with '$'."));
        }
        if depth >= MAX_DEPTH {
            return Err(Failure::new(Code::Overflow, "FieldPath is too long"));
        }
    }
    Ok(())
}

/// A part of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// The number of elements to skip, from the end if negative; `None` if only a number was given.
    pub(super) skip: Option<i32>,
    /// How many to keep; without `skip`, the last ones if negative.
    pub(super) limit: i32,
}

impl Slice {
    /// The array's elements within the slice.
    pub(super) fn slice(self, array: &[u8]) -> Result<Vec<u8>> {
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

/// The document with the first array along `path` cut down to the element that the filter matched; `None` if there is no array.
pub(super) fn only_matched(document: &[u8], path: &str, matched: FilterMatch) -> Result<Option<Vec<u8>>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_whatever_their_number() {
        for count in [0, 1, MAX_LINEAR_NAMES - 1, MAX_LINEAR_NAMES, MAX_LINEAR_NAMES + 1, 100] {
            let names: Vec<String> = (0..count).map(|place| format!("a long name, number {place}")).collect();
            let mut children = Children::default();
            for name in &names {
                assert!(children.get(name.as_bytes()).is_none());
                children.insert(name.as_bytes(), Child::Named);
            }
            assert_eq!(children.len(), count);
            assert!(names.iter().all(|name| children.get(name.as_bytes()).is_some()));
            assert!(names.iter().all(|name| children.get_mut(name.as_bytes()).is_some()));
            let mut seen = 0;
            assert!(children.all(|name, _| {
                seen += usize::from(names.iter().any(|one| one.as_bytes() == name));
                true
            }));
            assert_eq!(seen, count);
            if let Some(name) = names.get(count / 2) {
                children.remove(name.as_bytes());
                assert!(children.get(name.as_bytes()).is_none());
                assert_eq!(children.len(), count - 1);
            }
        }
    }

    #[test]
    fn names_of_one_digest_are_told_apart() {
        // The first and the last eight bytes are the same, and so is the length.
        let (one, other) = (b"12345678-12345678", b"12345678+12345678");
        assert_eq!(digest(one), digest(other));
        let mut children = Children::default();
        children.insert(one, Child::Named);
        assert!(children.get(other).is_none());
    }

    #[test]
    fn short_names_have_digests_of_their_own() {
        let names: [&[u8]; 6] = [b"", b"a", b"b", b"ab", b"field0", b"field1"];
        for (place, one) in names.iter().enumerate() {
            assert!(names.iter().skip(place + 1).all(|other| digest(one) != digest(other)));
        }
    }
}
