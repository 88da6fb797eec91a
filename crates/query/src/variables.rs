//! Variables of a command: the time it began, and what `let` names.
use bson::{Bson, DateTime, Document};

/// What `$$NAME` stands for in an expression.
#[derive(Clone, Debug)]
pub struct Variables {
    /// `$$NOW`.
    pub now: DateTime,
    /// The command's `let`, its values evaluated.
    pub named: Document,
}

impl Variables {
    /// With the time and nothing else.
    pub fn at(now: DateTime) -> Self {
        Variables { now, named: Document::new() }
    }

    /// A value by its name, without the dollars.
    pub fn get(&self, name: &str) -> Option<&Bson> {
        self.named.get(name)
    }
}
