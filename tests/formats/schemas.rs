//! The schemas as a reader in another language has them: from the files, by their names, without a network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_testkit::jsonschema::{self, Registry, Validator};
use serde_json::Value;

/// The names of all schemas begin so; there is no host in them, for there is none to ask.
const NAMES: &str = "urn:fathom:schema:1:";

pub(super) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Every schema by its short name.
pub(super) fn all() -> BTreeMap<String, Value> {
    let files = fs::read_dir(docs().join("schemas/v1")).unwrap().map(|entry| entry.unwrap().path());
    let read = |file: PathBuf| {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_str(&fs::read_to_string(&file).unwrap()).expect("a schema is JSON"))
    };
    files.map(read).collect()
}

/// The validator of one schema.
pub(super) fn validator(name: &str) -> Validator {
    let all = all();
    let mut registry = Registry::new();
    for schema in all.values() {
        registry = registry.add(schema["$id"].as_str().unwrap(), schema.clone()).unwrap();
    }
    let registry = registry.prepare().unwrap();
    let schema = all.get(name).unwrap_or_else(|| panic!("there is no schema '{name}'"));
    jsonschema::options().with_registry(&registry).build(schema).unwrap()
}

/// The document matches its schema; else the test fails and names the path.
#[track_caller]
pub(super) fn assert_valid(name: &str, document: &Value) {
    let validator = validator(name);
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()).chars().take(2000).collect())
        .collect();
    assert!(errors.is_empty(), "not as docs/schemas/v1/{name}.json says: {errors:#?}");
}

/// Each line is as the schema says.
#[track_caller]
pub(super) fn assert_valid_lines(name: &str, lines: &str) {
    let validator = validator(name);
    let mut count = 0;
    for line in lines.lines() {
        let document: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if let Some(error) = validator.iter_errors(&document).next() {
            panic!("not as docs/schemas/v1/{name}.json says: {error}\n{line}");
        }
        count += 1;
    }
    assert!(count > 0, "there is nothing to check");
}

/// The part that a reference leads to.
fn resolved<'s>(all: &'s BTreeMap<String, Value>, own: &'s Value, reference: &str) -> Option<&'s Value> {
    let (name, pointer) = reference.split_once('#').unwrap_or((reference, ""));
    let schema = match name.strip_prefix(NAMES) {
        Some(name) => all.get(name)?,
        None if name.is_empty() => own,
        None => return None,
    };
    schema.pointer(pointer)
}

/// Calls `look` with every object within a schema.
fn each_object(schema: &Value, path: &str, look: &mut dyn FnMut(&str, &Value)) {
    match schema {
        Value::Object(object) => {
            look(path, schema);
            object.iter().for_each(|(key, inner)| each_object(inner, &format!("{path}/{key}"), look));
        }
        Value::Array(list) => list.iter().for_each(|inner| each_object(inner, path, look)),
        _ => {}
    }
}

#[test]
fn every_schema_is_one_has_its_name_and_knows_what_it_refers_to() {
    let all = all();
    assert!(all.len() >= 20, "{:?}", all.keys());
    for (name, schema) in &all {
        jsonschema::meta::validate(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        assert_eq!(schema["$id"], format!("{NAMES}{name}"));
        assert!(schema["title"].is_string(), "{name}");
        each_object(schema, name, &mut |path, object| {
            if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                assert!(resolved(&all, schema, reference).is_some(), "{path}: {reference}");
            }
        });
        validator(name);
    }
}

#[test]
fn no_schema_lets_an_unknown_field_through() {
    for (name, schema) in all() {
        each_object(&schema, &name, &mut |path, object| {
            // 'judged' is only a shelf of parts.
            let is_object = object.get("type").is_some_and(|kind| {
                *kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&"object".into()))
            });
            if is_object && path != "judged" {
                let closed =
                    object.get("additionalProperties").is_some_and(|more| *more == false || more.is_object());
                assert!(closed, "{path} lets unknown fields through");
            }
        });
    }
}

/// A schema that lets no unknown field through cannot add one to another, so the line's has a copy of the finding's fields.
#[test]
fn the_findings_of_checkups_lines_have_the_fields_of_a_finding() {
    let all = all();
    let mut fields = all["checkup-line"]["oneOf"][0]["properties"].as_object().unwrap().clone();
    assert_eq!(fields.remove("type").unwrap()["const"], "host_finding");
    assert_eq!(Value::Object(fields), all["finding"]["properties"]);
}

#[test]
fn the_list_of_schemas_in_the_docs_is_whole() {
    let text = fs::read_to_string(docs().join("formats.md")).unwrap();
    for name in all().keys() {
        assert!(
            text.contains(&format!("schemas/v1/{name}.json")),
            "docs/formats.md does not name {name}.json"
        );
    }
}
