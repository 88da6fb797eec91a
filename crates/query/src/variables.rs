//! Variables of a command: the time it began, and what `let` names.
use bson::{Bson, DateTime, Document};

/// What `$$NAME` stands for in an expression.
#[derive(Clone, Debug)]
pub struct Variables {
    /// `$$NOW`.
    pub now: DateTime,
    /// The command's `let`, its values evaluated. Most commands have none, and an empty document is not for nothing.
    named: Option<Box<Document>>,
}

impl Variables {
    /// With the time and nothing else.
    pub fn at(now: DateTime) -> Self {
        Variables { now, named: None }
    }

    /// A value by its name, without the dollars.
    pub fn get(&self, name: &str) -> Option<&Bson> {
        self.named.as_ref()?.get(name)
    }

    /// Gives a name a value.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Bson>) {
        self.named.get_or_insert_default().insert(name, value);
    }
}
