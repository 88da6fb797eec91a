//! Applies the targets to a document in one walk over its bytes; what is not touched is copied as it is.
//!
//! At each level the targets are grouped by the part of their paths that names a child. A child with a target of its own
//! is changed there, one that paths lead through is rewritten by the same rule, and what is missing is appended in the
//! order of the paths. Nothing is decoded, so a plain `$set` costs a walk and a copy.
use super::modify::{Change, Site};
use super::operator::UpdateMoment;
use super::path::index_of;
use super::storage;
use super::target::{Action, Target};
use super::text::element_text;
use crate::raw::{Builder, Element, Elements, kind};
use crate::{Code, Failure, Result};
use std::borrow::Cow;

/// The most elements that are filled with null to reach an index.
const BACKFILL_MAX: usize = 1_500_000;

impl Target<'_> {
    fn part(&self, depth: usize) -> &str {
        self.path.split('.').nth(depth).unwrap_or_default()
    }
}

/// The targets that go through one child.
struct Group<'t, 'u> {
    /// The child's name.
    name: &'t str,
    targets: &'t [Target<'u>],
    /// Whether the child is there.
    seen: bool,
}

impl<'t, 'u> Group<'t, 'u> {
    /// The action on the child itself, where the path ends with it.
    fn action(&self, depth: usize) -> Option<(&'t Target<'u>, &'t Action<'u>)> {
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
fn groups<'t, 'u>(targets: &'t [Target<'u>], depth: usize) -> Vec<Group<'t, 'u>> {
    let mut groups = Vec::with_capacity(targets.len());
    for run in targets.chunk_by(|left, right| left.part(depth) == right.part(depth)) {
        let name = run.first().map(|target| target.part(depth)).unwrap_or_default();
        groups.push(Group { name, targets: run, seen: false });
    }
    groups
}

/// Copies a document up to what changes.
struct Splice<'d> {
    document: &'d [u8],
    /// Up to where the document is already copied or left out.
    done: usize,
    builder: Option<Builder>,
    capacity: usize,
}

impl<'d> Splice<'d> {
    fn new(document: &'d [u8]) -> Self {
        // Room for what most updates add, so that the buffer does not grow.
        Splice { document, done: 4, builder: None, capacity: document.len() + 128 }
    }

    /// Copies what lies before `at`, and goes on behind `end`.
    fn cut(&mut self, at: usize, end: usize) -> &mut Builder {
        let builder = self.builder.get_or_insert_with(|| Builder::with_capacity(self.capacity));
        builder.copy(self.document.get(self.done..at).unwrap_or_default());
        self.done = end;
        builder
    }

    /// The builder, with all of the document in it: what is pushed now comes last.
    fn end(&mut self) -> &mut Builder {
        let end = self.document.len().saturating_sub(1);
        self.cut(end, end)
    }

    /// The new document; none if nothing was changed.
    fn finish(mut self) -> Option<Vec<u8>> {
        self.builder.as_ref()?;
        self.end();
        self.builder.map(Builder::finish)
    }
}

/// An update at work on one document.
pub(super) struct Rewrite<'r> {
    /// The whole document before the update.
    pub(super) root: &'r [u8],
    pub(super) moment: &'r UpdateMoment<'r>,
}

impl Rewrite<'_> {
    /// The document after the targets; none if it stays as it is.
    pub(super) fn run(&self, targets: &[Target<'_>]) -> Result<Option<Vec<u8>>> {
        let after = self.document(self.root, targets, 0)?;
        if let Some(after) = &after {
            storage::check_size(after.len(), self.moment.inserting)?;
        }
        Ok(after)
    }

    fn document(&self, document: &[u8], targets: &[Target<'_>], depth: usize) -> Result<Option<Vec<u8>>> {
        let mut groups = groups(targets, depth);
        let mut splice = Splice::new(document);
        for element in Elements::new(document)? {
            let element = element?;
            let Ok(place) = groups.binary_search_by(|group| group.name.as_bytes().cmp(element.name)) else {
                continue;
            };
            let Some(group) = groups.get_mut(place).filter(|group| !group.seen) else { continue };
            group.seen = true;
            match self.child(group, &element, depth)? {
                Change::Keep => continue,
                _ if depth == 0 && element.name == b"_id" => return Err(immutable_id(group.first_path())),
                Change::Remove => {
                    splice.cut(element.start, element.end());
                }
                Change::Replace(kind, bytes) => {
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

    /// What becomes of a child that is there.
    fn child<'t>(&self, group: &Group<'t, '_>, element: &Element<'_>, depth: usize) -> Result<Change<'t>> {
        if let Some((target, action)) = group.action(depth) {
            let site = Site { root: self.root, path: &target.path, moment: self.moment };
            return action.modify(element, site);
        }
        let rewritten = match element.kind {
            kind::DOCUMENT => self.document(element.value, group.targets, depth + 1)?,
            kind::ARRAY => self.array(element, group.targets, depth + 1)?,
            _ if group.tolerates_blocked_path() => None,
            _ => return Err(blocked(group.targets, element, depth + 1)?),
        };
        Ok(rewritten.map_or(Change::Keep, |bytes| Change::Replace(element.kind, Cow::Owned(bytes))))
    }

    fn array(&self, array: &Element<'_>, targets: &[Target<'_>], depth: usize) -> Result<Option<Vec<u8>>> {
        let mut indexed = Vec::new();
        for group in groups(targets, depth) {
            match index_of(group.name) {
                Some(index) => indexed.push((index, group)),
                None if group.tolerates_blocked_path() => {}
                None => return Err(blocked(group.targets, array, depth)?),
            }
        }
        indexed.sort_by_key(|(index, _)| *index);
        let mut splice = Splice::new(array.value);
        let mut waiting = indexed.iter().peekable();
        let mut length = 0;
        for element in Elements::new(array.value)? {
            let element = element?;
            if let Some((_, group)) = waiting.next_if(|(index, _)| *index == length) {
                match self.child(group, &element, depth)? {
                    Change::Keep => {}
                    // An array keeps its places: what is taken away leaves a null.
                    Change::Remove if element.kind == kind::NULL => {}
                    Change::Remove => {
                        splice.cut(element.start, element.end()).push(kind::NULL, element.name, &[]);
                    }
                    Change::Replace(kind, bytes) => {
                        splice.cut(element.start, element.end()).push(kind, element.name, &bytes);
                    }
                }
            }
            length += 1;
        }
        for (index, group) in waiting {
            if let Some((kind, bytes)) = self.create(group, depth)? {
                if index.saturating_sub(length) > BACKFILL_MAX {
                    let message = format!("can't backfill more than {BACKFILL_MAX} elements");
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

    /// What is put where the child is missing: type byte and bytes; none if nothing is.
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

/// The failure for a path that goes on where it cannot; `depth` is that of the part that cannot be.
fn blocked(targets: &[Target<'_>], element: &Element<'_>, depth: usize) -> Result<Failure> {
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
