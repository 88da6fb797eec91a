//! Documents and values that are made anew each time: what stays the same is kept as bytes, the rest is drawn.
//!
//! A template writes itself at the end of a buffer. It may come to nothing (`!optional`), and then leaves no trace.

mod dates;
mod drawing;
mod generator;
mod read;
mod read_generator;

use bson::Bson;
use bson::spec::ElementType;
use fathom_wire::{ArrayWriter, DocumentWriter};

pub(super) use drawing::{Drawing, Variables};
pub(super) use generator::Generator;
pub(super) use read::{ChooserSettings, Compiler, Existing};
pub(super) use read_generator::collection;

/// The most levels of documents in documents that a server takes is 100; so much is enough for any template.
pub(super) const DEEPEST: usize = 60;

/// Something that writes a value.
#[derive(Clone, Debug)]
pub(super) enum Template {
    /// Always the same: its type and bytes.
    Constant(ElementType, Vec<u8>),
    /// Fields by name.
    Document(Vec<(String, Template)>),
    /// Items.
    Array(Vec<Template>),
    /// What is drawn.
    Generator(Box<Generator>),
}

impl Template {
    /// A value that stays the same.
    pub(super) fn constant(value: &Bson) -> Template {
        let mut bytes = Vec::new();
        DocumentWriter::new(&mut bytes).bson("", value);
        // Around it: the document's length, the type and the empty name; and the NUL of the document.
        let value_bytes = bytes.get(6..bytes.len().saturating_sub(1)).unwrap_or_default().to_vec();
        Template::Constant(value.element_type(), value_bytes)
    }

    /// An empty document.
    pub(super) fn empty() -> Template {
        Template::Document(Vec::new())
    }

    /// Appends the bytes of a value; its type, or none if there is none this time.
    pub(super) fn append(&self, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) -> Option<ElementType> {
        match self {
            Template::Constant(element_type, bytes) => {
                out.extend_from_slice(bytes);
                Some(*element_type)
            }
            Template::Document(fields) => {
                self::append_fields(fields, drawing, &mut DocumentWriter::new(out));
                Some(ElementType::EmbeddedDocument)
            }
            Template::Array(items) => {
                let mut array = ArrayWriter::new(out);
                items.iter().for_each(|item| item.append_item(drawing, &mut array));
                array.end();
                Some(ElementType::Array)
            }
            Template::Generator(generator) => generator.append(drawing, out),
        }
    }

    /// Writes a field, if there is a value.
    pub(super) fn append_field(&self, name: &str, drawing: &mut Drawing<'_>, out: &mut DocumentWriter<'_>) {
        let start = out.buffer().len();
        // The type is known when the value is.
        out.begin_element(name, ElementType::Null);
        let element_type = self.append(drawing, out.buffer());
        settle(element_type, start, out.buffer());
    }

    /// Writes an item, if there is a value.
    pub(super) fn append_item(&self, drawing: &mut Drawing<'_>, out: &mut ArrayWriter<'_>) {
        let mark = out.mark();
        let start = out.buffer().len();
        out.begin_item(ElementType::Null);
        match self.append(drawing, out.buffer()) {
            None => out.back_to(mark),
            some => settle(some, start, out.buffer()),
        }
    }

    /// Writes a whole document; nothing where the template is none.
    pub(super) fn append_document(&self, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        if self.append(drawing, out) != Some(ElementType::EmbeddedDocument) {
            out.truncate(start);
            DocumentWriter::new(out).end();
        }
    }

    /// The most bytes that a value can have.
    pub(super) fn largest_bytes(&self) -> u64 {
        let nested = |sum: u64, name: usize, item: &Template| {
            sum.saturating_add(name as u64 + 2).saturating_add(item.largest_bytes())
        };
        match self {
            Template::Constant(_, bytes) => bytes.len() as u64,
            Template::Document(fields) => {
                fields.iter().fold(5, |sum, (name, item)| nested(sum, name.len(), item))
            }
            Template::Array(items) => items.iter().fold(5, |sum, item| nested(sum, 10, item)),
            Template::Generator(generator) => generator.largest_bytes(),
        }
    }

    /// The template of a field, by a path such as `customer.name`.
    pub(super) fn at(&self, path: &str) -> Option<&Template> {
        let Template::Document(fields) = self else { return None };
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let (_, found) = fields.iter().find(|(known, _)| known == name)?;
        rest.map_or(Some(found), |rest| found.at(rest))
    }

    /// Whether this or something within it is such a generator.
    pub(super) fn any(&self, test: &dyn Fn(&Generator) -> bool) -> bool {
        match self {
            Template::Constant(..) => false,
            Template::Document(fields) => fields.iter().any(|(_, item)| item.any(test)),
            Template::Array(items) => items.iter().any(|item| item.any(test)),
            Template::Generator(generator) => {
                test(generator) || generator.parts().iter().any(|part| part.any(test))
            }
        }
    }

    /// Whether the number of a record alone says what it is, and no two records have the same.
    pub(super) fn is_numbered(&self) -> bool {
        match self {
            Template::Generator(generator) => match &**generator {
                Generator::Sequence { .. } | Generator::Key(_) => true,
                Generator::Join(parts) => {
                    let told = |part: &Template| matches!(part, Template::Constant(..)) || part.is_numbered();
                    parts.iter().all(told) && parts.iter().any(Template::is_numbered)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether it is a number each time.
    pub(super) fn is_number(&self) -> bool {
        match self {
            Template::Constant(element_type, _) => {
                matches!(element_type, ElementType::Int32 | ElementType::Int64 | ElementType::Double)
            }
            Template::Generator(generator) => generator.is_number(),
            Template::Document(_) | Template::Array(_) => false,
        }
    }
}

/// Writes the fields of a document.
pub(super) fn append_fields(
    fields: &[(String, Template)],
    drawing: &mut Drawing<'_>,
    out: &mut DocumentWriter<'_>,
) {
    fields.iter().for_each(|(name, item)| item.append_field(name, drawing, out));
}

/// Puts in the type of an element that begins at a place, or removes the element.
fn settle(element_type: Option<ElementType>, start: usize, out: &mut Vec<u8>) {
    match (element_type, out.get_mut(start)) {
        (Some(element_type), Some(place)) => *place = element_type as u8,
        _ => out.truncate(start),
    }
}
