//! Applies the targets of an update to a document in one walk over its bytes; other bytes are copied unchanged.
//!
//! At each level the targets are grouped by the part of their paths that names a child. A child with its own target
//! is changed there, a child that paths lead through is rewritten by the same rule, and missing ones are appended in the
//! order of the paths. No value is decoded, so a plain `$set` costs a walk and a copy.
use super::modify::{UpdateSite, ValueChange};
use super::operator::UpdateMoment;
use super::path::index_of;
use super::storage;
use super::target::{TargetAction, UpdateTarget};
use super::text::element_text;
use crate::raw::{Builder, Element, Elements, kind};
use crate::{Code, Failure, Result};
use std::borrow::Cow;

/// The most elements that are filled with null to reach an index.
const MAX_BACKFILL: usize = 1_500_000;

impl UpdateTarget<'_> {
    fn part(&self, depth: usize) -> &str {
        self.path.split('.').nth(depth).unwrap_or_default()
    }
}

/// The targets that go through one child.
struct Group<'t, 'u> {
    name: &'t str,
    targets: &'t [UpdateTarget<'u>],
    /// Whether the child was found.
    seen: bool,
}

impl<'t, 'u> Group<'t, 'u> {
    /// The action on the child itself, where the path ends with it.
    fn action(&self, depth: usize) -> Option<(&'t UpdateTarget<'u>, &'t TargetAction<'u>)> {
        match self.targets {
            [target] if target.path.split('.').nth(depth + 1).is_none() => Some((target, &target.action)),
            _ => None,
        }
    }

    fn first_path(&self) -> &'t str {
        self.targets.first().map_or("", |target| &target.path)
    }

    fn tolerates_blocked_path(&self) -> bool {
        self.targets.iter().all(|target| target.action.tolerates_blocked_path())
    }
}

/// Groups targets, which are in the order of their paths, by the part at this depth.
fn groups<'t, 'u>(targets: &'t [UpdateTarget<'u>], depth: usize) -> Vec<Group<'t, 'u>> {
    let mut groups = Vec::with_capacity(targets.len());
    for run in targets.chunk_by(|left, right| left.part(depth) == right.part(depth)) {
        let name = run.first().map(|target| target.part(depth)).unwrap_or_default();
        groups.push(Group { name, targets: run, seen: false });
    }
    groups
}

/// Copies the unchanged parts of a document between its changes.
struct DocumentSplicer<'d> {
    document: &'d [u8],
    /// The position up to which the document is already copied or left out.
    done: usize,
    builder: Option<Builder>,
    capacity: usize,
}

impl<'d> DocumentSplicer<'d> {
    fn new(document: &'d [u8]) -> Self {
        // Room for the bytes that most updates add, so that the buffer does not grow.
        DocumentSplicer { document, done: 4, builder: None, capacity: document.len() + 128 }
    }

    /// Copies the bytes before `at`, and continues after `end`.
    fn cut(&mut self, at: usize, end: usize) -> &mut Builder {
        let builder = self.builder.get_or_insert_with(|| Builder::with_capacity(self.capacity));
        builder.copy(self.document.get(self.done..at).unwrap_or_default());
        self.done = end;
        builder
    }

    /// The builder, with the whole document copied: elements pushed now come last.
    fn end(&mut self) -> &mut Builder {
        let end = self.document.len().saturating_sub(1);
        self.cut(end, end)
    }

    /// The new document; `None` if no change was made.
    fn finish(mut self) -> Option<Vec<u8>> {
        self.builder.as_ref()?;
        self.end();
        self.builder.map(Builder::finish)
    }
}

/// The application of an update to one document.
pub(super) struct Rewrite<'r> {
    /// The whole document before the update.
    pub(super) root: &'r [u8],
    pub(super) moment: &'r UpdateMoment<'r>,
}

impl Rewrite<'_> {
    /// The document after all targets are applied; `None` if it does not change.
    pub(super) fn run(&self, targets: &[UpdateTarget<'_>]) -> Result<Option<Vec<u8>>> {
        let after = self.document(self.root, targets, 0)?;
        if let Some(after) = &after {
            storage::check_size(after.len(), self.moment.inserting)?;
        }
        Ok(after)
    }

    fn document(
        &self,
        document: &[u8],
        targets: &[UpdateTarget<'_>],
        depth: usize,
    ) -> Result<Option<Vec<u8>>> {
        let mut groups = groups(targets, depth);
        let mut splice = DocumentSplicer::new(document);
        for element in Elements::new(document)? {
            let element = element?;
            let Ok(place) = groups.binary_search_by(|group| group.name.as_bytes().cmp(element.name)) else {
                continue;
            };
            let Some(group) = groups.get_mut(place).filter(|group| !group.seen) else { continue };
            group.seen = true;
            match self.child(group, &element, depth)? {
                ValueChange::Keep => continue,
                _ if depth == 0 && element.name == b"_id" => return Err(immutable_id(group.first_path())),
                ValueChange::Remove => {
                    splice.cut(element.start, element.end());
                }
                ValueChange::Replace(kind, bytes) => {
                    splice.cut(element.start, element.end()).push(kind, element.name, &bytes);
                }
            }
        }
        for group in groups.iter().filter(|group| !group.seen) {
            if let Some((kind, bytes)) = self.create(group, depth)? {
                splice.end().push(kind, group.name.as_bytes(), &bytes);
            }
        }
        Ok(splice.finish())
    }

    /// Changes an existing child.
    fn child<'t>(
        &self,
        group: &Group<'t, '_>,
        element: &Element<'_>,
        depth: usize,
    ) -> Result<ValueChange<'t>> {
        if let Some((target, action)) = group.action(depth) {
            let site = UpdateSite { root: self.root, path: &target.path, moment: self.moment };
            return action.modify(element, site);
        }
        let rewritten = match element.kind {
            kind::DOCUMENT => self.document(element.value, group.targets, depth + 1)?,
            kind::ARRAY => self.array(element, group.targets, depth + 1)?,
            _ if group.tolerates_blocked_path() => None,
            _ => return Err(blocked(group.targets, element, depth + 1)?),
        };
        Ok(rewritten.map_or(ValueChange::Keep, |bytes| ValueChange::Replace(element.kind, Cow::Owned(bytes))))
    }

    fn array(
        &self,
        array: &Element<'_>,
        targets: &[UpdateTarget<'_>],
        depth: usize,
    ) -> Result<Option<Vec<u8>>> {
        let mut indexed = Vec::new();
        for group in groups(targets, depth) {
            match index_of(group.name) {
                Some(index) => indexed.push((index, group)),
                None if group.tolerates_blocked_path() => {}
                None => return Err(blocked(group.targets, array, depth)?),
            }
        }
        indexed.sort_by_key(|(index, _)| *index);
        let mut splice = DocumentSplicer::new(array.value);
        let mut waiting = indexed.iter().peekable();
        let mut length = 0;
        for element in Elements::new(array.value)? {
            let element = element?;
            if let Some((_, group)) = waiting.next_if(|(index, _)| *index == length) {
                match self.child(group, &element, depth)? {
                    ValueChange::Keep => {}
                    // An array keeps its positions: a removed element leaves a null.
                    ValueChange::Remove if element.kind == kind::NULL => {}
                    ValueChange::Remove => {
                        splice.cut(element.start, element.end()).push(kind::NULL, element.name, &[]);
                    }
                    ValueChange::Replace(kind, bytes) => {
                        splice.cut(element.start, element.end()).push(kind, element.name, &bytes);
                    }
                }
            }
            length += 1;
        }
        for (index, group) in waiting {
            if let Some((kind, bytes)) = self.create(group, depth)? {
                if index.saturating_sub(length) > MAX_BACKFILL {
                    let message = format!("can't backfill more than {MAX_BACKFILL} elements");
                    return Err(Failure::new(Code::CannotBackfillArray, message));
                }
                let builder = splice.end();
                for missing in length..*index {
                    builder.push_index(kind::NULL, missing, &[]);
                }
                builder.push_index(kind, *index, &bytes);
                length = index + 1;
            }
        }
        Ok(splice.finish())
    }

    /// The value to create for a missing child: type byte and bytes; `None` if none is created.
    fn create<'t>(&self, group: &Group<'t, '_>, depth: usize) -> Result<Option<(u8, Cow<'t, [u8]>)>> {
        if let Some((_, action)) = group.action(depth) {
            return action.initial(self.moment);
        }
        let mut builder = Builder::with_capacity(64);
        for inner in groups(group.targets, depth + 1) {
            if let Some((kind, bytes)) = self.create(&inner, depth + 1)? {
                builder.push(kind, inner.name.as_bytes(), &bytes);
            }
        }
        let created = !builder.is_empty();
        Ok(created.then(|| (kind::DOCUMENT, Cow::Owned(builder.finish()))))
    }
}

fn immutable_id(path: &str) -> Failure {
    let message = format!("Performing an update on the path '{path}' would modify the immutable field '_id'");
    Failure::new(Code::ImmutableField, message)
}

/// The failure for a path that cannot be followed; `depth` is that of the part that cannot exist.
fn blocked(targets: &[UpdateTarget<'_>], element: &Element<'_>, depth: usize) -> Result<Failure> {
    let writes = targets.iter().find(|target| {
        !target.action.tolerates_blocked_path()
            && (element.kind != kind::ARRAY
                || target.path.split('.').nth(depth).is_none_or(|part| index_of(part).is_none()))
    });
    let path = writes.map_or("", |target| &*target.path);
    let part = path.split('.').nth(depth).unwrap_or_default();
    let message = format!("Cannot create field '{part}' in element {{{}}}", element_text(element)?);
    Ok(Failure::new(Code::PathNotViable, message))
}
