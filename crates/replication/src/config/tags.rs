//! Custom write concern modes: how many different values of which tags must have a write
//! (mongodb/mongo:src/mongo/db/repl/repl_set_tag.cpp).

use std::collections::BTreeSet;

use bson::{Bson, Document};
use fathom_wire::{Code, Failure};

use super::Member;
use crate::fields;

/// For each tag, how many different values are wanted: `{dc: 2, rack: 3}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagPattern {
    wanted: Vec<(String, u32)>,
}

impl TagPattern {
    /// Reads the document of one mode, for a set with these members.
    pub(super) fn parse(mode: &str, document: &Document, members: &[Member]) -> Result<TagPattern, Failure> {
        let place = format!("settings.getLastErrorModes.{mode}");
        let mut wanted = Vec::new();
        for (key, value) in document {
            let Some(count) = fields::number(value) else {
                let found = fields::type_name(value);
                let what = format!("Expected {place}.{key} to be a number, not {found}");
                return Err(Failure::new(Code::TypeMismatch, what));
            };
            let count = Bson::Double(count.trunc());
            let count = fields::whole(&count).unwrap_or(0);
            let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else {
                let what = format!("Value of {place}.{key} must be positive, but found {value}");
                return Err(Failure::new(Code::BadValue, what));
            };
            if !members.iter().any(|member| member.tags.iter().any(|(tag, _)| tag == key)) {
                let what = format!(
                    "No replica set tag with key \"{key}\" is set on a member, but {place} asks for it"
                );
                return Err(Failure::new(Code::NoSuchKey, what));
            }
            wanted.push((key.clone(), count));
        }
        Ok(TagPattern { wanted })
    }

    /// `{tag: count}`.
    pub(super) fn to_document(&self) -> Document {
        self.wanted.iter().map(|(key, count)| (key.clone(), i64::from(*count).into())).collect::<Document>()
    }

    /// Whether these members together fulfil it. A pattern that wants nothing needs at least one tagged member, as in MongoDB.
    pub fn is_matched_by<'m>(&self, members: impl Iterator<Item = &'m Member>) -> bool {
        let tags: BTreeSet<(&str, &str)> = members
            .flat_map(|member| &member.tags)
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        !tags.is_empty()
            && self.wanted.iter().all(|(key, count)| {
                let values = tags.iter().filter(|(tag, _)| tag == key).count();
                u32::try_from(values).is_ok_and(|values| values >= *count)
            })
    }
}
