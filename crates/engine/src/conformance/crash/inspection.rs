//! What is left after a kill, compared with what was promised.

use std::collections::BTreeSet;
use std::path::Path;

use super::content::{
    Content, ENTRIES, KEPT, RECORDS, WRITERS, Writers, entry_key, head_key, parse_record_key, record_key,
};
use crate::conformance::Subject;
use crate::conformance::fixture::{OwnedKey, all};
use crate::{Engine, Kind, Table};

type Inspected<T> = Result<T, String>;

/// Opens the folder, checks everything and closes again; the newest commit of each writer that is there.
pub(super) fn inspect(subject: &Subject<'_>, folder: &Path, durable: &Writers) -> Inspected<Writers> {
    let engine = (subject.open)(folder).map_err(|error| format!("the engine does not open: {error}"))?;
    let result = look(&*engine, durable);
    let closed = engine.close().map_err(|error| format!("the engine does not close: {error}"));
    result.and_then(|found| closed.map(|()| found))
}

fn look(engine: &dyn Engine, durable: &Writers) -> Inspected<Writers> {
    let (Some(records), Some(entries)) = (open(engine, RECORDS)?, open(engine, ENTRIES)?) else {
        // The child was killed before it had made its tables.
        return if *durable == [0; WRITERS] { Ok(*durable) } else { Err("a table is gone".to_owned()) };
    };
    let session = engine.session().map_err(|error| error.to_string())?;
    let mut heads = [0; WRITERS];
    let mut found = BTreeSet::new();
    let mut contents = Vec::new();
    for (key, value) in all(&*session, &records) {
        let key = key.as_key().number().ok_or("a record whose key is no number")?;
        let content = Content::decode(&value).ok_or_else(|| format!("the value of record {key} is torn"))?;
        match parse_record_key(key) {
            Some(own) if own == (content.writer, content.sequence) => found.insert(own),
            None if key == head_key(content.writer) => {
                heads[content.writer] = content.sequence;
                true
            }
            _ => return Err(format!("record {key} has the value of another: {content:?}")),
        };
        contents.push(content);
    }
    check_heads(&heads, durable)?;
    check_records(&heads, &found)?;
    check_order(&heads, &contents)?;
    let expected: BTreeSet<(OwnedKey, Vec<u8>)> =
        found.iter().map(|(writer, sequence)| entry(*writer, *sequence)).collect();
    let held: BTreeSet<_> = all(&*session, &entries).into_iter().collect();
    if let Some((key, _)) = expected.symmetric_difference(&held).next() {
        return Err(format!("the tables disagree on index entry {key:?}: half a transaction is there"));
    }
    Ok(heads)
}

fn open(engine: &dyn Engine, ident: &str) -> Inspected<Option<Table>> {
    match engine.open_table(ident) {
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(|error| format!("table {ident} does not open: {error}")),
    }
}

fn entry(writer: usize, sequence: u64) -> (OwnedKey, Vec<u8>) {
    (OwnedKey::Bytes(entry_key(writer, sequence)), record_key(writer, sequence).to_le_bytes().to_vec())
}

/// Nothing that was promised is lost.
fn check_heads(heads: &Writers, durable: &Writers) -> Inspected<()> {
    for (writer, (head, durable)) in heads.iter().zip(durable).enumerate() {
        if head < durable {
            return Err(format!("writer {writer} is at {head}, but {durable} was acknowledged as durable"));
        }
    }
    Ok(())
}

/// Each writer's records are those that its newest commit left, no more and no fewer.
fn check_records(heads: &Writers, found: &BTreeSet<(usize, u64)>) -> Inspected<()> {
    let mut expected = BTreeSet::new();
    for (writer, head) in heads.iter().enumerate() {
        let first = head.saturating_sub(KEPT[writer]) + 1;
        expected.extend((first..=*head).map(|sequence| (writer, sequence)));
    }
    match expected.symmetric_difference(found).next() {
        Some(one) if found.contains(one) => {
            Err(format!("record {one:?} is there and must not be; heads {heads:?}"))
        }
        Some(one) => Err(format!("record {one:?} is not there, but later ones are; heads {heads:?}")),
        None => Ok(()),
    }
}

/// A commit is not there without those that were committed before it began.
fn check_order(heads: &Writers, contents: &[Content]) -> Inspected<()> {
    match contents.iter().find(|content| content.seen.iter().zip(heads).any(|(seen, head)| seen > head)) {
        Some(content) => Err(format!("{content:?} survived, and commits before it did not; heads {heads:?}")),
        None => Ok(()),
    }
}
