//! Reads the operations from the file.

use fathom_errors::Error;
use serde_yaml_ng::Value;

use super::super::collections::{MAX_BYTES, WorkloadCollection, record};
use super::super::item::{Item, MappingEntries, kind};
use super::super::template::{Compiler, Generator, Template, collection};
use super::{LOAD, Operation, StepCommand, TransactionOptions, UpdateStatement, WorkloadStep};

/// The most operations, steps of one, and statements of a bulk.
const MAX_OPERATIONS: usize = 256;
const MAX_STEPS: usize = 100;
const MAX_STATEMENTS: u64 = 100_000;
const MAX_DOCUMENTS: u64 = 100_000;
/// The most variables of an operation.
const MAX_VARIABLES: usize = 100;
/// The most documents that a read may request or skip.
const MAX_READ: u64 = i32::MAX as u64;

type CommandReader =
    fn(&mut Compiler, &MappingEntries<'_>, &[WorkloadCollection]) -> Result<StepCommand, Error>;

/// Table: the kinds of single commands, with the keys of each.
const KINDS: [(&str, &[&str], CommandReader); 9] = [
    (
        "find",
        &["collection", "filter", "sort", "projection", "hint", "skip", "limit", "batchSize", "mustMatch"],
        find,
    ),
    ("insert", &["collection", "document", "documents", "ordered"], insert),
    ("update", &["collection", "filter", "update", "multi", "upsert", "arrayFilters", "mustMatch"], update),
    ("bulkWrite", &["collection", "updates", "times", "ordered"], bulk_write),
    ("delete", &["collection", "filter", "multi", "mustMatch"], delete),
    (
        "findAndModify",
        &["collection", "filter", "sort", "projection", "update", "remove", "new", "upsert", "mustMatch"],
        find_and_modify,
    ),
    ("aggregate", &["collection", "pipeline", "allowDiskUse", "batchSize", "limit"], aggregate),
    ("count", &["collection", "filter", "limit"], count),
    ("distinct", &["collection", "key", "filter"], distinct),
];
const TRANSACTION: &str = "transaction";
const READ_MODIFY_WRITE: &str = "readModifyWrite";

fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, _, _)| *name).chain([TRANSACTION, READ_MODIFY_WRITE])
}

pub(in super::super) fn read(
    compiler: &mut Compiler,
    item: &Item<'_>,
    collections: &[WorkloadCollection],
) -> Result<Vec<Operation>, Error> {
    let entries = item.entries()?;
    if entries.len() > MAX_OPERATIONS {
        return Err(item.refuse(format!("there are more than {MAX_OPERATIONS} operations")));
    }
    entries.iter().map(|(name, inner)| operation(compiler, name, inner, collections)).collect()
}

fn operation(
    compiler: &mut Compiler,
    name: &str,
    item: &Item<'_>,
    collections: &[WorkloadCollection],
) -> Result<Operation, Error> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if name.is_empty() || name.len() > 60 || !name.chars().all(plain) || name == LOAD {
        return Err(
            item.refuse("an operation's name has 1 to 60 letters, digits, '_' or '-', and is not LOAD")
        );
    }
    let entries = item.entries()?;
    compiler.variables.clear();
    if let Some((_, variables)) = entries.iter().find(|(name, _)| *name == "let") {
        read_variables(compiler, variables)?;
    }
    let mut rest = entries.iter().filter(|(name, _)| *name != "let");
    let (Some((kind, inner)), None) = (rest.next(), rest.next()) else {
        let kinds: Vec<&str> = kinds().collect();
        return Err(item.refuse(format!("besides 'let' it has exactly one of {}", kinds.join(", "))));
    };
    let (steps, transaction) = match *kind {
        TRANSACTION => read_transaction(compiler, inner, collections)?,
        READ_MODIFY_WRITE => (read_modify_write(compiler, inner, collections)?, None),
        _ => (vec![step(compiler, kind, inner, collections)?], None),
    };
    let variables =
        std::mem::take(&mut compiler.variables).into_iter().map(|(_, template)| template).collect();
    Ok(Operation { name: name.to_owned(), variables, steps, transaction })
}

fn read_variables(compiler: &mut Compiler, item: &Item<'_>) -> Result<(), Error> {
    let entries = item.entries()?;
    if entries.len() > MAX_VARIABLES {
        return Err(item.refuse(format!("there are more than {MAX_VARIABLES} values")));
    }
    for (name, inner) in entries {
        let template = sized(compiler.template(&inner)?, &inner)?;
        compiler.variables.push((name.to_owned(), template));
    }
    Ok(())
}

/// Reads a command of one of the [`KINDS`].
fn step(
    compiler: &mut Compiler,
    name: &str,
    item: &Item<'_>,
    collections: &[WorkloadCollection],
) -> Result<WorkloadStep, Error> {
    let Some((_, keys, reader)) = KINDS.iter().find(|(known, _, _)| *known == name) else {
        return Err(item.unknown("kind of operation", name, kinds()));
    };
    let fields = item.fields(keys)?;
    let place = collection(compiler, fields.need("collection")?)?;
    let command = reader(compiler, &fields, collections)?;
    if command.templates().iter().fold(0_u64, |sum, one| sum.saturating_add(one.largest_bytes())) > MAX_BYTES
    {
        return Err(item.refuse(format!("the command may become larger than {MAX_BYTES} bytes")));
    }
    // By default a command that names an existing record must find it; a value of another collection need not occur in this one.
    let names_one = command.filter().is_some_and(|filter| names_existing(compiler, place, filter));
    let reads_one = !matches!(command, StepCommand::Count { .. } | StepCommand::Distinct { .. });
    let must_match = fields.truth("mustMatch", names_one && reads_one)?;
    Ok(WorkloadStep { collection: place, command, must_match })
}

fn names_existing(compiler: &Compiler, collection: usize, template: &Template) -> bool {
    template.any(&|generator| match generator {
        Generator::Existing(place) => {
            compiler.existing.get(*place).is_some_and(|existing| existing.collection == collection)
        }
        Generator::Variable { place, .. } => {
            // A variable may use those before it, never itself.
            compiler
                .variables
                .get(*place)
                .is_some_and(|(_, template)| names_existing(compiler, collection, template))
        }
        _ => false,
    })
}

fn read_transaction(
    compiler: &mut Compiler,
    item: &Item<'_>,
    collections: &[WorkloadCollection],
) -> Result<(Vec<WorkloadStep>, Option<TransactionOptions>), Error> {
    let fields = item.fields(&["steps", "retries", "readConcern"])?;
    let list = fields.need("steps")?;
    let items = list.list()?;
    if items.is_empty() || items.len() > MAX_STEPS {
        return Err(list.refuse(format!("a transaction has 1 to {MAX_STEPS} steps")));
    }
    let mut steps = Vec::new();
    for inner in &items {
        let entries = inner.entries()?;
        let [(kind, command)] = entries.as_slice() else {
            return Err(inner.refuse("a step has exactly one command"));
        };
        if *kind == "count" {
            return Err(command
                .refuse("count is not allowed in a transaction")
                .advise("count with an aggregate and $count"));
        }
        if matches!(*kind, TRANSACTION | READ_MODIFY_WRITE) {
            return Err(command.refuse(format!("{kind} cannot be a step of a transaction")));
        }
        steps.push(step(compiler, kind, command, collections)?);
    }
    let retries = fields.count("retries", 0, 1_000_000)?.unwrap_or(0);
    let read_concern = fields.text("readConcern")?.map(str::to_owned);
    Ok((steps, Some(TransactionOptions { read_concern, retries })))
}

/// A find and then an update of the same document: the filter's values are drawn once.
fn read_modify_write(
    compiler: &mut Compiler,
    item: &Item<'_>,
    collections: &[WorkloadCollection],
) -> Result<Vec<WorkloadStep>, Error> {
    let fields = item.fields(&["collection", "filter", "projection", "update"])?;
    let place = collection(compiler, fields.need("collection")?)?;
    let filter = document(compiler, &fields, "filter")?;
    compiler.variables.push(("filter of the read".to_owned(), filter));
    let variable = Generator::Variable {
        place: compiler.variables.len() - 1,
        times: None,
        largest_bytes: MAX_BYTES / 4,
        number: false,
    };
    let filter = Template::Generator(Box::new(variable));
    let projection = optional_document(compiler, &fields, "projection")?;
    let statement = statement(compiler, &fields, filter.clone())?;
    let find = StepCommand::Find {
        filter,
        sort: None,
        projection,
        hint: None,
        skip: None,
        limit: Some(1),
        batch_size: None,
    };
    let update = StepCommand::Update { statements: vec![statement], times: 1, ordered: true };
    let _ = collections;
    let step = |command| WorkloadStep { collection: place, command, must_match: true };
    Ok(vec![step(find), step(update)])
}

fn sized(template: Template, item: &Item<'_>) -> Result<Template, Error> {
    if template.largest_bytes() > MAX_BYTES {
        return Err(item.refuse(format!("it may become larger than {MAX_BYTES} bytes")));
    }
    Ok(template)
}

/// A document, empty if it is left out.
fn document(compiler: &mut Compiler, fields: &MappingEntries<'_>, name: &str) -> Result<Template, Error> {
    Ok(optional_document(compiler, fields, name)?.unwrap_or_else(Template::empty))
}

fn optional_document(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    name: &str,
) -> Result<Option<Template>, Error> {
    fields.get(name).map(|item| sized(compiler.document(item)?, item)).transpose()
}

fn find(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    Ok(StepCommand::Find {
        filter: document(compiler, fields, "filter")?,
        sort: optional_document(compiler, fields, "sort")?,
        projection: optional_document(compiler, fields, "projection")?,
        hint: fields.get("hint").map(|hint| compiler.template(hint)).transpose()?,
        skip: fields.count("skip", 0, MAX_READ)?,
        limit: fields.count("limit", 1, MAX_READ)?,
        batch_size: fields.count("batchSize", 1, MAX_READ)?,
    })
}

fn insert(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    collections: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    let place = collection(compiler, fields.need("collection")?)?;
    let own = collections.get(place).and_then(|collection| collection.document.as_ref());
    let document = fields.get("document").map(|item| record(compiler, item)).transpose()?;
    let Some(template) = document.as_ref().or(own) else {
        return Err(fields
            .item()
            .refuse("neither here nor at the collection does 'document' say what is inserted"));
    };
    let documents = fields.count("documents", 1, MAX_DOCUMENTS)?.unwrap_or(1);
    let most = super::super::most_in_a_message(template);
    if documents > most {
        return Err(fields
            .need("documents")?
            .refuse(format!("a message takes {most} documents of this size at most")));
    }
    let ordered = fields.truth("ordered", documents == 1)?;
    Ok(StepCommand::Insert { document, documents, ordered })
}

fn statement(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    filter: Template,
) -> Result<UpdateStatement, Error> {
    let array_filters = fields.get("arrayFilters").map(|item| {
        item.list()?;
        sized(compiler.template(item)?, item)
    });
    Ok(UpdateStatement {
        filter,
        update: change(compiler, fields.need("update")?)?,
        multi: fields.truth("multi", false)?,
        upsert: fields.truth("upsert", false)?,
        array_filters: array_filters.transpose()?,
    })
}

/// An update: a document or a pipeline.
fn change(compiler: &mut Compiler, item: &Item<'_>) -> Result<Template, Error> {
    match item.value {
        Value::Mapping(_) | Value::Sequence(_) => sized(compiler.template(item)?, item),
        other => {
            Err(item.refuse(format!("{} is not an update, which is a document or a pipeline", kind(other))))
        }
    }
}

fn update(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    let filter = document(compiler, fields, "filter")?;
    Ok(StepCommand::Update {
        statements: vec![statement(compiler, fields, filter)?],
        times: 1,
        ordered: true,
    })
}

fn bulk_write(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    let list = fields.need("updates")?;
    let mut statements = Vec::new();
    for item in list.list()? {
        let inner = item.fields(&["filter", "update", "multi", "upsert", "arrayFilters"])?;
        let filter = document(compiler, &inner, "filter")?;
        statements.push(statement(compiler, &inner, filter)?);
    }
    let times = fields.count("times", 1, MAX_STATEMENTS)?.unwrap_or(1);
    let count = (statements.len() as u64).saturating_mul(times);
    if !(1..=MAX_STATEMENTS).contains(&count) {
        return Err(list.refuse(format!("a bulk has 1 to {MAX_STATEMENTS} statements")));
    }
    let one: u64 = statements
        .iter()
        .map(|one| one.filter.largest_bytes().saturating_add(one.update.largest_bytes()))
        .sum();
    if one.saturating_mul(times) > super::super::MAX_MESSAGE_BYTES {
        return Err(list.refuse("so many statements may be larger than a message"));
    }
    Ok(StepCommand::Update { statements, times, ordered: fields.truth("ordered", true)? })
}

fn delete(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    Ok(StepCommand::Delete {
        filter: document(compiler, fields, "filter")?,
        multi: fields.truth("multi", false)?,
    })
}

fn find_and_modify(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    let remove = fields.truth("remove", false)?;
    let update = fields.get("update").map(|item| change(compiler, item)).transpose()?;
    if remove == update.is_some() {
        return Err(fields.item().refuse("it has either an 'update' or 'remove: true'"));
    }
    let (new, upsert) = (fields.truth("new", false)?, fields.truth("upsert", false)?);
    if remove && (new || upsert) {
        return Err(fields.item().refuse("'new' and 'upsert' do not go with 'remove'"));
    }
    Ok(StepCommand::FindAndModify {
        filter: document(compiler, fields, "filter")?,
        sort: optional_document(compiler, fields, "sort")?,
        projection: optional_document(compiler, fields, "projection")?,
        update,
        new,
        upsert,
    })
}

fn aggregate(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    let pipeline = fields.need("pipeline")?;
    pipeline.list()?;
    Ok(StepCommand::Aggregate {
        pipeline: sized(compiler.template(pipeline)?, pipeline)?,
        allow_disk_use: fields.truth("allowDiskUse", false)?,
        batch_size: fields.count("batchSize", 1, MAX_READ)?,
        limit: fields.count("limit", 1, MAX_READ)?,
    })
}

fn count(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    Ok(StepCommand::Count {
        filter: document(compiler, fields, "filter")?,
        limit: fields.count("limit", 1, MAX_READ)?,
    })
}

fn distinct(
    compiler: &mut Compiler,
    fields: &MappingEntries<'_>,
    _: &[WorkloadCollection],
) -> Result<StepCommand, Error> {
    let key = fields.need("key")?.text()?.to_owned();
    if key.contains('\0') {
        return Err(fields.need("key")?.refuse("it holds a NUL"));
    }
    Ok(StepCommand::Distinct { key, filter: document(compiler, fields, "filter")? })
}
