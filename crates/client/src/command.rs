//! What can be sent as a command: a document in any of the forms that callers have it in.

use bson::{Document, RawDocument, RawDocumentBuf};
use fathom_wire::DocumentWriter;

/// A command document, of which the first field names the command.
pub trait Command {
    /// Writes the fields into the body of a message.
    fn write(&self, body: &mut DocumentWriter<'_>);

    /// The name of the command; empty for an empty document.
    fn name(&self) -> &str;
}

impl Command for RawDocument {
    fn write(&self, body: &mut DocumentWriter<'_>) {
        body.extend_raw(self);
    }

    fn name(&self) -> &str {
        self.iter_elements().next().and_then(Result::ok).map_or("", |element| element.key().as_str())
    }
}

impl Command for RawDocumentBuf {
    fn write(&self, body: &mut DocumentWriter<'_>) {
        body.extend_raw(self);
    }

    fn name(&self) -> &str {
        RawDocument::name(self)
    }
}

impl Command for Document {
    fn write(&self, body: &mut DocumentWriter<'_>) {
        body.extend(self);
    }

    fn name(&self) -> &str {
        self.keys().next().map_or("", String::as_str)
    }
}
