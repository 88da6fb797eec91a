//! Reads templates from the text of the file.
//!
//! Contains the table of the generators' tags, with the arguments of each and their reader.

use bson::spec::ElementType;
use bson::{Bson, DateTime};
use fathom_errors::Error;
use fathom_wire::{ArrayWriter, DocumentWriter};
use serde_yaml_ng::Value;

use super::super::item::{Item, kind};
use super::compiler::{ChooserSettings, Compiler, check_depth, collection, plain};
use super::values::TimeValue;
use super::{ChoiceRule, Generator, Template};
use crate::core_workload::Lengths;
use crate::generators::{Distribution, YCSB_SKEW};
use crate::keys::KeyNames;

/// The largest document that a server takes, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// The most values of a list.
const MAX_ITEMS: u64 = 100_000;
/// The widest range from which a number is drawn.
const MAX_RANGE: u64 = 1 << 62;

type TemplateReader = fn(&mut Compiler, &Item<'_>, usize) -> Result<Template, Error>;

/// Table: YAML tags and the generators that read them.
const TAGS: [(&str, TemplateReader); 16] = [
    ("array", array),
    ("binary", |compiler, item, _| text(compiler, item, true)),
    ("bool", boolean),
    ("date", date),
    ("double", double),
    ("existing", existing),
    ("int", |compiler, item, _| whole(compiler, item, true)),
    ("join", join),
    ("key", key),
    ("long", |compiler, item, _| whole(compiler, item, false)),
    ("objectid", objectid),
    ("optional", optional),
    ("pick", pick),
    ("sequence", sequence),
    ("string", |compiler, item, _| text(compiler, item, false)),
    ("var", variable),
];

impl Compiler {
    pub(in super::super) fn template(&mut self, item: &Item<'_>) -> Result<Template, Error> {
        self.at_depth(item, 0)
    }

    /// Reads a template that is a document.
    pub(in super::super) fn document(&mut self, item: &Item<'_>) -> Result<Template, Error> {
        match item.value {
            Value::Mapping(_) => self.template(item),
            other => Err(item.refuse(format!("{} is not a document", kind(other)))),
        }
    }

    fn at_depth(&mut self, item: &Item<'_>, depth: usize) -> Result<Template, Error> {
        check_depth(item, depth)?;
        match item.value {
            Value::Tagged(_) => read_generator(self, item, depth),
            Value::Mapping(_) => {
                let mut fields = Vec::new();
                for (name, inner) in item.entries()? {
                    fields.push((name.to_owned(), self.at_depth(&inner, depth + 1)?));
                }
                Ok(folded(Template::Document(fields)))
            }
            Value::Sequence(_) => {
                let items: Result<Vec<_>, _> =
                    item.list()?.iter().map(|inner| self.at_depth(inner, depth + 1)).collect();
                Ok(folded(Template::Array(items?)))
            }
            _ => Ok(Template::constant(&plain(item, depth)?)),
        }
    }
}

/// Turns a template that holds only constants into one constant.
fn folded(template: Template) -> Template {
    let mut bytes = Vec::new();
    match &template {
        Template::Document(fields) => {
            let mut document = DocumentWriter::new(&mut bytes);
            for (name, item) in fields {
                let Template::Constant(element_type, value) = item else { return template };
                document.begin_element(name, *element_type);
                document.buffer().extend_from_slice(value);
            }
            document.end();
            Template::Constant(ElementType::EmbeddedDocument, bytes)
        }
        Template::Array(items) => {
            let mut array = ArrayWriter::new(&mut bytes);
            for item in items {
                let Template::Constant(element_type, value) = item else { return template };
                array.begin_item(*element_type);
                array.buffer().extend_from_slice(value);
            }
            array.end();
            Template::Constant(ElementType::Array, bytes)
        }
        Template::Constant(..) | Template::Generator(_) => template,
    }
}

/// Reads the value after a tag.
fn read_generator(compiler: &mut Compiler, item: &Item<'_>, depth: usize) -> Result<Template, Error> {
    let Some((tag, inner)) = item.tagged() else {
        return Err(item.refuse(format!("{} is not a generator", kind(item.value))));
    };
    match TAGS.iter().find(|(name, _)| *name == tag) {
        Some((_, reader)) => reader(compiler, &inner, depth + 1),
        None => Err(item.unknown("generator", &tag, TAGS.iter().map(|(name, _)| *name))),
    }
}

fn made(generator: Generator) -> Template {
    Template::Generator(Box::new(generator))
}

fn sequence(compiler: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    need_record(compiler, item)?;
    let (mut start, mut step) = (0, 1);
    if *item.value != Value::Null {
        let fields = item.fields(&["start", "step"])?;
        let most = 1 << 53;
        start = fields.get("start").map_or(Ok(0), |start| start.whole(-most, most))?;
        step = fields.get("step").map_or(Ok(1), |step| step.whole(1, 1 << 20))?;
    }
    Ok(made(Generator::Sequence { start, step }))
}

fn key(compiler: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    need_record(compiler, item)?;
    let mut names = KeyNames::default();
    if *item.value != Value::Null {
        let fields = item.fields(&["prefix", "digits", "ordered"])?;
        if let Some(prefix) = fields.get("prefix") {
            names.prefix = prefix.text()?.to_owned();
            if names.prefix.len() > 500 {
                return Err(prefix.refuse("it is longer than 500 bytes"));
            }
        }
        names.digits = fields.count("digits", 1, 100)?.unwrap_or(1) as usize;
        names.ordered = fields.truth("ordered", false)?;
    }
    Ok(made(Generator::Key(names)))
}

fn need_record(compiler: &Compiler, item: &Item<'_>) -> Result<(), Error> {
    if compiler.is_record {
        return Ok(());
    }
    Err(item
        .refuse("only the documents of a collection are numbered")
        .advise("to name one that is there use !existing"))
}

/// Whole numbers: one, `[from, to]`, or `{from, to, by, skew}`.
fn whole(compiler: &mut Compiler, item: &Item<'_>, is_int: bool) -> Result<Template, Error> {
    let (least, most) =
        if is_int { (i64::from(i32::MIN), i64::from(i32::MAX)) } else { (i64::MIN, i64::MAX) };
    if item.value.is_number() {
        let value = item.whole(least, most)?;
        let value = if is_int {
            i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
        } else {
            Bson::Int64(value)
        };
        return Ok(Template::constant(&value));
    }
    let (from, to, zipfian) = ends(item)?;
    let (base, end) = (from.whole(least, most)?, to.whole(least, most)?);
    let above = range(compiler, item, end.checked_sub(base), zipfian)?;
    Ok(made(if is_int { Generator::Int { base, above } } else { Generator::Long { base, above } }))
}

/// The distribution of what is added to the lower end of a range.
fn range(
    compiler: &mut Compiler,
    item: &Item<'_>,
    width: Option<i64>,
    zipfian: Option<f64>,
) -> Result<Lengths, Error> {
    let width = width.and_then(|width| u64::try_from(width).ok()).filter(|width| *width < MAX_RANGE);
    let width = width.ok_or_else(|| item.refuse("'to' must not be below 'from', nor 2^62 above it"))?;
    match zipfian {
        Some(skew) => compiler.zipf(item, width + 1, skew),
        None => Ok(Lengths::Uniform { least: 0, most: width }),
    }
}

/// The two ends of a range, and the skew if it is zipfian.
fn ends<'a>(item: &Item<'a>) -> Result<(Item<'a>, Item<'a>, Option<f64>), Error> {
    if let Value::Sequence(_) = item.value {
        let [from, to] = <[Item<'a>; 2]>::try_from(item.list()?)
            .map_err(|_| item.refuse("a range has two ends, [from, to]"))?;
        return Ok((from, to, None));
    }
    let fields = item.fields(&["from", "to", "by", "skew"])?;
    let zipfian = match fields.text("by")? {
        None | Some("uniform") => None,
        Some("zipfian") => Some(fields.number("skew", 0.01, 0.999)?.unwrap_or(YCSB_SKEW)),
        Some(_) => return Err(fields.need("by")?.refuse("uniform or zipfian is expected")),
    };
    if fields.get("skew").is_some() && zipfian.is_none() {
        return Err(fields.need("skew")?.refuse("only zipfian has a skew"));
    }
    Ok((fields.need("from")?.clone(), fields.need("to")?.clone(), zipfian))
}

/// Reads a count: a number, `[least, most]`, or `{from, to, by, skew}`.
fn lengths(compiler: &mut Compiler, item: &Item<'_>, most: u64) -> Result<Lengths, Error> {
    if item.value.is_number() {
        return Ok(Lengths::Constant(item.count(0, most)?));
    }
    let (from, to, zipfian) = ends(item)?;
    let (from, to) = (from.count(0, most)?, to.count(0, most)?);
    let width = to.checked_sub(from).and_then(|width| i64::try_from(width).ok());
    Ok(match range(compiler, item, width, zipfian)? {
        Lengths::Zipfian { zipf, .. } => Lengths::Zipfian { least: from, zipf },
        _ => Lengths::Uniform { least: from, most: to },
    })
}

fn double(_: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    let bound = 1e300;
    if item.value.is_number() {
        return Ok(Template::constant(&Bson::Double(item.number(-bound, bound)?)));
    }
    let (from, to, decimals) = match item.value {
        Value::Sequence(_) => {
            let (from, to, _) = ends(item)?;
            (from, to, None)
        }
        _ => {
            let fields = item.fields(&["from", "to", "decimals"])?;
            let decimals = fields.count("decimals", 0, 15)?.and_then(|count| i32::try_from(count).ok());
            (fields.need("from")?.clone(), fields.need("to")?.clone(), decimals)
        }
    };
    let (from, to) = (from.number(-bound, bound)?, to.number(-bound, bound)?);
    if to < from {
        return Err(item.refuse("'to' must not be below 'from'"));
    }
    Ok(made(Generator::Double { from, to, decimals }))
}

fn boolean(_: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    let share = if *item.value == Value::Null { 0.5 } else { item.number(0.0, 1.0)? };
    Ok(made(Generator::Bool(share)))
}

fn text(compiler: &mut Compiler, item: &Item<'_>, binary: bool) -> Result<Template, Error> {
    let mut compressibility = 1.0;
    let lengths = match item.value {
        Value::Mapping(_) => {
            let fields = item.fields(&["length", "compressibility"])?;
            compressibility = fields.number("compressibility", 1.0, 1e6)?.unwrap_or(1.0);
            lengths(compiler, fields.need("length")?, MAX_BYTES)?
        }
        _ => lengths(compiler, item, MAX_BYTES)?,
    };
    Ok(made(Generator::Text { lengths, compressibility, binary }))
}

fn date(_: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    let (from, to) = match item.value {
        Value::Mapping(_) => {
            let fields = item.fields(&["from", "to"])?;
            (TimeValue::read(fields.need("from")?)?, TimeValue::read(fields.need("to")?)?)
        }
        Value::Sequence(_) => {
            let (from, to, _) = ends(item)?;
            (TimeValue::read(&from)?, TimeValue::read(&to)?)
        }
        _ => {
            let moment = TimeValue::read(item)?;
            (moment, moment)
        }
    };
    let now = DateTime::now();
    if to.millis(now) < from.millis(now) {
        return Err(item.refuse("'to' must not be before 'from'"));
    }
    Ok(made(Generator::Date { from, to }))
}

fn objectid(_: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    match item.value {
        Value::Null => Ok(made(Generator::ObjectId)),
        other => Err(item.refuse(format!("{} cannot be used here", kind(other)))),
    }
}

fn pick(compiler: &mut Compiler, item: &Item<'_>, depth: usize) -> Result<Template, Error> {
    let mut by = None;
    let list = match item.value {
        Value::Mapping(_) => {
            let fields = item.fields(&["from", "by", "skew", "weights"])?;
            let list = fields.need("from")?.clone();
            let count = list.list()?.len() as u64;
            by = match (fields.text("by")?, fields.get("weights")) {
                (None | Some("uniform"), None) => None,
                (Some("zipfian"), None) if count > 0 => {
                    let skew = fields.number("skew", 0.01, 0.999)?.unwrap_or(YCSB_SKEW);
                    Some(ChoiceRule::Place(compiler.zipf(&list, count, skew)?))
                }
                (None, Some(weights)) => Some(ChoiceRule::Weights(sums(weights, count)?)),
                _ => return Err(item.refuse("'by' is uniform or zipfian, and cannot be used with 'weights'")),
            };
            list
        }
        _ => item.clone(),
    };
    let values: Result<Vec<_>, _> =
        list.list()?.iter().map(|inner| compiler.at_depth(inner, depth)).collect();
    let values = values?;
    if values.is_empty() {
        return Err(list.refuse("there is nothing to pick from"));
    }
    let uniform = ChoiceRule::Place(Lengths::Uniform { least: 0, most: values.len() as u64 - 1 });
    Ok(made(Generator::ChoiceRule { values, by: by.unwrap_or(uniform) }))
}

/// Reads weights as cumulative shares of their sum.
fn sums(item: &Item<'_>, count: u64) -> Result<Vec<f64>, Error> {
    let weights: Result<Vec<f64>, _> = item.list()?.iter().map(|weight| weight.number(0.0, 1e9)).collect();
    let weights = weights?;
    let all: f64 = weights.iter().sum();
    if weights.len() as u64 != count || all <= 0.0 {
        return Err(item.refuse("there must be a weight for each value, and not all may be 0"));
    }
    let mut sum = 0.0;
    let sums = weights.iter().map(|weight| {
        sum += weight / all;
        sum
    });
    Ok(sums.collect())
}

fn array(compiler: &mut Compiler, item: &Item<'_>, depth: usize) -> Result<Template, Error> {
    let fields = item.fields(&["of", "length"])?;
    let lengths = lengths(compiler, fields.need("length")?, MAX_ITEMS)?;
    Ok(made(Generator::Array { of: compiler.at_depth(fields.need("of")?, depth)?, lengths }))
}

fn join(compiler: &mut Compiler, item: &Item<'_>, depth: usize) -> Result<Template, Error> {
    let mut parts = Vec::new();
    for inner in item.list()? {
        let part = compiler.at_depth(&inner, depth)?;
        let nested = match &part {
            Template::Document(_) | Template::Array(_) => true,
            Template::Generator(generator) => matches!(**generator, Generator::Array { .. }),
            Template::Constant(..) => matches!(inner.value, Value::Mapping(_) | Value::Sequence(_)),
        };
        if nested {
            return Err(inner.refuse("only texts, numbers and the like can be joined"));
        }
        parts.push(part);
    }
    Ok(made(Generator::Join(parts)))
}

fn optional(compiler: &mut Compiler, item: &Item<'_>, depth: usize) -> Result<Template, Error> {
    let fields = item.fields(&["share", "value"])?;
    let share = fields.need("share")?.number(0.0, 1.0)?;
    Ok(made(Generator::Optional { share, value: compiler.at_depth(fields.need("value")?, depth)? }))
}

fn existing(compiler: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    let mut settings = ChooserSettings { collection: 0, distribution: Distribution::Uniform, skew: None };
    let (mut name, mut field) = (item.clone(), "_id");
    if let Value::Mapping(_) = item.value {
        let fields = item.fields(&["collection", "field", "by", "skew", "data", "operations"])?;
        name = fields.need("collection")?.clone();
        field = fields.text("field")?.unwrap_or("_id");
        let by = fields.text("by")?.unwrap_or("uniform");
        settings.skew = fields.number("skew", 0.01, 0.999)?;
        settings.distribution = match by {
            "uniform" => Distribution::Uniform,
            "zipfian" => Distribution::Zipfian,
            "latest" => Distribution::Latest,
            "sequential" => Distribution::Sequential,
            "hotspot" => Distribution::Hotspot {
                data: fields.number("data", 0.0, 1.0)?.unwrap_or(0.2),
                operations: fields.number("operations", 0.0, 1.0)?.unwrap_or(0.8),
            },
            _ => {
                let known = ["uniform", "zipfian", "latest", "sequential", "hotspot"];
                return Err(fields.need("by")?.unknown("distribution", by, known.into_iter()));
            }
        };
        if settings.skew.is_some() && !matches!(by, "zipfian" | "latest") {
            return Err(fields.need("skew")?.refuse("only zipfian and latest have a skew"));
        }
        if by != "hotspot"
            && let Some(wrong) = fields.get("data").or(fields.get("operations"))
        {
            return Err(wrong.refuse("only hotspot has it"));
        }
    }
    settings.collection = collection(compiler, &name)?;
    Ok(made(Generator::Existing(compiler.add_existing(item, settings, field)?)))
}

fn variable(compiler: &mut Compiler, item: &Item<'_>, _: usize) -> Result<Template, Error> {
    let (mut name, mut times) = (item.clone(), None);
    if let Value::Mapping(_) = item.value {
        let fields = item.fields(&["name", "times"])?;
        name = fields.need("name")?.clone();
        times = fields.number("times", -1e9, 1e9)?;
    }
    let text = name.text()?;
    let Some(place) = compiler.variables.iter().position(|(known, _)| known == text) else {
        return Err(name.unknown(
            "value under 'let'",
            text,
            compiler.variables.iter().map(|(name, _)| name.as_str()),
        ));
    };
    let template = compiler.variables.get(place).map(|(_, template)| template);
    let number = template.is_some_and(Template::is_number);
    if times.is_some() && !number {
        return Err(item.refuse(format!("'{text}' is not always a number, which alone can be multiplied")));
    }
    let largest_bytes = template.map_or(0, Template::largest_bytes);
    Ok(made(Generator::Variable { place, times, largest_bytes, number }))
}
