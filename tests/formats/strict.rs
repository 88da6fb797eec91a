//! A schema that everything passes says nothing: each field of a real document, renamed or of another type, must be refused.

use serde_json::Value;

use super::schemas::validator;

/// Objects whose keys are names of things, so that any key may stand in them.
const OPEN: [&str; 11] = [
    "environment",
    "by_operation",
    "returns",
    "failed",
    "bins",
    "percentile",
    "job options",
    "plans",
    "applications",
    "drivers",
    "waits_s",
];

/// Where the fields of a document are, as pointers.
fn fields(document: &Value, at: &str, found: &mut Vec<(String, String)>) {
    match document {
        Value::Object(object) => {
            let is_open = at.rsplit('/').next().is_some_and(|name| OPEN.contains(&name))
                || ["core_share_by_sampler", "facts/options", "facts/parameters"]
                    .iter()
                    .any(|end| at.ends_with(end));
            for (key, inner) in object {
                if !is_open {
                    found.push((at.to_owned(), key.clone()));
                }
                let key = key.replace('~', "~0").replace('/', "~1");
                fields(inner, &format!("{at}/{key}"), found);
            }
        }
        // One of a kind is enough; the first two may differ.
        Value::Array(list) => {
            list.iter()
                .take(2)
                .enumerate()
                .for_each(|(place, inner)| fields(inner, &format!("{at}/{place}"), found));
        }
        _ => {}
    }
}

/// Renames every field in turn, then gives it a value that no field has; the schema must refuse each time.
#[track_caller]
pub(super) fn assert_strict(name: &str, document: &Value) {
    let validator = validator(name);
    assert!(validator.is_valid(document), "{name}");
    let mut found = Vec::new();
    fields(document, "", &mut found);
    assert!(found.len() >= 2, "{name}: {document}");
    for (at, key) in found {
        for spoil in [rename, retype] {
            let mut spoiled = document.clone();
            let object = spoiled.pointer_mut(&at).and_then(Value::as_object_mut).unwrap();
            spoil(object, &key);
            assert!(!validator.is_valid(&spoiled), "{name}: '{key}' in '{at}' may be spoiled unseen");
        }
    }
}

type Object = serde_json::Map<String, Value>;

/// As a unit is lost: `mean_us` becomes `mean`.
fn rename(object: &mut Object, key: &str) {
    let value = object.remove(key).unwrap();
    object.insert(format!("{key}_renamed"), value);
}

fn retype(object: &mut Object, key: &str) {
    object.insert(key.to_owned(), serde_json::json!({ "no": [{ "such": "value" }] }));
}
