//! Reads from an operation or a session in `$currentOp` whose it is: application, driver, host and connection.

use bson::{Bson, Document, RawBsonRef};
use fathom_record::text_without_credentials;

use super::snapshot::number_of;

/// A name that a client gives itself is cut at this length, in characters.
pub(super) const MAX_NAME_CHARACTERS: usize = 64;

/// The client of an operation or of a session.
pub(super) struct ShownClient {
    pub(super) application: Option<String>,
    /// Name and version of the driver: `PyMongo 3.13.0`.
    pub(super) driver: Option<String>,
    pub(super) host: Option<String>,
    pub(super) connection: Option<u64>,
}

impl ShownClient {
    pub(super) fn of(one: &Document) -> ShownClient {
        let text = |name: &str| one.get_str(name).ok();
        let application =
            text("appName").or_else(|| text_at(one, &["clientMetadata", "application"], "name"));
        ShownClient {
            application: application.map(client_words),
            driver: driver(one),
            host: text("client").or_else(|| text("client_s")).map(|client| {
                let host = client.rsplit_once(':').map_or(client, |(host, _)| host);
                client_words(host)
            }),
            connection: number(one, "connectionId"),
        }
    }
}

/// The number of an operation; a router's is text, with the shard's name.
pub(super) fn operation_number(one: &Document) -> Option<String> {
    let text = || one.get_str("opid").ok().map(client_words);
    number(one, "opid").map(|number| number.to_string()).or_else(text)
}

fn driver(one: &Document) -> Option<String> {
    let driver = one.get_document("clientMetadata").ok()?.get_document("driver").ok()?;
    let words: Vec<&str> = ["name", "version"].iter().filter_map(|name| driver.get_str(name).ok()).collect();
    (!words.is_empty()).then(|| client_words(&words.join(" ")))
}

/// A short text without control characters and without passwords.
pub(super) fn client_words(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARACTERS).collect();
    text_without_credentials(&text)
}

pub(super) fn text_at<'d>(document: &'d Document, path: &[&str], field: &str) -> Option<&'d str> {
    let inner = path.iter().try_fold(document, |document, name| document.get_document(name).ok())?;
    inner.get_str(field).ok()
}

pub(super) fn number(document: &Document, name: &str) -> Option<u64> {
    let value = match document.get(name)? {
        Bson::Int32(value) => number_of(RawBsonRef::Int32(*value)),
        Bson::Int64(value) => number_of(RawBsonRef::Int64(*value)),
        Bson::Double(value) => number_of(RawBsonRef::Double(*value)),
        _ => None,
    }?;
    (value >= 0.0).then_some(value as u64)
}
