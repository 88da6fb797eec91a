//! Tests that walk plans over real keys: for any documents, filter and indexes, what a plan reaches and the filter keeps must be what

//! a scan of all documents finds, and in the sort's order when the plan says so.

use std::cmp::Ordering;

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, Regex, doc};
use fathom_query::{
    Access, Filter, Hint, IndexInfo, IndexKeys, KeyExtractor, KeyPattern, Plan, Sort, Variables, choose,
    compare,
};
use proptest::prelude::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn parse(filter: &Document) -> Filter {
    Filter::parse(&raw(filter), &Variables::at(bson::DateTime::from_millis(0))).unwrap()
}

fn regex(pattern: &str) -> Bson {
    Bson::RegularExpression(Regex {
        pattern: pattern.to_owned().try_into().unwrap(),
        options: String::new().try_into().unwrap(),
    })
}

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        8 => (0..5_i32).prop_map(Bson::Int32),
        2 => (0..5_i32).prop_map(|number| Bson::Double(f64::from(number) / 2.0)),
        3 => prop::sample::select(vec!["", "a", "ab", "abc", "b"]).prop_map(Bson::from),
        2 => Just(Bson::Null),
        1 => prop::sample::select(vec![
            Bson::Undefined,
            Bson::Double(f64::NAN),
            Bson::Double(f64::INFINITY),
            Bson::Boolean(true),
            Bson::MinKey,
            Bson::MaxKey,
            Bson::DateTime(bson::DateTime::from_millis(1)),
            regex("^a"),
            Bson::Decimal128("1.5".parse().unwrap()),
        ]),
    ]
}

fn nested() -> impl Strategy<Value = Bson> {
    (prop::option::of(value()), prop::option::of(value())).prop_map(|(b, c)| {
        let mut document = Document::new();
        document.extend(b.map(|b| ("b".to_owned(), b)));
        document.extend(c.map(|c| ("c".to_owned(), c)));
        Bson::Document(document)
    })
}

fn value() -> BoxedStrategy<Bson> {
    scalar()
        .boxed()
        .prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                4 => scalar(),
                2 => prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array),
                2 => (prop::option::of(inner.clone()), prop::option::of(inner)).prop_map(|(b, c)| {
                    let mut document = Document::new();
                    document.extend(b.map(|b| ("b".to_owned(), b)));
                    document.extend(c.map(|c| ("c".to_owned(), c)));
                    Bson::Document(document)
                }),
            ]
        })
        .boxed()
}

fn field_value() -> impl Strategy<Value = Bson> {
    prop_oneof![
        3 => scalar(),
        2 => value(),
        2 => nested(),
        2 => prop::collection::vec(prop_oneof![scalar().boxed(), nested().boxed()], 0..3).prop_map(Bson::Array),
    ]
}

fn document() -> impl Strategy<Value = Document> {
    (
        prop::option::weighted(0.85, field_value()),
        prop::option::weighted(0.85, scalar()),
        prop::option::weighted(0.7, value()),
    )
        .prop_map(|(a, b, c)| {
            let mut document = Document::new();
            document.extend(a.map(|a| ("a".to_owned(), a)));
            document.extend(b.map(|b| ("b".to_owned(), b)));
            document.extend(c.map(|c| ("c".to_owned(), c)));
            document
        })
}

/// Documents without arrays, so that indexes are not multikey and yield orders.
fn flat_document() -> impl Strategy<Value = Document> {
    (
        prop::option::weighted(0.9, scalar()),
        prop::option::weighted(0.9, scalar()),
        prop::option::weighted(0.9, scalar()),
    )
        .prop_map(|(a, b, c)| {
            let mut document = Document::new();
            document.extend(a.map(|a| ("a".to_owned(), a)));
            document.extend(b.map(|b| ("b".to_owned(), b)));
            document.extend(c.map(|c| ("c".to_owned(), c)));
            document
        })
}

fn constant() -> impl Strategy<Value = Bson> {
    prop_oneof![6 => scalar(), 1 => value()]
        .prop_filter("not undefined", |value| !matches!(value, Bson::Undefined | Bson::RegularExpression(_)))
}

fn operators(depth: u32) -> BoxedStrategy<Document> {
    let leaf = prop_oneof![
        4 => constant().prop_map(|value| doc! { "$eq": value }),
        2 => constant().prop_map(|value| doc! { "$ne": value }),
        2 => constant().prop_map(|value| doc! { "$gt": value }),
        2 => constant().prop_map(|value| doc! { "$gte": value }),
        2 => constant().prop_map(|value| doc! { "$lt": value }),
        2 => constant().prop_map(|value| doc! { "$lte": value }),
        2 => (constant(), constant()).prop_map(|(low, high)| doc! { "$gte": low, "$lt": high }),
        3 => prop::collection::vec(constant(), 0..4).prop_map(|values| doc! { "$in": values }),
        1 => prop::collection::vec(constant(), 0..3).prop_map(|values| doc! { "$nin": values }),
        1 => constant().prop_map(|value| doc! { "$in": [value, regex("^ab")] }),
        1 => any::<bool>().prop_map(|there| doc! { "$exists": there }),
        1 => prop::sample::select(vec!["number", "string", "null", "array", "object", "regex", "undefined"])
            .prop_map(|name| doc! { "$type": name }),
        1 => prop::sample::select(vec!["^a", "^ab?", "b", "^(a|b)"]).prop_map(|text| doc! { "$regex": text }),
        1 => Just(doc! { "$mod": [2, 1] }),
        1 => (0..3_i32).prop_map(|size| doc! { "$size": size }),
        1 => prop::collection::vec(constant(), 1..3).prop_map(|values| doc! { "$all": values }),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    prop_oneof![
        8 => leaf,
        1 => operators(depth - 1).prop_map(|inner| doc! { "$not": inner }),
        1 => operators(depth - 1).prop_map(|inner| doc! { "$elemMatch": inner }),
        2 => (operators(depth - 1), operators(depth - 1))
            .prop_map(|(b, c)| doc! { "$elemMatch": { "b": b, "c": c } }),
        1 => operators(depth - 1).prop_map(|b| doc! { "$elemMatch": { "b": b } }),
    ]
    .boxed()
}

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "a", "b", "b", "c", "a.b", "a.b", "a.c", "a.c", "a.0", "a.b.c", "a.0.b"])
}

fn filter() -> impl Strategy<Value = Document> {
    let fields = || {
        prop::collection::vec((path(), operators(2)), 1..4).prop_map(|fields| {
            let mut parts = fields.into_iter().map(|(path, operators)| doc! { path: operators });
            match parts.len() {
                1 => parts.next().unwrap(),
                _ => doc! { "$and": parts.collect::<Vec<_>>() },
            }
        })
    };
    prop_oneof![
        6 => fields(),
        1 => (fields(), fields()).prop_map(|(one, other)| doc! { "$or": [one, other] }),
        1 => (fields(), fields(), fields())
            .prop_map(|(one, other, third)| doc! { "$and": [third, { "$or": [one, other] }] }),
        1 => (fields(), fields()).prop_map(|(one, other)| doc! { "$nor": [one, other] }),
    ]
}

fn pattern() -> impl Strategy<Value = Document> {
    prop::sample::select(vec![
        doc! { "a": 1 },
        doc! { "a": -1 },
        doc! { "b": 1 },
        doc! { "a": 1, "b": 1 },
        doc! { "b": 1, "a": -1 },
        doc! { "b": -1, "c": 1 },
        doc! { "b": 1, "c": 1, "a": 1 },
        doc! { "a.b": 1 },
        doc! { "a.b": 1, "a.c": 1 },
        doc! { "a.c": 1, "b": 1, "a.b": -1 },
        doc! { "a.0": 1 },
        doc! { "a.b.c": 1 },
        doc! { "a": "hashed" },
        doc! { "b": "hashed" },
        doc! { "b": 1, "c": "hashed" },
    ])
}

#[derive(Clone, Debug)]
struct Options {
    pattern: Document,
    sparse: bool,
    partial: Option<Document>,
}

fn index() -> impl Strategy<Value = Options> {
    let partial = prop::sample::select(vec![
        doc! { "b": { "$exists": true } },
        doc! { "b": { "$gt": 1 } },
        doc! { "a": { "$lte": 3 } },
        doc! { "a": { "$type": "number" } },
    ]);
    (pattern(), prop::bool::weighted(0.2), prop::option::weighted(0.15, partial)).prop_map(
        |(pattern, sparse, partial)| Options { pattern, sparse: sparse && partial.is_none(), partial },
    )
}

/// An index with its entries in order.
struct IndexEntries {
    name: String,
    pattern: KeyPattern,
    multikey: bool,
    sparse: bool,
    partial: Option<Filter>,
    entries: Vec<(Vec<u8>, usize)>,
}

impl IndexEntries {
    /// The entries of the documents; `None` if a document cannot be indexed (parallel arrays).
    fn new(options: &Options, documents: &[RawDocumentBuf]) -> Option<IndexEntries> {
        let pattern = KeyPattern::parse(&raw(&options.pattern)).unwrap();
        let extractor = KeyExtractor::new(pattern.clone(), options.sparse);
        let partial = options.partial.as_ref().map(parse);
        let mut multikey = false;
        let mut entries = Vec::new();
        for (record, document) in documents.iter().enumerate() {
            if partial.as_ref().is_some_and(|partial| partial.matches(document).unwrap().is_none()) {
                continue;
            }
            let mut keys = IndexKeys::default();
            extractor.extract(document, &mut keys).ok()?;
            multikey |= keys.multikey;
            entries.extend(keys.keys.into_iter().map(|key| (key.bytes, record)));
        }
        entries.sort();
        let name = format!("{options:?}");
        Some(IndexEntries { name, pattern, multikey, sparse: options.sparse, partial, entries })
    }

    fn info(&self) -> IndexInfo<'_> {
        IndexInfo {
            name: &self.name,
            pattern: &self.pattern,
            multikey: self.multikey,
            sparse: self.sparse,
            unique: false,
            partial: self.partial.as_ref(),
        }
    }
}

/// The records that a plan reaches, each once, in its order.
fn walk(plan: &Plan, indexes: &[IndexEntries], documents: usize) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    match &plan.access {
        Access::Scan { backwards } => {
            found.extend(0..documents);
            if *backwards {
                found.reverse();
            }
        }
        Access::Id(_) | Access::Nothing => {}
        Access::Index { index, ranges, backwards, .. } => {
            for pair in ranges.windows(2) {
                assert!(pair[0].high <= pair[1].low, "ranges overlap or descend");
            }
            for range in ranges {
                assert!(range.low < range.high, "an empty range");
                let entries = indexes[*index].entries.iter();
                found.extend(
                    entries
                        .filter(|(key, _)| *key >= range.low && *key < range.high)
                        .map(|(_, record)| *record),
                );
            }
            if *backwards {
                found.reverse();
            }
        }
        Access::Union(branches) => {
            branches.iter().for_each(|branch| found.extend(walk(branch, indexes, documents)));
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|record| seen.insert(*record));
    found
}

fn at<'a>(document: &'a RawDocument, path: &str) -> RawBsonRef<'a> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    match (document.get(head).unwrap(), rest) {
        (Some(RawBsonRef::Document(inner)), Some(rest)) => at(inner, rest),
        (Some(value), None) => value,
        _ => RawBsonRef::Null,
    }
}

fn sorted(records: &[usize], documents: &[RawDocumentBuf], sort: &Sort) -> bool {
    records.windows(2).all(|pair| {
        let (left, right) = (&documents[pair[0]], &documents[pair[1]]);
        let order = sort.fields.iter().fold(Ordering::Equal, |order, (path, descending)| {
            order.then_with(|| {
                let order = compare(at(left, path), at(right, path));
                if *descending { order.reverse() } else { order }
            })
        });
        order.is_le()
    })
}

fn check(
    documents: &[Document],
    filter: &Document,
    options: &[Options],
    sort: Option<&Sort>,
) -> Result<(), TestCaseError> {
    let documents: Vec<RawDocumentBuf> = documents.iter().map(raw).collect();
    let indexes: Vec<IndexEntries> =
        options.iter().filter_map(|options| IndexEntries::new(options, &documents)).collect();
    let infos: Vec<IndexInfo<'_>> = indexes.iter().map(IndexEntries::info).collect();
    let parsed = parse(filter);
    let matches = |record: &usize| parsed.matches(&documents[*record]).unwrap().is_some();
    let expected: Vec<usize> = (0..documents.len()).filter(matches).collect();
    let check_one = |plan: &Plan| {
        let mut found = walk(plan, &indexes, documents.len());
        if plan.filter {
            found.retain(matches);
        }
        if plan.sorted
            && let Some(sort) = sort
        {
            prop_assert!(sorted(&found, &documents, sort), "{filter}, {sort:?}: {plan:#?}");
        }
        found.sort_unstable();
        prop_assert_eq!(&found, &expected, "{}: {:#?}", filter, plan);
        plan.winning_plan(&parsed, &infos);
        Ok(())
    };
    let (best, lost) = choose(&parsed, sort, None, None, &infos).unwrap();
    check_one(&best)?;
    lost.iter().try_for_each(check_one)?;
    for index in indexes.iter().filter(|index| !index.sparse && index.partial.is_none()) {
        let hint = Hint::Name(index.name.clone());
        check_one(&choose(&parsed, sort, None, Some(&hint), &infos).unwrap().0)?;
    }
    Ok(())
}

fn sort() -> impl Strategy<Value = Option<Sort>> {
    prop::option::of(
        prop::collection::vec((prop::sample::select(vec!["a", "b", "c"]), any::<bool>()), 1..3).prop_map(
            |fields| {
                let mut distinct: Vec<(String, bool)> = Vec::new();
                for (path, descending) in fields {
                    if distinct.iter().all(|(other, _)| other != path) {
                        distinct.push((path.to_owned(), descending));
                    }
                }
                Sort { fields: distinct }
            },
        ),
    )
}

/// The number of cases: about a second's worth, or `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_find_what_a_scan_finds(
        documents in prop::collection::vec(document(), 0..12),
        filter in filter(),
        options in prop::collection::vec(index(), 1..4),
    ) {
        check(&documents, &filter, &options, None)?;
    }

    #[test]
    fn plans_yield_the_order_they_promise(
        documents in prop::collection::vec(flat_document(), 0..16),
        filter in filter(),
        options in prop::collection::vec(index(), 1..4),
        sort in sort(),
    ) {
        check(&documents, &filter, &options, sort.as_ref())?;
    }
}

/// The key of a position is its value, and no key says that the document there lacks a field of the same name.
#[test]
fn null_is_found_where_a_component_names_a_position_and_a_missing_field() {
    let documents = [doc! { "a": [{}] }, doc! { "a": [1] }, doc! { "a": [] }, doc! {}];
    let options = [Options { pattern: doc! { "a.0": 1 }, sparse: false, partial: None }];
    for filter in [
        doc! { "a.0": Bson::Null },
        doc! { "a.0": { "$in": [Bson::Null] } },
        doc! { "a.0": { "$lte": Bson::Null } },
        doc! { "a.0": { "$ne": Bson::Null } },
    ] {
        check(&documents, &filter, &options, None).unwrap();
    }
}
