//! Which filters a partial index may have: equality, ranges, `$exists: true`, `$type`, and `$and` of them at the top.

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure, Filter, Variables};

use crate::Result;
use crate::parse;

/// Refuses what a partial index cannot have (67).
pub(super) fn check(filter: &RawDocument) -> Result<()> {
    Filter::parse(filter, &Variables::at(bson::DateTime::now()))?;
    conjunction(filter, true)
}

fn refused(what: &str) -> Result<()> {
    Err(Failure::new(Code::CannotCreateIndex, format!("unsupported expression in partial index: {what}")))
}

fn conjunction(filter: &RawDocument, top: bool) -> Result<()> {
    for element in filter {
        let (name, value) = element.map_err(|error| parse::malformed(&error))?;
        match (name.as_str(), value) {
            ("$and", RawBsonRef::Array(parts)) if top => {
                for part in parts {
                    if let RawBsonRef::Document(part) = part.map_err(|error| parse::malformed(&error))? {
                        conjunction(part, false)?;
                    }
                }
            }
            ("$and", _) => {
                return Err(Failure::new(
                    Code::CannotCreateIndex,
                    "$and only supported in partialFilterExpression at top level",
                ));
            }
            ("$comment", _) => {}
            (name, _) if name.starts_with('$') => refused(name)?,
            (name, RawBsonRef::RegularExpression(_)) => refused(&format!("{name} $regex"))?,
            (name, RawBsonRef::Document(operators)) => predicates(name, operators)?,
            _ => {}
        }
    }
    Ok(())
}

fn predicates(field: &str, operators: &RawDocument) -> Result<()> {
    for element in operators {
        let (operator, value) = element.map_err(|error| parse::malformed(&error))?;
        match operator.as_str() {
            "$eq" if matches!(value, RawBsonRef::RegularExpression(_)) => {
                refused(&format!("{field} $regex"))?
            }
            "$eq" | "$gt" | "$gte" | "$lt" | "$lte" | "$type" => {}
            "$exists" if parse::truth_of(value) => {}
            operator if operator.starts_with('$') => refused(&format!("{field} {operator}"))?,
            // A document to be equal to.
            _ => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn and_is_for_the_top_only() {
        let parts = rawdoc! { "$and": [{ "a": { "$gt": 1 } }, { "b": 2 }, { "c": { "$exists": true } }] };
        check(&parts).unwrap();
        for filter in [
            rawdoc! { "$and": [{ "$and": [{ "a": 1 }] }] },
            rawdoc! { "$and": [{ "a": { "$ne": 1 } }] },
            rawdoc! { "$and": [{ "$or": [{ "a": 1 }] }] },
        ] {
            assert_eq!(check(&filter).unwrap_err().code(), Code::CannotCreateIndex, "{filter:?}");
        }
    }
}
