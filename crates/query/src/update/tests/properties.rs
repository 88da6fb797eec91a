//! Tests that compare the walk over bytes with a plain rewrite of decoded documents, on random documents and updates.
use super::{apply, raw};
use crate::add;
use bson::{Bson, Document, doc};
use proptest::prelude::*;

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        (-3_i64..3).prop_map(Bson::Int64),
        (-3_i32..3).prop_map(|value| Bson::Double(f64::from(value) / 2.0)),
        "[a-c]{0,3}".prop_map(Bson::String),
        Just(Bson::Null),
        any::<bool>().prop_map(Bson::Boolean),
    ]
}

fn document(depth: u32) -> BoxedStrategy<Document> {
    let value = if depth == 0 {
        scalar().boxed()
    } else {
        prop_oneof![
            3 => scalar(),
            1 => document(depth - 1).prop_map(Bson::Document),
            1 => prop::collection::vec(scalar(), 0..4).prop_map(Bson::Array),
        ]
        .boxed()
    };
    prop::collection::vec(("[a-d]", value), 0..5).prop_map(|fields| fields.into_iter().collect()).boxed()
}

/// Sets, removes or adds at a path of a decoded document; `None` where the path is blocked.
fn reference(document: &mut Document, path: &[&str], operator: &str, argument: &Bson) -> Option<bool> {
    let (part, rest) = path.split_first()?;
    if rest.is_empty() {
        let old = document.get(part).cloned();
        return match (operator, old) {
            ("$unset", old) => Some(document.remove(part).is_some() && old.is_some()),
            ("$inc", Some(old)) => {
                let sum = add(&old, argument).ok()?;
                let same = raw(&doc! {"": &sum}) == raw(&doc! {"": &old});
                document.insert(*part, sum);
                Some(!same)
            }
            (_, old) => {
                document.insert(*part, argument.clone());
                Some(old.is_none_or(|old| raw(&doc! {"": old}) != raw(&doc! {"": argument})))
            }
        };
    }
    match document.get_mut(part) {
        Some(Bson::Document(inner)) => reference(inner, rest, operator, argument),
        Some(Bson::Array(_)) if operator == "$unset" => Some(false),
        Some(_) => (operator == "$unset").then_some(false),
        None if operator == "$unset" => Some(false),
        None => {
            let mut inner = Document::new();
            reference(&mut inner, rest, operator, argument)?;
            document.insert(*part, inner);
            Some(true)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn one_walk_does_what_decoding_does(
        mut before in document(2),
        paths in prop::collection::btree_set("[a-e](\\.[a-e]){0,2}", 1..4),
        operators in prop::collection::vec(prop::sample::select(vec!["$set", "$unset", "$inc"]), 4),
        argument in scalar(),
    ) {
        before.insert("_id", 1);
        let mut update = Document::new();
        let mut expected = Some((before.clone(), false));
        // The order of paths is that of their parts, which for single letters is that of the texts.
        for (path, operator) in paths.iter().zip(&operators) {
            let argument = if *operator == "$inc" { Bson::Int32(1) } else { argument.clone() };
            update.entry((*operator).to_string()).or_insert(Bson::Document(Document::new()));
            update.get_document_mut(operator).unwrap().insert(path, argument.clone());
            let parts: Vec<&str> = path.split('.').collect();
            expected = expected.and_then(|(mut document, changed)| {
                let more = reference(&mut document, &parts, operator, &argument)?;
                Some((document, changed || more))
            });
        }
        let conflict = paths.iter().any(|path| {
            paths.iter().any(|other| other != path && other.starts_with(&format!("{path}.")))
        });
        let result = apply(&before, update.clone());
        match (conflict, expected, result) {
            (true, _, result) => prop_assert_eq!(result.unwrap_err().code().0, 40),
            (false, None, result) => {
                let code = result.unwrap_err().code().0;
                prop_assert!([2, 14, 28].contains(&code), "{}", code);
            }
            (false, Some((_, false)), result) => prop_assert_eq!(result.unwrap(), None),
            (false, Some((after, true)), result) => {
                let result = result.unwrap().unwrap();
                prop_assert_eq!(raw(&result), raw(&after), "{} {} {} {}", before, update, result, after);
            }
        }
    }
}
