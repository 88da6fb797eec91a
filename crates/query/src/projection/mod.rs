//! Projections, which choose the fields that are returned.
//!
//! A projection is parsed once into a tree of names and applied to the documents' bytes: kept fields are copied as they are.
//! `$meta` is refused by name; the forms that only `find` has (`$slice`, `$elemMatch`, `path.$`) are refused in pipelines.

mod parse;
mod tree;

use crate::raw::{Builder, Element, Elements, Value, close, find, kind, malformed, too_deep};
use crate::{Expression, Filter, FilterMatch, Result, Variables};
use bson::{RawDocument, RawDocumentBuf};
use std::ops::Range;
use std::sync::OnceLock;
use tree::{Child, ProjectionNode};

/// Whether the rules of `find` or of an aggregation apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `find`: also `$slice`, `$elemMatch` and the positional `path.$`.
    Find,
    /// `$project` of a pipeline.
    Aggregate,
}

#[derive(Clone, Debug)]
pub struct Projection {
    root: ProjectionNode,
    /// Whether the tree lists the fields to keep, rather than those to leave out.
    inclusive: bool,
    /// The path of `path.$`.
    position: Option<String>,
    /// The paths of a plain inclusion, computed on first use.
    paths: OnceLock<Option<Vec<String>>>,
}

impl Projection {
    /// Whether it needs the position at which the filter matched in an array.
    pub fn is_positional(&self) -> bool {
        self.position.is_some()
    }

    /// Whether it only names fields: such a projection means the same whenever it is parsed.
    fn is_plain(&self) -> bool {
        self.root.plain && self.position.is_none()
    }

    /// Whether it lists the fields to keep, rather than those to leave out.
    pub fn is_inclusion(&self) -> bool {
        self.inclusive
    }

    /// The top-level and dotted fields that it needs, if it is a plain inclusion without computed fields. They allow a covered
    /// plan to skip the record.
    pub fn included_paths(&self) -> Option<Vec<&str>> {
        let plain = self.paths.get_or_init(|| {
            let mut paths = Vec::new();
            let plain = self.inclusive && self.position.is_none() && self.root.plain_paths("", &mut paths);
            paths.sort_unstable();
            plain.then_some(paths)
        });
        Some(plain.as_ref()?.iter().map(String::as_str).collect())
    }

    pub fn apply(
        &self,
        document: &RawDocument,
        matched: FilterMatch,
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
        matched: FilterMatch,
        variables: &Variables,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.is_plain() {
            return names(&self.root, self.inclusive, document.as_bytes(), out);
        }
        let apply = ProjectionScope { root: document, variables };
        let bytes = match self.inclusive {
            true => apply.include(&self.root, document.as_bytes(), false)?,
            false => apply.exclude(&self.root, document.as_bytes(), false)?,
        };
        let bytes = match &self.position {
            Some(path) => tree::only_matched(&bytes, path, matched)?.unwrap_or(bytes),
            None => bytes,
        };
        out.extend_from_slice(&bytes);
        Ok(())
    }
}

/// The most arrays directly within arrays that are followed; no stored document has as many.
const MAX_ARRAYS: usize = 200;
/// A document without fields.
const NO_FIELDS: [u8; 5] = [5, 0, 0, 0, 0];

/// Appends the document with only the names of a plain level, or without them. Adjacent kept fields are copied together.
fn names(node: &ProjectionNode, inclusive: bool, document: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut copy = |run: Range<usize>| out.extend_from_slice(document.get(run).unwrap_or_default());
    let mut kept = 0..0;
    let mut found = 0;
    for element in Elements::new(document)? {
        let element = element?;
        let named = node.get(element.name).is_some();
        if named == inclusive {
            if kept.end != element.start {
                copy(std::mem::replace(&mut kept, element.start..element.start));
            }
            kept.end = element.end();
        }
        found += usize::from(named);
        // The rest is not read; if a name occurs twice in a document, the first one counts, as before.
        if inclusive && found == node.len() {
            break;
        }
    }
    copy(kept);
    close(out, start);
    Ok(())
}

/// The application of a projection to one document.
struct ProjectionScope<'a> {
    /// The whole document, which expressions see.
    root: &'a RawDocument,
    variables: &'a Variables,
}

impl ProjectionScope<'_> {
    /// The document with only the fields of the tree. `in_nested_array` tells that the document is in an array within an
    /// array, where slices do not apply.
    fn include(&self, node: &ProjectionNode, document: &[u8], in_nested_array: bool) -> Result<Vec<u8>> {
        let mut builder = Builder::with_capacity(document.len().min(512));
        let mut seen: Vec<&[u8]> = Vec::new();
        for element in Elements::new(document)? {
            let element = element?;
            match node.get(element.name) {
                None | Some(Child::Computed(_) | Child::First(_)) => continue,
                Some(Child::Named) => builder.copy(element.whole),
                Some(Child::Slice(slice)) if element.kind == kind::ARRAY && !in_nested_array => {
                    builder.push(kind::ARRAY, element.name, &slice.slice(element.value)?);
                }
                Some(Child::Slice(_)) => builder.copy(element.whole),
                Some(Child::Nested(inner)) => {
                    if inner.adds() {
                        seen.push(element.name);
                    }
                    if let Some((kind, value)) = self.include_value(inner, &element, 0, in_nested_array)? {
                        builder.push(kind, element.name, &value);
                    }
                }
            }
        }
        for name in &node.added {
            match node.get(name.as_bytes()) {
                Some(Child::Nested(inner)) if !seen.contains(&name.as_bytes()) => {
                    let made = self.include(inner, &NO_FIELDS, false)?;
                    builder.push(kind::DOCUMENT, name.as_bytes(), &made);
                }
                Some(child) => self.add(name, child, &mut builder)?,
                None => {}
            }
        }
        Ok(builder.finish())
    }

    /// The value of an element that paths lead through; `arrays` counts the arrays directly around it.
    fn include_value(
        &self,
        node: &ProjectionNode,
        element: &Element<'_>,
        arrays: usize,
        in_nested_array: bool,
    ) -> Result<Option<(u8, Vec<u8>)>> {
        match element.kind {
            kind::DOCUMENT => {
                self.include(node, element.value, in_nested_array).map(|value| Some((kind::DOCUMENT, value)))
            }
            kind::ARRAY if arrays >= MAX_ARRAYS => Err(too_deep()),
            kind::ARRAY => {
                let mut array = Builder::with_capacity(element.value.len().min(4096));
                let mut place = 0;
                for item in Elements::new(element.value)? {
                    let item = item?;
                    let nested = in_nested_array || arrays > 0;
                    if let Some((kind, value)) = self.include_value(node, &item, arrays + 1, nested)? {
                        array.push_index(kind, place, &value);
                        place += 1;
                    }
                }
                Ok(Some((kind::ARRAY, array.finish())))
            }
            // A path does not continue through other values: a computed value replaces them, or they are removed.
            _ if node.adds() => {
                self.include(node, &NO_FIELDS, false).map(|value| Some((kind::DOCUMENT, value)))
            }
            _ => Ok(None),
        }
    }

    /// The document without the fields of the tree.
    fn exclude(&self, node: &ProjectionNode, document: &[u8], in_nested_array: bool) -> Result<Vec<u8>> {
        let mut builder = Builder::with_capacity(document.len());
        for element in Elements::new(document)? {
            let element = element?;
            match node.get(element.name) {
                None => builder.copy(element.whole),
                Some(Child::Named) => {}
                Some(Child::Slice(slice)) if element.kind == kind::ARRAY && !in_nested_array => {
                    builder.push(kind::ARRAY, element.name, &slice.slice(element.value)?);
                }
                Some(Child::Slice(_)) => builder.copy(element.whole),
                Some(Child::Nested(inner)) => {
                    let value = self.exclude_value(inner, &element, 0, in_nested_array)?;
                    builder.push(element.kind, element.name, &value);
                }
                Some(child) => self.add(element.name_text()?, child, &mut builder)?,
            }
        }
        Ok(builder.finish())
    }

    fn exclude_value(
        &self,
        node: &ProjectionNode,
        element: &Element<'_>,
        arrays: usize,
        in_nested_array: bool,
    ) -> Result<Vec<u8>> {
        match element.kind {
            kind::DOCUMENT => self.exclude(node, element.value, in_nested_array),
            kind::ARRAY if arrays >= MAX_ARRAYS => Err(too_deep()),
            kind::ARRAY => {
                let mut array = Builder::with_capacity(element.value.len());
                for (place, item) in Elements::new(element.value)?.enumerate() {
                    let item = item?;
                    let value = self.exclude_value(node, &item, arrays + 1, in_nested_array || arrays > 0)?;
                    array.push_index(item.kind, place, &value);
                }
                Ok(array.finish())
            }
            _ => Ok(element.value.to_vec()),
        }
    }

    fn add(&self, name: &str, child: &Child, builder: &mut Builder) -> Result<()> {
        match child {
            Child::Computed(expression) => self.computed(name, expression, builder),
            Child::First(filter) => self.first(name, filter, builder),
            _ => Ok(()),
        }
    }

    fn computed(&self, name: &str, expression: &Expression, builder: &mut Builder) -> Result<()> {
        if let Some(value) = expression.evaluate(self.root, self.variables)? {
            let value = Value::from_bson(&value)?;
            builder.push(value.kind(), name.as_bytes(), value.bytes());
        }
        Ok(())
    }

    fn first(&self, name: &str, filter: &Filter, builder: &mut Builder) -> Result<()> {
        let position = filter.matches(self.root)?.and_then(|matched| matched.position);
        let array = find(self.root.as_bytes(), name.as_bytes())?.filter(|array| array.kind == kind::ARRAY);
        if let (Some(position), Some(array)) = (position, array)
            && let Some(only) = Elements::new(array.value)?.nth(position).transpose()?
        {
            let mut one = Builder::with_capacity(only.whole.len() + 8);
            one.push_index(only.kind, 0, only.value);
            builder.push(kind::ARRAY, name.as_bytes(), &one.finish());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
