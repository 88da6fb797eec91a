//! Templates of documents and values that differ each time: constant parts are kept as bytes, the others are drawn.
//!
//! A template appends its value to a buffer. It may have no value (`!optional`), and then appends nothing.

mod compiler;
mod read;
mod values;

use std::ops::Range;

use bson::oid::ObjectId;
use bson::spec::ElementType;
use bson::{Bson, DateTime};
use fathom_stats::SeededRandom;
use fathom_wire::{ArrayWriter, DocumentWriter};

use self::values::{TimeValue, append_plain, append_text, double, long, multiplied, rounded, settle, text};
use super::collection_state::CollectionProgress;
use crate::core_workload::Lengths;
use crate::generators::KeyChooser;
use crate::keys::KeyNames;

pub(super) use compiler::{ChooserSettings, Compiler, collection};

/// The assumed size in bytes of a value whose size another part of the file decides: a key.
const KEY_BYTES: u64 = 1024;

/// The template of a value.
#[derive(Clone, Debug)]
pub(super) enum Template {
    /// Always the same: its type and bytes.
    Constant(ElementType, Vec<u8>),
    Document(Vec<(String, Template)>),
    Array(Vec<Template>),
    /// A value drawn by a generator.
    Generator(Box<Generator>),
}

#[derive(Clone, Debug)]
pub(super) enum Generator {
    /// The number of the record, times the step, from a start on.
    Sequence { start: i64, step: i64 },
    /// The record's key, as YCSB names records.
    Key(KeyNames),
    /// A whole number of 32 bits: a base plus a drawn number.
    Int { base: i64, above: Lengths },
    /// A whole number of 64 bits.
    Long { base: i64, above: Lengths },
    /// A number between two others, rounded to a number of decimals if that is given.
    Double { from: f64, to: f64, decimals: Option<i32> },
    /// A boolean that is true with this probability.
    Bool(f64),
    /// Random text, or binary data.
    Text { lengths: Lengths, compressibility: f64, binary: bool },
    /// A time between two moments.
    Date { from: TimeValue, to: TimeValue },
    /// A new object id.
    ObjectId,
    /// One value of several.
    ChoiceRule { values: Vec<Template>, by: ChoiceRule },
    /// An array of values of one template, with a drawn length.
    Array { of: Template, lengths: Lengths },
    /// The concatenation of texts and numbers, as one text.
    Join(Vec<Template>),
    /// A value with this probability, else none.
    Optional { share: f64, value: Template },
    /// The value of a field in an existing record: the index of its description.
    Existing(usize),
    /// A value that the operation drew before, times a factor if it is a number.
    Variable { place: usize, times: Option<f64>, largest_bytes: u64, number: bool },
}

/// The rule by which one of several values is chosen.
#[derive(Clone, Debug)]
pub(super) enum ChoiceRule {
    Place(Lengths),
    /// By cumulative weights; the last is 1.
    Weights(Vec<f64>),
}

/// The description of an `!existing` value.
#[derive(Clone, Debug)]
pub(super) struct ExistingValue {
    /// The collection's index in the workload.
    pub(super) collection: usize,
    /// The field whose value is wanted.
    pub(super) field: String,
    /// The place of the chooser.
    pub(super) chooser: usize,
    /// The template of the field by the record's number; set when all collections are known.
    pub(super) value: Template,
    /// Its path in the file.
    place: String,
}

/// The sources that a template draws from while it is written.
#[derive(Debug)]
pub(super) struct Drawing<'a> {
    pub(super) random: &'a mut SeededRandom,
    /// The fields that are looked up in existing records.
    pub(super) existing: &'a [ExistingValue],
    pub(super) collections: &'a [CollectionProgress],
    /// One for each record chooser; `None` if this phase does not use it.
    pub(super) choosers: &'a mut [Option<KeyChooser>],
    pub(super) variables: &'a TemplateVariables,
    /// The number of the record being written.
    pub(super) number: u64,
}

/// The values that an operation draws once and uses in several places.
#[derive(Clone, Debug, Default)]
pub(super) struct TemplateVariables {
    bytes: Vec<u8>,
    values: Vec<Option<(ElementType, Range<usize>)>>,
}

impl TemplateVariables {
    /// Adds the value that was appended to [`TemplateVariables::bytes`] from a place on.
    pub(super) fn add(&mut self, value: Option<ElementType>, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.values.push(value.map(|element_type| (element_type, start..self.bytes.len())));
    }

    /// The type and the bytes of a value; `None` if it was left out.
    pub(super) fn get(&self, place: usize) -> Option<(ElementType, &[u8])> {
        let (element_type, range) = self.values.get(place)?.as_ref()?;
        Some((*element_type, self.bytes.get(range.clone())?))
    }
}

impl Template {
    /// A template with a constant value.
    pub(super) fn constant(value: &Bson) -> Template {
        let mut bytes = Vec::new();
        DocumentWriter::new(&mut bytes).bson("", value);
        // Around it: the document's length, the type and the empty name; and the NUL of the document.
        let value_bytes = bytes.get(6..bytes.len().saturating_sub(1)).unwrap_or_default().to_vec();
        Template::Constant(value.element_type(), value_bytes)
    }

    pub(super) fn empty() -> Template {
        Template::Document(Vec::new())
    }

    /// Appends the bytes of a value. Returns its type, or `None` if it has no value this time.
    pub(super) fn append(&self, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) -> Option<ElementType> {
        match self {
            Template::Constant(element_type, bytes) => {
                out.extend_from_slice(bytes);
                Some(*element_type)
            }
            Template::Document(fields) => {
                append_fields(fields, drawing, &mut DocumentWriter::new(out));
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
        // The type is known only after the value is written.
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

    /// Writes a whole document; nothing if the template is not a document.
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

    /// Whether `test` holds for this generator or one within it.
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

    /// Whether the value depends on the record's number alone and differs for all records.
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

    /// Whether its value is always a number.
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
fn append_fields(fields: &[(String, Template)], drawing: &mut Drawing<'_>, out: &mut DocumentWriter<'_>) {
    fields.iter().for_each(|(name, item)| item.append_field(name, drawing, out));
}

impl Generator {
    /// Appends a value. Returns its type, or `None` if it has no value this time.
    fn append(&self, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) -> Option<ElementType> {
        Some(match self {
            Generator::Sequence { start, step } => {
                let number = i64::try_from(drawing.number).unwrap_or(i64::MAX);
                long(start.saturating_add(step.saturating_mul(number)), out)
            }
            Generator::Key(names) => text(out, |out| names.append(drawing.number, out)),
            Generator::Int { base, above } => {
                let value = drawn(*base, above, drawing);
                out.extend_from_slice(&i32::try_from(value).unwrap_or(i32::MAX).to_le_bytes());
                ElementType::Int32
            }
            Generator::Long { base, above } => long(drawn(*base, above, drawing), out),
            Generator::Double { from, to, decimals } => {
                let value = from + (to - from) * drawing.random.uniform();
                double(decimals.map_or(value, |decimals| rounded(value, decimals)), out)
            }
            Generator::Bool(share) => {
                out.push(u8::from(drawing.random.uniform() < *share));
                ElementType::Boolean
            }
            Generator::Text { lengths, compressibility, binary } => {
                append_text(lengths, *compressibility, *binary, drawing.random, out)
            }
            Generator::Date { from, to } => {
                let now = DateTime::now();
                let (from, to) = (from.millis(now), to.millis(now));
                let above = drawing.random.below(to.abs_diff(from).saturating_add(1));
                out.extend_from_slice(&from.min(to).saturating_add_unsigned(above).to_le_bytes());
                ElementType::DateTime
            }
            Generator::ObjectId => {
                out.extend_from_slice(&ObjectId::new().bytes());
                ElementType::ObjectId
            }
            Generator::ChoiceRule { values, by } => return by.one(values, drawing)?.append(drawing, out),
            Generator::Array { of, lengths } => {
                let mut array = ArrayWriter::new(out);
                (0..lengths.draw(drawing.random)).for_each(|_| of.append_item(drawing, &mut array));
                array.end();
                ElementType::Array
            }
            Generator::Join(parts) => text(out, |out| parts.iter().for_each(|part| join(part, drawing, out))),
            Generator::Optional { share, value } => {
                if drawing.random.uniform() >= *share {
                    return None;
                }
                return value.append(drawing, out);
            }
            Generator::Existing(place) => return append_existing(*place, drawing, out),
            Generator::Variable { place, times, .. } => {
                let (element_type, bytes) = drawing.variables.get(*place)?;
                match times {
                    Some(times) => multiplied(element_type, bytes, *times, out),
                    None => {
                        out.extend_from_slice(bytes);
                        element_type
                    }
                }
            }
        })
    }

    /// The most bytes that a value can have.
    fn largest_bytes(&self) -> u64 {
        let most = |parts: &[Template]| parts.iter().map(Template::largest_bytes).max().unwrap_or(0);
        match self {
            Generator::Key(names) => names.prefix.len() as u64 + names.digits.max(20) as u64 + 5,
            Generator::Text { lengths, .. } => longest(lengths).saturating_add(6),
            Generator::ChoiceRule { values, .. } => most(values),
            Generator::Array { of, lengths } => {
                longest(lengths).saturating_mul(of.largest_bytes().saturating_add(10)).saturating_add(5)
            }
            Generator::Join(parts) => {
                parts.iter().fold(5, |sum, part| part.largest_bytes().saturating_add(24).saturating_add(sum))
            }
            Generator::Optional { value, .. } => value.largest_bytes(),
            Generator::Existing(_) => KEY_BYTES,
            Generator::Variable { largest_bytes, .. } => *largest_bytes,
            _ => 12,
        }
    }

    /// The templates within it.
    fn parts(&self) -> &[Template] {
        match self {
            Generator::ChoiceRule { values, .. } => values,
            Generator::Join(parts) => parts,
            Generator::Array { of, .. } => std::slice::from_ref(of),
            Generator::Optional { value, .. } => std::slice::from_ref(value),
            _ => &[],
        }
    }

    fn is_number(&self) -> bool {
        match self {
            Generator::Sequence { .. }
            | Generator::Int { .. }
            | Generator::Long { .. }
            | Generator::Double { .. } => true,
            Generator::ChoiceRule { values, .. } => values.iter().all(Template::is_number),
            Generator::Variable { number, .. } => *number,
            _ => false,
        }
    }
}

impl ChoiceRule {
    fn one<'t>(&self, values: &'t [Template], drawing: &mut Drawing<'_>) -> Option<&'t Template> {
        let place = match self {
            ChoiceRule::Place(places) => places.draw(drawing.random) as usize,
            ChoiceRule::Weights(sums) => {
                let drawn = drawing.random.uniform();
                sums.partition_point(|sum| *sum <= drawn)
            }
        };
        values.get(place).or(values.last())
    }
}

/// The longest of these lengths.
fn longest(lengths: &Lengths) -> u64 {
    match lengths {
        Lengths::Constant(length) => *length,
        Lengths::Uniform { most, .. } => *most,
        Lengths::Zipfian { least, zipf } => least.saturating_add(zipf.items()),
        Lengths::Histogram { block, sums } => block.saturating_mul(sums.len() as u64),
    }
}

fn drawn(base: i64, above: &Lengths, drawing: &mut Drawing<'_>) -> i64 {
    base.saturating_add_unsigned(above.draw(drawing.random))
}

/// Appends a part's value as text.
fn join(part: &Template, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) {
    // A document with the value alone in it, at the end of the text that it is to become.
    let start = out.len();
    let mut alone = DocumentWriter::new(out);
    part.append_field("", drawing, &mut alone);
    alone.end();
    let bytes = out.split_off(start);
    append_plain(&bytes, out);
}

fn append_existing(place: usize, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) -> Option<ElementType> {
    let existing = drawing.existing.get(place)?;
    let newest = drawing.collections.get(existing.collection)?.newest();
    let chooser = drawing.choosers.get_mut(existing.chooser)?.as_mut()?;
    let number = chooser.draw(drawing.random, newest);
    let own = std::mem::replace(&mut drawing.number, number);
    let element_type = existing.value.append(drawing, out);
    drawing.number = own;
    element_type
}
