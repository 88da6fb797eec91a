//! The stage `$redact`: an expression decides for each document and subdocument whether it is kept, pruned or descended into.

use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use super::context::{Rows, StageContext};
use super::parse::{StageLimits, refused};
use super::stages::Stage;
use crate::expression::show::show;
use crate::expression::value::{MAX_DEPTH, malformed, too_deep};
use crate::{Expression, Result, Variables};

/// The answers, compared by these texts, which are MongoDB's own.
const KEEP: &str = "keep";
const PRUNE: &str = "prune";
const DESCEND: &str = "descend";

/// The expression that decides.
#[derive(Clone, Debug)]
pub(super) struct Redact {
    decision: Expression,
}

fn with_answers(variables: &Variables) -> Variables {
    let mut variables = variables.clone();
    for (name, answer) in [("KEEP", KEEP), ("PRUNE", PRUNE), ("DESCEND", DESCEND)] {
        variables.insert(name, answer);
    }
    variables
}

/// The stage `$redact: expression`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let decision = Expression::parse_of_current(value, &with_answers(limits.variables))?;
    Ok(vec![Stage::Redact(Redact { decision })])
}

impl Redact {
    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Rows {
        let variables = with_answers(&context.variables);
        Box::new(rows.filter_map(move |row| {
            let redacted = row.and_then(|row| self.document(&row, &row, &variables, 0));
            redacted.transpose()
        }))
    }

    /// The remaining part of a document; `None` if it is pruned.
    fn document(
        &self,
        document: &RawDocument,
        root: &RawDocument,
        variables: &Variables,
        depth: usize,
    ) -> Result<Option<RawDocumentBuf>> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let decision = self.decision.value_of_current(document, root, variables)?;
        match decision.as_str() {
            Some(KEEP) => Ok(Some(document.to_owned())),
            Some(PRUNE) => Ok(None),
            Some(DESCEND) => {
                let mut kept = RawDocumentBuf::new();
                for element in document.iter() {
                    let (name, value) = element.map_err(malformed)?;
                    match value {
                        RawBsonRef::Document(inner) => {
                            if let Some(inner) = self.document(inner, root, variables, depth + 1)? {
                                kept.append(name, inner);
                            }
                        }
                        RawBsonRef::Array(items) => {
                            kept.append(name, self.array(items, root, variables, depth + 1)?)
                        }
                        other => kept.append(name, other),
                    }
                }
                Ok(Some(kept))
            }
            _ => {
                let message = format!(
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE, \
                     but returned {}",
                    show(&decision)
                );
                refused(17053, message)
            }
        }
    }

    fn array(
        &self,
        items: &RawArray,
        root: &RawDocument,
        variables: &Variables,
        depth: usize,
    ) -> Result<RawArrayBuf> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let mut kept = RawArrayBuf::new();
        for item in items {
            match item.map_err(malformed)? {
                RawBsonRef::Document(inner) => {
                    if let Some(inner) = self.document(inner, root, variables, depth + 1)? {
                        kept.push(inner);
                    }
                }
                RawBsonRef::Array(inner) => kept.push(self.array(inner, root, variables, depth + 1)?),
                other => kept.push(other),
            }
        }
        Ok(kept)
    }
}
