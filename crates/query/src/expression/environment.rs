//! What an expression is evaluated in: the document, the command's variables (the time it began, and what its `let` names), and the
//! variables that `$let`, `$map`, `$filter` and `$reduce` bind around it.
//!
//! Work is counted against a budget, so that nested loops over `$range` end.

use std::cell::Cell;

use bson::{Bson, DateTime, Document, RawDocument};

use super::value::Value;
use crate::{Code, Failure, Result};

/// Steps that one evaluation may take, where sixteen bytes that are made count as a step: about a minute of work, which nobody
/// wants of one document.
pub(crate) const BUDGET: u64 = 1 << 30;

/// Bytes that count as a step.
pub(crate) const BYTES_PER_STEP: usize = 16;

/// The surroundings of an expression.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'e> {
    /// `$$ROOT`.
    pub(crate) root: &'e RawDocument,
    /// The command's variables.
    pub(crate) variables: &'e Variables,
    /// The innermost bound variables.
    pub(crate) frame: Option<&'e Frame<'e>>,
    /// What is left of the budget.
    pub(crate) budget: &'e Cell<u64>,
}

/// Variables that one operator binds.
pub(crate) struct Frame<'e> {
    /// In the order of the operator's names.
    pub(crate) values: &'e [Value<'e>],
    /// What lies around it.
    pub(crate) parent: Option<&'e Frame<'e>>,
}

impl<'e> Environment<'e> {
    /// The variable `index` of the frame that is `up` frames away; missing if there is none, which the parser excludes.
    pub(crate) fn slot(&self, up: usize, index: usize) -> Value<'e> {
        let mut frame = self.frame;
        for _ in 0..up {
            frame = frame.and_then(|frame| frame.parent);
        }
        frame.and_then(|frame| frame.values.get(index)).map_or(Value::Missing, Value::borrow)
    }

    /// The same surroundings with one more frame.
    pub(crate) fn within<'f>(&self, frame: &'f Frame<'f>) -> Environment<'f>
    where
        'e: 'f,
    {
        Environment { root: self.root, variables: self.variables, frame: Some(frame), budget: self.budget }
    }

    /// Takes work off the budget.
    pub(crate) fn spend(&self, work: usize) -> Result<()> {
        match self.budget.get().checked_sub(work as u64) {
            Some(left) => {
                self.budget.set(left);
                Ok(())
            }
            None => Err(Failure::new(
                Code::ExceededMemoryLimit,
                "one evaluation of an expression took more work than this server gives to a document",
            )),
        }
    }
}

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
