//! Projections: which fields come back.
//!
//! Parsed once into a tree of names, applied to the documents' bytes: what is kept is copied whole. `$meta` is refused by its
//! name; what only `find` knows (`$slice`, `$elemMatch`, `path.$`) is refused in pipelines.
mod apply;
mod children;
mod parse;
mod position;
#[cfg(test)]
mod tests;
mod tree;

use crate::raw::malformed;
use crate::{Matched, Result, Variables};
use apply::Apply;
use bson::{RawDocument, RawDocumentBuf};
use std::sync::OnceLock;
use tree::Node;

/// Whose rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `find`: also `$slice`, `$elemMatch` and the positional `path.$`.
    Find,
    /// `$project` of a pipeline.
    Aggregate,
}

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {
    root: Node,
    /// Whether the tree says what is kept, rather than what is left out.
    inclusive: bool,
    /// The path of `path.$`.
    position: Option<String>,
    /// The paths of a plain inclusion, once somebody asks.
    paths: OnceLock<Option<Vec<String>>>,
}

impl Projection {
    /// Parses a projection document; an empty one keeps everything (none).
    pub fn parse(
        projection: &RawDocument,
        dialect: Dialect,
        variables: &Variables,
    ) -> Result<Option<Projection>> {
        if projection.is_empty() {
            return Ok(None);
        }
        if let Some(plain) = parse::plain(projection) {
            return Ok(Some(plain));
        }
        parse::projection(projection, dialect, variables).map(Some)
    }

    /// Whether it needs to know where the filter matched in an array.
    pub fn is_positional(&self) -> bool {
        self.position.is_some()
    }

    /// Whether it names fields and nothing else: such a projection means the same whenever it is parsed.
    fn is_plain(&self) -> bool {
        self.root.plain && self.position.is_none()
    }

    /// Whether it says which fields to keep, rather than which to leave out.
    pub fn is_inclusion(&self) -> bool {
        self.inclusive
    }

    /// The top-level and dotted fields that it needs, when it is a plain inclusion without computed fields: lets a covered
    /// plan skip the record.
    pub fn included_paths(&self) -> Option<Vec<&str>> {
        let plain = self.paths.get_or_init(|| {
            let mut paths = Vec::new();
            let plain = self.inclusive && self.position.is_none() && self.root.plain_paths("", &mut paths);
            paths.sort_unstable();
            plain.then_some(paths)
        });
        Some(plain.as_ref()?.iter().map(String::as_str).collect())
    }

    /// The projected document.
    pub fn apply(
        &self,
        document: &RawDocument,
        matched: Matched,
        variables: &Variables,
    ) -> Result<RawDocumentBuf> {
        let mut projected = Vec::with_capacity(document.as_bytes().len());
        self.append(document, matched, variables, &mut projected)?;
        RawDocumentBuf::from_bytes(projected).map_err(|_| malformed("a projected document"))
    }

    /// Appends the projected document to `out`; after a failure, part of it may be there.
    pub fn append(
        &self,
        document: &RawDocument,
        matched: Matched,
        variables: &Variables,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.is_plain() {
            return apply::names(&self.root, self.inclusive, document.as_bytes(), out);
        }
        let apply = Apply { root: document, variables };
        let bytes = match self.inclusive {
            true => apply.include(&self.root, document.as_bytes(), false)?,
            false => apply.exclude(&self.root, document.as_bytes(), false)?,
        };
        let bytes = match &self.position {
            Some(path) => position::only_matched(&bytes, path, matched)?.unwrap_or(bytes),
            None => bytes,
        };
        out.extend_from_slice(&bytes);
        Ok(())
    }
}
