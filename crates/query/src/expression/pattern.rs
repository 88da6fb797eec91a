//! The operators `$regexMatch`, `$regexFind`, `$regexFindAll`: `{input, regex, options}`.
//!
//! Patterns are those of PCRE as far as the regex library supports them; other features are refused when the pattern is
//! compiled. A pattern that backtracks too much is given up (51156).

use bson::{Bson, RawBsonRef, doc};
use fancy_regex::{Captures, Regex};

use super::value::{OperatorSignature, Value, bounded};
use crate::{Code, Failure, Result};

pub(super) static SIGNATURE: OperatorSignature = OperatorSignature {
    not_object: 51103,
    unknown: 31024,
    members: &[("input", Some(31022)), ("regex", Some(31023)), ("options", None)],
};

/// The text and the compiled pattern; `None` if either is null.
fn prepare(name: &str, values: &[Option<Value<'_>>]) -> Result<Option<(String, Regex)>> {
    let [input, regex, options] = values else { return Ok(None) };
    let missing = Value::Missing;
    let (input, regex) = (input.as_ref().unwrap_or(&missing), regex.as_ref().unwrap_or(&missing));
    let needs = |what: &str, code: i32| Failure::new(Code(code), format!("{name} needs {what}"));
    let options = match options {
        Some(value) if !value.is_nullish() => {
            Some(value.as_str().ok_or_else(|| needs("'options' to be of type string", 51106))?)
        }
        _ => None,
    };
    let (pattern, flags) = match regex.as_raw() {
        Some(RawBsonRef::String(pattern)) => (pattern.to_owned(), options.unwrap_or_default().to_owned()),
        Some(RawBsonRef::RegularExpression(regex)) => {
            let flags = regex.options.as_str();
            if options.is_some() && !flags.is_empty() {
                let message =
                    format!("{name}: found regex option(s) specified in both 'regex' and 'option' fields");
                return Err(Failure::new(Code(51107), message));
            }
            (regex.pattern.as_str().to_owned(), options.unwrap_or(flags).to_owned())
        }
        _ if regex.is_nullish() => {
            check_input(name, input)?;
            return Ok(None);
        }
        _ => match regex.decoded()?.as_deref() {
            Some(Bson::RegularExpression(regex)) => {
                let flags = regex.options.as_str();
                (regex.pattern.as_str().to_owned(), options.unwrap_or(flags).to_owned())
            }
            _ => return Err(needs("'regex' to be of type string or regex", 51105)),
        },
    };
    check_input(name, input)?;
    let regex = compile(name, &pattern, &flags)?;
    Ok(input.as_str().map(|text| (text.to_owned(), regex)))
}

fn check_input(name: &str, input: &Value<'_>) -> Result<()> {
    if input.is_nullish() || input.as_str().is_some() {
        return Ok(());
    }
    Err(Failure::new(Code(51104), format!("{name} needs 'input' to be of type string")))
}

fn compile(name: &str, pattern: &str, flags: &str) -> Result<Regex> {
    if pattern.contains('\0') {
        return Err(Failure::new(
            Code(51109),
            format!("{name}: regex pattern must not have embedded null bytes"),
        ));
    }
    if let Some(flag) = flags.chars().find(|flag| !"imsx".contains(*flag)) {
        return Err(Failure::new(Code(51108), format!("{name} invalid flag in regex options: {flag}")));
    }
    let pattern = if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
    Regex::new(&pattern)
        .map_err(|error| Failure::new(Code(51111), format!("Invalid Regex in {name}: {error}")))
}

fn gave_up(error: fancy_regex::Error) -> Failure {
    Failure::new(Code(51156), format!("Error occurred while executing the regular expression: {error}"))
}

/// Whether it matches, for `$regexMatch`.
pub(super) fn is_match<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let matched = match prepare(name, &values)? {
        Some((text, regex)) => regex.is_match(&text).map_err(gave_up)?,
        None => false,
    };
    Ok(Value::Own(Bson::Boolean(matched)))
}

/// `$regexFind`: `{match, idx, captures}` or null.
pub(super) fn find<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let Some((text, regex)) = prepare(name, &values)? else { return Ok(Value::NULL) };
    let captures = regex.captures(&text).map_err(gave_up)?;
    Ok(captures.map_or(Value::NULL, |captures| {
        Value::Own(describe(&text, &captures, &mut CodePointPosition::default()))
    }))
}

/// `$regexFindAll`: an array of results as from `$regexFind`.
pub(super) fn find_all<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let mut found = Vec::new();
    if let Some((text, regex)) = prepare(name, &values)? {
        let mut place = CodePointPosition::default();
        let mut bytes = 0;
        for captures in regex.captures_iter(&text) {
            let item = describe(&text, &captures.map_err(gave_up)?, &mut place);
            bytes = bounded(bytes + super::value::measure(&item)?)?;
            found.push(item);
        }
    }
    Ok(Value::Own(Bson::Array(found)))
}

/// The position up to which code points were counted, so that many matches need only one pass over the text.
#[derive(Default)]
struct CodePointPosition {
    bytes: usize,
    code_points: i32,
}

fn describe(text: &str, captures: &Captures<'_>, place: &mut CodePointPosition) -> Bson {
    let (start, matched) = captures.get(0).map_or((0, ""), |whole| (whole.start(), whole.as_str()));
    let between = text.get(place.bytes..start).unwrap_or_default().chars().count();
    place.code_points = place.code_points.saturating_add(i32::try_from(between).unwrap_or(i32::MAX));
    place.bytes = start;
    let groups = captures.iter().skip(1);
    let groups: Vec<Bson> = groups
        .map(|group| group.map_or(Bson::Null, |group| Bson::String(group.as_str().to_owned())))
        .collect();
    Bson::Document(doc! { "match": matched, "idx": place.code_points, "captures": groups })
}
