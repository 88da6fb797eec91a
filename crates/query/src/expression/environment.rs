//! The environment of an expression's evaluation: the document, the command's variables (its start time, and those of its
//! `let`), and the variables that the surrounding `$let`, `$map`, `$filter` and `$reduce` bind.
//!
//! Work is counted against a budget, so that nested loops over `$range` end.

use std::cell::Cell;

use bson::{Bson, DateTime, Document, RawDocument};

use super::value::Value;
use crate::{Code, Failure, Result};

/// The steps that one evaluation may take; every sixteen created bytes count as a step. That is about a minute of work, more
/// than one document should ever need.
pub(crate) const MAX_STEPS: u64 = 1 << 30;

/// Bytes that count as a step.
pub(crate) const BYTES_PER_STEP: usize = 16;

/// The environment of an expression.
#[derive(Clone, Copy)]
pub(crate) struct EvaluationScope<'e> {
    pub(crate) root: &'e RawDocument,
    pub(crate) variables: &'e Variables,
    /// The innermost bound variables.
    pub(crate) frame: Option<&'e VariableFrame<'e>>,
    /// The remaining budget of steps.
    pub(crate) budget: &'e Cell<u64>,
}

/// Variables that one operator binds.
pub(crate) struct VariableFrame<'e> {
    /// The values, in the order of the operator's names.
    pub(crate) values: &'e [Value<'e>],
    /// The surrounding frame, if there is one.
    pub(crate) parent: Option<&'e VariableFrame<'e>>,
}

impl<'e> EvaluationScope<'e> {
    /// The variable `index` of the frame `up` levels outwards; missing if it does not exist, which the parser excludes.
    pub(crate) fn slot(&self, up: usize, index: usize) -> Value<'e> {
        let mut frame = self.frame;
        for _ in 0..up {
            frame = frame.and_then(|frame| frame.parent);
        }
        frame.and_then(|frame| frame.values.get(index)).map_or(Value::Missing, Value::borrow)
    }

    /// The same environment with one more frame.
    pub(crate) fn within<'f>(&self, frame: &'f VariableFrame<'f>) -> EvaluationScope<'f>
    where
        'e: 'f,
    {
        EvaluationScope {
            root: self.root,
            variables: self.variables,
            frame: Some(frame),
            budget: self.budget,
        }
    }

    /// Deducts work from the budget; fails when it is used up.
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

/// The value of `$$NAME` in an expression.
#[derive(Clone, Debug)]
pub struct Variables {
    pub now: DateTime,
    /// The command's `let` with evaluated values. Most commands have none, and even an empty document has a cost.
    named: Option<Box<Document>>,
}

impl Variables {
    /// Variables with the time only.
    pub fn at(now: DateTime) -> Self {
        Variables { now, named: None }
    }

    /// A value by its name, without the dollars.
    pub fn get(&self, name: &str) -> Option<&Bson> {
        self.named.as_ref()?.get(name)
    }

    /// Sets the value of a name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Bson>) {
        self.named.get_or_insert_default().insert(name, value);
    }
}
