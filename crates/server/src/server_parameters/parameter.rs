//! The definition of a parameter: its name, the times at which it may be set, and its values, from a client (BSON) or from the command
//! line (text), with mongod's error messages.

use bson::{Bson, Document, RawBsonRef};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::config::{EngineName, integer_value};
use crate::instance::Instance;
use crate::parse;

/// The times at which a parameter may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettableTime {
    /// Set by `--setParameter` only.
    Start,
    /// Set by the command only.
    Running,
    Both,
    Never,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(super) when: SettableTime,
    pub(super) shape: Shape,
    /// The engine that it belongs to; with another engine the parameter does not exist.
    pub(super) engine: Option<EngineName>,
    /// Its current value, or `None` if it is only an action.
    pub(super) read: fn(&Instance) -> Option<Bson>,
    /// Sets it to a value that matches the shape.
    pub(super) write: fn(&Instance, &Bson) -> Result<()>,
}

impl Parameter {
    pub(super) fn is_of(&self, engine: EngineName) -> bool {
        self.engine.is_none_or(|only| only == engine)
    }
}

/// The values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// true or false; numbers are accepted too.
    Boolean,
    /// A whole number within bounds.
    Integer(i64, i64),
    /// A number within bounds.
    Number(f64, f64),
    Text,
    Object,
}

impl Shape {
    /// The value that a client gave.
    pub(super) fn of_bson(self, name: &str, value: RawBsonRef<'_>) -> Result<Bson> {
        let wrong = || Failure::new(Code::BadValue, format!("Invalid value for parameter {name}: {value:?}"));
        match (self, value) {
            (
                Shape::Boolean,
                RawBsonRef::Boolean(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_),
            ) => Ok(Bson::Boolean(parse::truth_of(value))),
            (Shape::Integer(least, most), value) => {
                let number = parse::integer_of(value).ok_or_else(wrong)?;
                check_bounds(name, number, least, most)?;
                Ok(integer_value(number))
            }
            (Shape::Number(least, most), value) => {
                let number = match value {
                    RawBsonRef::Double(number) => number,
                    RawBsonRef::Int32(number) => f64::from(number),
                    #[expect(clippy::cast_precision_loss, reason = "bounds are far below what is lost")]
                    value => parse::integer_of(value).ok_or_else(wrong)? as f64,
                };
                check_bounds(name, number, least, most)?;
                Ok(Bson::Double(number))
            }
            (Shape::Text, RawBsonRef::String(text)) => Ok(Bson::from(text)),
            (Shape::Object, RawBsonRef::Document(document)) => Ok(Bson::Document(parse::owned(document)?)),
            _ => Err(wrong()),
        }
    }

    /// The value that the command line or a configuration file gave.
    pub(super) fn of_text(self, name: &str, text: &str) -> Result<Bson> {
        let wrong = || Failure::new(Code::BadValue, format!("Invalid value for parameter {name}: '{text}'"));
        match self {
            Shape::Boolean => match text {
                "true" | "1" => Ok(Bson::Boolean(true)),
                "false" | "0" => Ok(Bson::Boolean(false)),
                _ => Err(wrong()),
            },
            Shape::Integer(..) => {
                let number = text.parse().map_err(|_| wrong())?;
                self.of_bson(name, RawBsonRef::Int64(number))
            }
            Shape::Number(..) => {
                let number = text.parse().map_err(|_| wrong())?;
                self.of_bson(name, RawBsonRef::Double(number))
            }
            Shape::Text => Ok(Bson::from(text)),
            Shape::Object => {
                let document: Document = serde_json::from_str(text).map_err(|_| wrong())?;
                Ok(Bson::Document(document))
            }
        }
    }
}

fn check_bounds<T: PartialOrd + std::fmt::Display>(name: &str, number: T, least: T, most: T) -> Result<()> {
    let complaint = if number < least {
        format!("greater than or equal to {least}")
    } else if number > most {
        format!("less than or equal to {most}")
    } else if number >= least {
        return Ok(());
    } else {
        // NaN is neither.
        "a number".to_owned()
    };
    let what = format!("Invalid value for parameter {name}: {number} is not {complaint}");
    Err(Failure::new(Code::BadValue, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bson_give_the_same_value() {
        let cases = [
            (Shape::Boolean, "1", RawBsonRef::Double(1.0)),
            (Shape::Integer(1, 500), "500", RawBsonRef::Int64(500)),
            (Shape::Number(0.0, 9.0), "2.5", RawBsonRef::Double(2.5)),
            (Shape::Text, "a=b", RawBsonRef::String("a=b")),
        ];
        for (shape, text, value) in cases {
            assert_eq!(shape.of_text("p", text).unwrap(), shape.of_bson("p", value).unwrap(), "{text}");
        }
        assert_eq!(Shape::Object.of_text("p", r#"{"a": 1}"#).unwrap(), Bson::Document(bson::doc! { "a": 1 }));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_in_the_words_of_mongod() {
        let refused = Shape::Integer(1, 500).of_text("journalCommitInterval", "501").unwrap_err();
        let what = "Invalid value for parameter journalCommitInterval: 501 is not less than or equal to 500";
        assert_eq!((refused.code(), refused.message()), (Code::BadValue, what));
        assert!(Shape::Number(0.0, 9.0).of_text("p", "NaN").is_err());
        assert!(Shape::Integer(0, 9).of_bson("p", RawBsonRef::Double(0.5)).is_err());
        assert!(Shape::Text.of_bson("p", RawBsonRef::Int32(1)).is_err());
    }
}
