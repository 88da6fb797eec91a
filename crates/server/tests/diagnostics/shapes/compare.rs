//! Compares a reply with the shape of a captured one.

use bson::{Bson, Document};
use serde_json::Value;

/// One difference, as text: `missing a.b`, `extra a.c`, `type a.d: int, not double`.
pub(crate) fn differences(shape: &Value, reply: &Document) -> Vec<String> {
    let mut found = Vec::new();
    compare_documents(shape, reply, "", &mut found);
    found
}

fn compare_documents(shape: &Value, reply: &Document, path: &str, found: &mut Vec<String>) {
    let Value::Object(fields) = shape else {
        found.push(format!("type {path}: object, not {shape}"));
        return;
    };
    let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, shape) in fields {
        match reply.get(name) {
            None => found.push(format!("missing {}", place(name))),
            Some(value) => compare(shape, value, &place(name), found),
        }
    }
    let extra = reply.keys().filter(|name| !fields.contains_key(*name));
    extra.for_each(|name| found.push(format!("extra {}", place(name))));
}

fn compare(shape: &Value, value: &Bson, path: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Value::Object(_), Bson::Document(inner)) => compare_documents(shape, inner, path, found),
        (Value::Array(items), Bson::Array(values)) => {
            if let Some(item) = items.first() {
                values.iter().for_each(|value| compare(item, value, &format!("{path}[]"), found));
            }
        }
        (Value::String(name), value) if name == type_name(value) => {}
        (shape, value) => {
            let wanted = match shape {
                Value::Object(_) => "object",
                Value::Array(_) => "array",
                Value::String(name) => name,
                _ => "nothing",
            };
            found.push(format!("type {path}: {}, not {wanted}", type_name(value)));
        }
    }
}

/// Both integer widths are treated as one type: mongod itself uses the one that fits.
fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Int32(_) | Bson::Int64(_) => "int",
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::ObjectId(_) => "objectId",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::Null => "null",
        _ => "other",
    }
}

#[test]
fn every_kind_of_difference_is_found() {
    let shape =
        serde_json::json!({ "a": "int", "b": { "c": "double" }, "d": [{ "e": "string" }], "f": "date" });
    let reply = bson::doc! { "a": 1_i64, "b": { "c": 1, "x": 2 }, "d": [{ "e": "" }, { "e": 1 }] };
    assert_eq!(
        differences(&shape, &reply),
        ["type b.c: int, not double", "extra b.x", "type d[].e: int, not string", "missing f"]
    );
    assert_eq!(differences(&shape, &bson::doc! { "b": 1 })[1], "type b: int, not object");
}
