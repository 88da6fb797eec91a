//! The fail point `failCommand`: the commands that it affects, and its effects on them.

use std::time::Duration;

use bson::{Bson, Document, RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::client::Client;
use crate::parse;
use crate::request::Request;

/// The maximum time for which a command can be blocked.
const MAX_BLOCK_MS: u64 = 10 * 60 * 1000;

/// `data` of the fail point.
#[derive(Clone, Debug, Default)]
pub(super) struct FailCommand {
    commands: Vec<String>,
    app_name: Option<String>,
    /// `database.collection`; if set, only commands on it are affected.
    namespace: Option<String>,
    error_code: Option<Code>,
    error_labels: Option<Vec<Bson>>,
    error_extra: Option<Document>,
    pub(super) close_connection: bool,
    pub(super) block: Option<Duration>,
    write_concern_error: Option<Document>,
}

/// The fields that a fail point adds to a successful reply.
#[derive(Debug)]
pub(crate) struct ReplyAdditions {
    pub(super) fields: Document,
}

impl FailCommand {
    /// Reads the data; an unknown field is refused.
    pub(super) fn parse(data: &RawDocument) -> Result<FailCommand> {
        let mut point = FailCommand::default();
        let mut block_ms = None;
        for element in data {
            let (name, value) = element.map_err(|error| parse::malformed(&error))?;
            match name.as_str() {
                "failCommands" => point.commands = strings(name.as_str(), value)?,
                "appName" => point.app_name = Some(string(name.as_str(), value)?),
                "namespace" => point.namespace = Some(string(name.as_str(), value)?),
                "errorCode" => {
                    let code = parse::integer_of(value).and_then(|code| i32::try_from(code).ok());
                    let code = code.ok_or_else(|| parse::wrong_type("data.errorCode", value, "int"))?;
                    point.error_code = Some(Code(code)).filter(|code| code.0 != 0);
                }
                "errorLabels" => {
                    let labels = strings(name.as_str(), value)?;
                    point.error_labels = Some(labels.into_iter().map(Bson::from).collect());
                }
                "errorExtraInfo" => point.error_extra = Some(document(name.as_str(), value)?),
                "writeConcernError" => point.write_concern_error = Some(document(name.as_str(), value)?),
                "closeConnection" => point.close_connection = parse::truth_of(value),
                "blockConnection" => {
                    point.block = parse::truth_of(value).then_some(Duration::ZERO);
                }
                "blockTimeMS" => {
                    let time = parse::integer_of(value).and_then(|time| u64::try_from(time).ok());
                    block_ms = Some(time.filter(|time| *time <= MAX_BLOCK_MS).ok_or_else(|| {
                        Failure::new(
                            Code::InvalidOptions,
                            format!("blockTimeMS must be between 0 and {MAX_BLOCK_MS}"),
                        )
                    })?);
                }
                // This server has no internal clients, so the option has no effect.
                "failInternalCommands" => {}
                other => {
                    let what = format!("the data of failCommand has an unknown field '{other}'");
                    return Err(Failure::new(Code::InvalidOptions, what));
                }
            }
        }
        if let Some(block) = &mut point.block {
            *block = Duration::from_millis(block_ms.ok_or_else(|| {
                let what = "must specify 'blockTimeMS' when 'blockConnection' is true";
                Failure::new(Code::InvalidOptions, what)
            })?);
        }
        Ok(point)
    }

    /// Whether the fail point affects this request.
    pub(super) fn concerns(&self, client: &Client, request: &Request<'_>) -> bool {
        let name = request.body().iter().next().and_then(Result::ok).map_or("", |(name, _)| name.as_str());
        self.commands.iter().any(|one| named(one, name, request.command.name))
            && self.app_name.as_ref().is_none_or(|wanted| client.app_name().as_ref() == Some(wanted))
            && self.namespace.as_ref().is_none_or(|wanted| request.namespace().as_ref() == Ok(wanted))
    }

    /// The failure with which the command ends, if any.
    pub(super) fn failure(&self) -> Option<Failure> {
        let code = self.error_code?;
        let mut failure = Failure::new(code, "Failing command via 'failCommand' failpoint");
        for (name, value) in self.error_extra.iter().flatten() {
            failure = failure.with(name, value.clone());
        }
        if let Some(labels) = self.error_labels.as_ref().filter(|labels| !labels.is_empty()) {
            failure = failure.with("errorLabels", labels.clone());
        }
        Some(failure)
    }

    /// The additions to the reply of a command that succeeds.
    pub(super) fn injected(&self) -> Option<ReplyAdditions> {
        let error = self.write_concern_error.as_ref()?;
        let mut fields = Document::new();
        fields.insert("writeConcernError", error.clone());
        if let Some(labels) = self.error_labels.as_ref().filter(|labels| !labels.is_empty()) {
            fields.insert("errorLabels", labels.clone());
        }
        Some(ReplyAdditions { fields })
    }
}

/// Whether a listed name means the command that was sent as `used`. hello and its two old spellings are one row of our table, but
/// two commands of mongod.
fn named(listed: &str, used: &str, row: &str) -> bool {
    if row == "hello" {
        return (listed == "hello") == (used == "hello")
            && matches!(listed, "hello" | "isMaster" | "ismaster");
    }
    listed == used || listed == row
}

fn string(name: &str, value: RawBsonRef<'_>) -> Result<String> {
    match value {
        RawBsonRef::String(text) => Ok(text.to_owned()),
        other => Err(parse::wrong_type(&format!("data.{name}"), other, "string")),
    }
}

fn strings(name: &str, value: RawBsonRef<'_>) -> Result<Vec<String>> {
    let RawBsonRef::Array(items) = value else {
        return Err(parse::wrong_type(&format!("data.{name}"), value, "array"));
    };
    items.into_iter().map(|item| string(name, item.map_err(|error| parse::malformed(&error))?)).collect()
}

fn document(name: &str, value: RawBsonRef<'_>) -> Result<Document> {
    match value {
        RawBsonRef::Document(inner) => parse::owned(inner),
        other => Err(parse::wrong_type(&format!("data.{name}"), other, "object")),
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn names_mean_what_mongod_means_by_them() {
        assert!(named("find", "find", "find"));
        assert!(named("findAndModify", "findandmodify", "findAndModify"));
        assert!(named("isMaster", "ismaster", "hello") && named("hello", "hello", "hello"));
        assert!(!named("isMaster", "hello", "hello") && !named("hello", "isMaster", "hello"));
        assert!(!named("find", "hello", "hello"));
    }

    #[test]
    fn data_that_makes_no_sense_is_refused() {
        for bad in [
            rawdoc! { "failCommands": "find" },
            rawdoc! { "failCommands": [1] },
            rawdoc! { "errorCode": "x" },
            rawdoc! { "blockConnection": true },
            rawdoc! { "blockConnection": true, "blockTimeMS": -1 },
            rawdoc! { "threadName": "x" },
        ] {
            assert!(FailCommand::parse(&bad).is_err(), "{bad:?}");
        }
        let point = FailCommand::parse(&rawdoc! { "errorCode": 10107, "errorLabels": ["A"] }).unwrap();
        let failure = point.failure().unwrap();
        assert_eq!(failure.code(), Code::NotWritablePrimary);
        assert_eq!(failure.extra().get_array("errorLabels").unwrap().len(), 1);
    }
}
