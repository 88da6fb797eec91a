//! A collection's validator: which documents it takes (`validator`, `validationLevel`, `validationAction`).

use bson::{Document, RawDocument, doc};
use fathom_query::{Code, Failure, Filter};

use crate::Result;
use crate::log::Log;

/// A validator that is in force.
#[derive(Debug)]
pub(crate) struct Validator {
    filter: Filter,
    /// `moderate`: a document that was invalid before may stay so.
    moderate: bool,
    /// `warn`: say it in the log and take the document.
    warn: bool,
}

impl Validator {
    /// The validator that a collection's options ask for; none if none.
    pub(crate) fn of(options: &Document) -> Result<Option<Validator>> {
        let level = options.get_str("validationLevel").unwrap_or("strict");
        if !matches!(level, "off" | "strict" | "moderate") {
            return Err(Failure::new(Code::BadValue, format!("invalid validation level: {level}")));
        }
        let action = options.get_str("validationAction").unwrap_or("error");
        if !matches!(action, "error" | "warn") {
            return Err(Failure::new(Code::BadValue, format!("invalid validation action: {action}")));
        }
        let Some(filter) = options.get_document("validator").ok().filter(|filter| !filter.is_empty()) else {
            return Ok(None);
        };
        let filter = crate::parse::filter_of(filter)?;
        Ok((level != "off").then_some(Validator {
            filter,
            moderate: level == "moderate",
            warn: action == "warn",
        }))
    }

    /// Refuses a document that does not pass (121), or says so in the log and takes it; `before` is what an update changes. The client is
    /// named by its number.
    pub(crate) fn check(
        &self,
        (log, client): (&Log, u64),
        namespace: &str,
        document: &RawDocument,
        before: Option<&RawDocument>,
    ) -> Result<()> {
        if self.filter.matches(document)?.is_some() {
            return Ok(());
        }
        if self.moderate
            && let Some(before) = before
            && self.filter.matches(before)?.is_none()
        {
            return Ok(());
        }
        if self.warn {
            let id = crate::parse::field(document, "_id").map(crate::parse::owned_value).transpose()?;
            let attributes = doc! { "namespace": namespace, "_id": id };
            let context = format!("conn{client}");
            log.warning("STORAGE", 20294, &context, "Document would fail validation", attributes);
            return Ok(());
        }
        Err(Failure::new(Code::DocumentValidationFailure, "Document failed validation"))
    }
}
