//! Whatever indexes a collection has, every query gives what a scan of all records gives: random documents, indexes and queries,

//! asked over the wire of two collections with the same documents, one of them without indexes.

use crate::served::{connect, in_memory, run};
use bson::{Bson, Document, bson, doc};
use fathom_client::Connection;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const FIELDS: [&str; 4] = ["a", "b", "a.x", "c"];

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        4 => (0..6_i32).prop_map(Bson::Int32),
        1 => (0..12_i32).prop_map(|half| Bson::Double(f64::from(half) / 2.0)),
        1 => (0..3_i64).prop_map(Bson::Int64),
        2 => select(vec!["", "a", "ab", "b", "x"]).prop_map(Bson::from),
        1 => Just(Bson::Null),
        1 => any::<bool>().prop_map(Bson::Boolean),
        1 => Just(Bson::Double(f64::NAN)),
        1 => Just(Bson::MinKey),
    ]
}

fn value() -> impl Strategy<Value = Bson> {
    let object = prop::option::of(scalar()).prop_map(|x| match x {
        Some(x) => bson!({ "x": x }),
        None => bson!({}),
    });
    let object = object.boxed();
    prop_oneof![
        16 => scalar(),
        2 => prop::collection::vec(scalar(), 0..3).prop_map(Bson::Array),
        2 => object.clone(),
        1 => prop::collection::vec(object, 0..3).prop_map(Bson::Array),
        1 => prop::collection::vec(scalar(), 0..3).prop_map(|x| bson!({ "x": x })),
    ]
}

fn document() -> impl Strategy<Value = Document> {
    let field = || prop::option::weighted(0.8, value());
    (field(), field(), field()).prop_map(|(a, b, c)| {
        let mut document = Document::new();
        for (name, value) in [("a", a), ("b", b), ("c", c)] {
            document.extend(value.map(|value| (name.to_owned(), value)));
        }
        document
    })
}

fn field() -> impl Strategy<Value = String> {
    select(FIELDS.to_vec()).prop_map(str::to_owned)
}

fn test() -> impl Strategy<Value = Bson> {
    let compare = (select(vec!["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), value());
    let member = (select(vec!["$in", "$nin"]), prop::collection::vec(scalar(), 0..4));
    let between = (select(vec!["$gt", "$gte"]), 0..4_i32, select(vec!["$lt", "$lte"]), 1..6_i32);
    prop_oneof![
        3 => value(),
        4 => compare.prop_map(|(operator, value)| bson!({ operator: value })),
        2 => member.prop_map(|(operator, values)| bson!({ operator: values })),
        2 => between.clone().prop_map(|(more, low, less, high)| bson!({ more: low, less: high })),
        1 => between.prop_map(|(more, low, less, high)| bson!({ "$elemMatch": { more: low, less: high } })),
        1 => any::<bool>().prop_map(|there| bson!({ "$exists": there })),
        1 => select(vec!["number", "string", "null", "array", "object"]).prop_map(|kind| bson!({ "$type": kind })),
        1 => scalar().prop_map(|value| bson!({ "$not": { "$gt": value } })),
        1 => scalar().prop_map(|x| bson!({ "$elemMatch": { "x": x } })),
        1 => Just(bson!({ "$regex": "^a" })),
        1 => (0..3_i32).prop_map(|size| bson!({ "$size": size })),
    ]
}

fn filter() -> impl Strategy<Value = Document> {
    let leaf = (field(), test()).prop_map(|(path, test)| doc! { path: test });
    let both = prop::collection::vec((field(), test()), 1..4)
        .prop_map(|tests| tests.into_iter().collect::<Document>());
    let leaf = prop_oneof![leaf, both].boxed();
    leaf.prop_recursive(2, 8, 3, |inner| {
        let several = prop::collection::vec(inner, 1..4);
        (select(vec!["$and", "$or", "$nor"]), several).prop_map(|(operator, parts)| doc! { operator: parts })
    })
}

fn index() -> impl Strategy<Value = Document> {
    let key = prop::collection::vec((field(), select(vec![1, -1])), 1..3).prop_map(|parts| {
        parts.into_iter().map(|(path, order)| (path, Bson::Int32(order))).collect::<Document>()
    });
    let partial = prop::option::weighted(
        0.2,
        (field(), 0..4_i32).prop_map(|(path, low)| doc! { path: { "$gte": low } }),
    );
    let hashed = (0..8_u8, field());
    (key, prop::bool::weighted(0.2), partial, hashed).prop_map(|(key, sparse, partial, (hashed, path))| {
        if hashed == 0 {
            return doc! { "key": { path: "hashed" } };
        }
        let mut index = doc! { "key": key };
        match partial {
            Some(partial) => index.insert("partialFilterExpression", partial),
            None => index.insert("sparse", sparse),
        };
        index
    })
}

#[derive(Clone, Debug)]
struct Question {
    filter: Document,
    sort: Option<(String, i32)>,
    limit: i32,
    skip: i32,
    projection: Option<String>,
    distinct: String,
    batch_size: i32,
}

fn question() -> impl Strategy<Value = Question> {
    let sort = prop::option::of((field(), select(vec![1, -1])));
    let projection = prop::option::weighted(0.3, field());
    (filter(), sort, 0..6_i32, 0..3_i32, projection, field(), 2..20_i32).prop_map(
        |(filter, sort, limit, skip, projection, distinct, batch_size)| Question {
            filter,
            sort,
            limit,
            skip,
            projection,
            distinct,
            batch_size,
        },
    )
}

/// The result of a query, as text that distinguishes every type; without a sort in no order.
fn found(connection: &mut Connection, collection: &str, question: &Question) -> Vec<String> {
    let mut find = doc! { "find": collection, "filter": &question.filter, "batchSize": question.batch_size };
    if let Some((path, order)) = &question.sort {
        // `_id` makes the order unique; an array under it is the same for every plan.
        find.insert("sort", doc! { path: *order, "_id": 1 });
        find.insert("limit", question.limit);
        find.insert("skip", question.skip);
    }
    if let Some(path) = &question.projection {
        find.insert("projection", doc! { path: 1, "_id": 0 });
    }
    let cursor = match connection.cursor("test", &find) {
        Ok(cursor) => cursor,
        Err(error) => return vec![error.failure().unwrap().code().0.to_string()],
    };
    let rows = cursor.map(|row| format!("{:?}", Document::try_from(&*row.unwrap()).unwrap()));
    let mut rows: Vec<String> = rows.collect();
    if question.sort.is_none() {
        rows.sort();
    }
    rows
}

fn count(connection: &mut Connection, collection: &str, question: &Question) -> i32 {
    run(connection, "test", &doc! { "count": collection, "query": &question.filter }).get_i32("n").unwrap()
}

/// The distinct values; equal numbers count as one, and the plan decides which of them is shown.
fn distinct(connection: &mut Connection, collection: &str, question: &Question) -> Vec<String> {
    let filter = if question.limit == 0 {
        doc! {}
    } else {
        question.filter.clone()
    };
    let command = doc! { "distinct": collection, "key": &question.distinct, "query": filter };
    let values = run(connection, "test", &command);
    let plain = |value: &Bson| match value {
        Bson::Int32(number) => format!("{:?}", f64::from(*number)),
        Bson::Int64(number) => format!("{:?}", *number as f64),
        Bson::Double(number) => format!("{number:?}"),
        other => format!("{other:?}").replace("Int64", "Int32"),
    };
    let mut values: Vec<String> = values.get_array("values").unwrap().iter().map(plain).collect();
    values.sort();
    values
}

fn make(connection: &mut Connection, documents: &[Document], indexes: &[Document]) {
    for collection in ["plain", "indexed"] {
        let _ = connection.run("test", &doc! { "drop": collection });
        let numbered: Vec<Document> = documents
            .iter()
            .enumerate()
            .map(|(place, document)| {
                let mut numbered = doc! { "_id": i32::try_from(place).unwrap() };
                numbered.extend(document.clone());
                numbered
            })
            .collect();
        run(connection, "test", &doc! { "insert": collection, "documents": numbered });
    }
    for (place, index) in indexes.iter().enumerate() {
        let mut index = index.clone();
        index.insert("name", format!("i{place}"));
        // Some cannot be created: two arrays in one document, arrays under a hash, the same key twice.
        let _ = connection.run("test", &doc! { "createIndexes": "indexed", "indexes": [index] });
    }
}

/// Whether an index serves the query.
fn is_indexed(connection: &mut Connection, question: &Question) -> bool {
    let find = doc! { "find": "indexed", "filter": &question.filter };
    let reply = run(connection, "test", &doc! { "explain": find, "verbosity": "queryPlanner" });
    reply.to_string().contains("IXSCAN")
}

#[test]
fn every_plan_gives_what_a_scan_gives() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let config = Config { cases: 120, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let strategy = (
        prop::collection::vec(document(), 1..30),
        prop::collection::vec(index(), 3..8),
        prop::collection::vec(question(), 12),
    );
    let connection = std::cell::RefCell::new(&mut connection);
    let (served, asked) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let result = runner.run(&strategy, |(documents, indexes, questions)| {
        let connection = &mut **connection.borrow_mut();
        make(connection, &documents, &indexes);
        for question in &questions {
            let (plain, indexed) =
                (found(connection, "plain", question), found(connection, "indexed", question));
            prop_assert_eq!(plain, indexed, "{:?}", question);
            let (plain, indexed) =
                (count(connection, "plain", question), count(connection, "indexed", question));
            prop_assert_eq!(plain, indexed, "count of {:?}", question);
            let (plain, indexed) =
                (distinct(connection, "plain", question), distinct(connection, "indexed", question));
            prop_assert_eq!(plain, indexed, "distinct of {:?}", question);
            asked.set(asked.get() + 1);
            served.set(served.get() + i32::from(is_indexed(connection, question)));
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    println!("indexes served {} of {} queries", served.get(), asked.get());
    assert!(served.get() > asked.get() / 4, "too few indexes to say anything");
    server.stop().unwrap();
}
