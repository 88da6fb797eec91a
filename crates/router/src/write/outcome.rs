//! The result of a batch: combines the shards' replies under the client's own indexes.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocument};
use fathom_service::parse;
use fathom_wire::{Code, DocumentWriter, Failure};

use super::statements::BatchType;
use crate::Result;
use crate::route::is_stale;

/// The result so far.
#[derive(Debug, Default)]
pub(crate) struct WriteOutcome {
    count: i64,
    modified: i64,
    /// The `_id` of each upserted document, by the position of its statement.
    upserted: BTreeMap<usize, Bson>,
    /// By position; the first error of each statement is kept.
    errors: BTreeMap<usize, Document>,
    write_concern_errors: Vec<Document>,
    answered: bool,
    /// The shards that refused their part of the last round as stale.
    pub(super) refused: Vec<String>,
}

impl WriteOutcome {
    /// Whether nothing was executed and nothing failed.
    pub(super) fn is_empty(&self) -> bool {
        !self.answered && self.errors.is_empty()
    }

    /// Whether any statement failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Notes that a statement failed.
    pub(super) fn fail(&mut self, place: usize, failure: &Failure) {
        let mut error = bson::doc! { "code": failure.code().0, "errmsg": failure.message() };
        error.extend(failure.extra().clone());
        self.errors.entry(place).or_insert(error);
    }

    /// Takes a shard's reply to the statements at `places`; returns those that it refused as stale.
    pub(super) fn take(&mut self, reply: &RawDocument, places: &[usize]) -> Result<Vec<usize>> {
        self.answered = true;
        let place_of = |item: &RawDocument| -> Result<Option<usize>> {
            let index = parse::integer(item, "index")?.and_then(|index| usize::try_from(index).ok());
            Ok(index.and_then(|index| places.get(index).copied()))
        };
        self.count += parse::integer(reply, "n")?.unwrap_or(0);
        self.modified += parse::integer(reply, "nModified")?.unwrap_or(0);
        for item in parse::documents(reply, "upserted")?.unwrap_or_default() {
            if let (Some(place), Some(id)) = (place_of(item)?, parse::field(item, "_id")) {
                self.upserted.insert(place, parse::owned_value(id)?);
            }
        }
        let mut stale = Vec::new();
        for item in parse::documents(reply, "writeErrors")?.unwrap_or_default() {
            let Some(place) = place_of(item)? else { continue };
            let code = Code(i32::try_from(parse::integer(item, "code")?.unwrap_or(0)).unwrap_or(0));
            if is_stale(code) {
                stale.push(place);
                continue;
            }
            let mut error = parse::owned(item)?;
            error.remove("index");
            self.errors.entry(place).or_insert(error);
        }
        if let Some(error) = parse::document(reply, "writeConcernError")? {
            self.write_concern_errors.push(parse::owned(error)?);
        }
        Ok(stale)
    }

    /// Writes the result as the reply of a batch.
    pub(super) fn write(&self, verb: BatchType, reply: &mut DocumentWriter<'_>) {
        let number = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        reply.i32("n", i32::try_from(self.count).unwrap_or(i32::MAX));
        if verb == BatchType::Update {
            if !self.upserted.is_empty() {
                let mut array = reply.begin_array("upserted");
                for (place, id) in &self.upserted {
                    let mut item = array.begin_document();
                    item.i32("index", number(*place));
                    item.bson("_id", id);
                }
            }
            reply.i32("nModified", i32::try_from(self.modified).unwrap_or(i32::MAX));
        }
        if !self.errors.is_empty() {
            let mut array = reply.begin_array("writeErrors");
            for (place, error) in &self.errors {
                let mut item = array.begin_document();
                item.i32("index", number(*place));
                item.extend(error);
            }
        }
        match self.write_concern_errors.as_slice() {
            [] => {}
            [one] => reply.bson("writeConcernError", &Bson::Document(one.clone())),
            several => {
                let texts: Vec<&str> =
                    several.iter().filter_map(|error| error.get_str("errmsg").ok()).collect();
                let mut error = reply.begin_document("writeConcernError");
                error.i32(
                    "code",
                    several
                        .first()
                        .and_then(|error| error.get_i32("code").ok())
                        .unwrap_or(Code::WriteConcernFailed.0),
                );
                error.string("errmsg", &format!("multiple errors reported : {}", texts.join(" :: and :: ")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn places_are_the_clients_and_counts_are_sums() {
        let mut outcome = WriteOutcome::default();
        let one = rawdoc! { "n": 2, "nModified": 1, "upserted": [{ "index": 1, "_id": "x" }], "ok": 1 };
        assert!(outcome.take(&one, &[4, 7]).unwrap().is_empty());
        let two = rawdoc! {
            "n": 1, "nModified": 1, "ok": 1,
            "writeErrors": [
                { "index": 1, "code": 11000, "errmsg": "dup", "keyPattern": { "_id": 1 } },
                { "index": 2, "code": 13388, "errmsg": "stale" },
            ],
        };
        assert_eq!(outcome.take(&two, &[1, 5, 9]).unwrap(), [9]);
        let mut bytes = Vec::new();
        let mut reply = DocumentWriter::new(&mut bytes);
        outcome.write(BatchType::Update, &mut reply);
        reply.end();
        let reply = Document::from_reader(bytes.as_slice()).unwrap();
        let expected = doc! {
            "n": 3,
            "upserted": [{ "index": 7, "_id": "x" }],
            "nModified": 2,
            "writeErrors": [{ "index": 5, "code": 11000, "errmsg": "dup", "keyPattern": { "_id": 1 } }],
        };
        assert_eq!(reply, expected);
    }
}
