//! Tests of the chosen plan, its bounds, and its form in explain.

use bson::{Bson, Document, RawDocumentBuf, Regex, doc};
use fathom_query::{Access, Code, Filter, Hint, IndexInfo, KeyPattern, Plan, Sort, Variables, choose};

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn parse(filter: &Document) -> Filter {
    Filter::parse(&raw(filter), &Variables::at(bson::DateTime::from_millis(0))).unwrap()
}

/// The properties of an index of the table below besides its pattern.
#[derive(Clone, Default)]
struct AccumulatorKind {
    multikey: bool,
    sparse: bool,
    unique: bool,
    partial: Option<Document>,
}

fn plain(patterns: Vec<Document>) -> Vec<(Document, AccumulatorKind)> {
    patterns.into_iter().map(|pattern| (pattern, AccumulatorKind::default())).collect()
}

/// The plans for a filter; indexes are named by their place.
fn plans(
    filter: &Document,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    indexes: &[(Document, AccumulatorKind)],
) -> Result<(Plan, Vec<Plan>, Document), (Code, String)> {
    let filter = parse(filter);
    let patterns: Vec<KeyPattern> =
        indexes.iter().map(|(pattern, _)| KeyPattern::parse(&raw(pattern)).unwrap()).collect();
    let partials: Vec<Option<Filter>> =
        indexes.iter().map(|(_, kind)| kind.partial.as_ref().map(parse)).collect();
    let names: Vec<String> = (0..indexes.len()).map(|place| format!("index{place}")).collect();
    let infos: Vec<IndexInfo<'_>> = indexes
        .iter()
        .enumerate()
        .map(|(place, (_, kind))| IndexInfo {
            name: &names[place],
            pattern: &patterns[place],
            multikey: kind.multikey,
            sparse: kind.sparse,
            unique: kind.unique,
            partial: partials[place].as_ref(),
        })
        .collect();
    match choose(&filter, sort, None, hint, &infos) {
        Ok((plan, lost)) => {
            let shown = plan.winning_plan(&filter, &infos);
            Ok((plan, lost, shown))
        }
        Err(failure) => Err((failure.code(), failure.message().to_owned())),
    }
}

/// A plan in one line: the access path, the bounds, and the remaining work.
fn line(plan: &Plan) -> String {
    let mut text = match &plan.access {
        Access::Scan { backwards } => format!("scan{}", if *backwards { " backwards" } else { "" }),
        Access::Id(id) => format!("id {id}"),
        Access::Nothing => "nothing".to_owned(),
        Access::Union(branches) => {
            format!("union of {}", branches.iter().map(line).collect::<Vec<_>>().join(" and "))
        }
        Access::Index { index, ranges, backwards, bounds } => {
            let fields: Vec<String> = bounds
                .iter()
                .map(|(path, intervals)| {
                    let intervals: Vec<&str> =
                        intervals.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
                    format!("{path} {}", intervals.join(" "))
                })
                .collect();
            let direction = if *backwards { " backwards" } else { "" };
            format!("index{index}{direction}: {}; {} ranges", fields.join(", "), ranges.len())
        }
    };
    if plan.filter {
        text += "; filter";
    }
    if !plan.sorted {
        text += "; sort";
    }
    text
}

fn sort(fields: &[(&str, bool)]) -> Sort {
    Sort { fields: fields.iter().map(|(path, down)| ((*path).to_owned(), *down)).collect() }
}

#[test]
fn bounds_follow_from_the_filter() {
    let a = || plain(vec![doc! { "_id": 1 }, doc! { "a": 1 }]);
    let regex = Bson::RegularExpression(Regex {
        pattern: "^ab".to_owned().try_into().unwrap(),
        options: String::new().try_into().unwrap(),
    });
    for (filter, expected) in [
        (doc! {}, "scan"),
        (doc! { "b": 1 }, "scan; filter"),
        (doc! { "_id": 5 }, "id 5"),
        (doc! { "_id": { "$gte": "user5" } }, "index0: _id [\"user5\", {}); 1 ranges"),
        (doc! { "_id": 5, "b": 1 }, "index0: _id [5, 5]; 1 ranges; filter"),
        (doc! { "a": 5.0 }, "index1: a [5.0, 5.0]; 1 ranges"),
        (doc! { "a": { "$gt": 1, "$lte": 5 } }, "index1: a (1, 5]; 1 ranges"),
        (doc! { "a": { "$lt": 5 } }, "index1: a [-inf.0, 5); 1 ranges"),
        (doc! { "a": { "$lt": "x" } }, "index1: a [\"\", \"x\"); 1 ranges"),
        (doc! { "a": { "$in": [3, 1, 3, 2] } }, "index1: a [1, 1] [2, 2] [3, 3]; 3 ranges"),
        (doc! { "a": Bson::Null }, "index1: a [undefined, undefined] [null, null]; 2 ranges; filter"),
        (doc! { "a": { "$ne": 3 } }, "index1: a [MinKey, 3) (3, MaxKey]; 2 ranges"),
        (doc! { "a": { "$exists": true } }, "index1: a [MinKey, MaxKey]; 1 ranges; filter"),
        (doc! { "a": regex }, "index1: a [\"ab\", \"ac\") [/^ab/, /^ab/]; 2 ranges; filter"),
        (doc! { "a": { "$type": "string" } }, "index1: a [\"\", {}); 1 ranges; filter"),
        (doc! { "a": { "$gt": 5, "$lt": 3 } }, "nothing"),
        (doc! { "a": { "$in": [] } }, "nothing"),
        (doc! { "a": { "$size": 2 } }, "scan; filter"),
        (
            doc! { "$or": [{ "a": 1 }, { "_id": 2 }] },
            "union of index1: a [1, 1]; 1 ranges; filter and index0: _id [2, 2]; 1 ranges; filter; filter; sort",
        ),
        (doc! { "$or": [{ "a": 1 }, { "b": 2 }] }, "scan; filter"),
        (doc! { "a": 1, "$or": [{ "a": 1 }, { "b": 2 }] }, "index1: a [1, 1]; 1 ranges; filter"),
    ] {
        let (plan, ..) = plans(&filter, None, None, &a()).unwrap();
        assert_eq!(line(&plan), expected, "{filter}");
    }
}

#[test]
fn compound_bounds_are_combined() {
    let index = || plain(vec![doc! { "a": 1, "b": -1, "c": 1 }]);
    for (filter, expected) in [
        (doc! { "a": 1, "b": 2, "c": 3 }, "index0: a [1, 1], b [2, 2], c [3, 3]; 1 ranges"),
        (doc! { "a": 1, "b": { "$gt": 2 } }, "index0: a [1, 1], b [inf.0, 2), c [MinKey, MaxKey]; 1 ranges"),
        (
            doc! { "a": { "$in": [1, 2] }, "b": { "$in": [3, 4] } },
            "index0: a [1, 1] [2, 2], b [4, 4] [3, 3], c [MinKey, MaxKey]; 4 ranges",
        ),
        // Fields after a range are left to the filter.
        (
            doc! { "a": { "$gt": 1 }, "b": 2 },
            "index0: a (1, inf.0], b [MaxKey, MinKey], c [MinKey, MaxKey]; 1 ranges; filter",
        ),
        (
            doc! { "a": 1, "c": 3 },
            "index0: a [1, 1], b [MaxKey, MinKey], c [MinKey, MaxKey]; 1 ranges; filter",
        ),
        (doc! { "b": 1 }, "scan; filter"),
    ] {
        let (plan, ..) = plans(&filter, None, None, &index()).unwrap();
        assert_eq!(line(&plan), expected, "{filter}");
    }
}

#[test]
fn too_many_combinations_narrow_fewer_fields() {
    let many: Vec<i32> = (0..100).collect();
    let filter = doc! { "a": { "$in": &many }, "b": { "$in": &many } };
    let (plan, ..) = plans(&filter, None, None, &plain(vec![doc! { "a": 1, "b": 1 }])).unwrap();
    assert!(matches!(&plan.access, Access::Index { ranges, .. } if ranges.len() == 100));
    assert!(plan.filter);
    let many: Vec<i32> = (0..10_000).collect();
    let (plan, ..) =
        plans(&doc! { "a": { "$in": many } }, None, None, &plain(vec![doc! { "a": 1 }])).unwrap();
    assert!(matches!(&plan.access, Access::Index { ranges, .. } if ranges.len() == 10_000));
}

#[test]
fn sorts_come_from_indexes_where_they_can() {
    let indexes = || plain(vec![doc! { "_id": 1 }, doc! { "a": 1, "b": 1 }, doc! { "c": 1 }]);
    for (filter, fields, expected) in [
        (doc! {}, vec![("_id", false)], "index0: _id [MinKey, MaxKey]; 1 ranges"),
        (doc! {}, vec![("_id", true)], "index0 backwards: _id [MaxKey, MinKey]; 1 ranges"),
        (doc! { "_id": { "$gte": 5 } }, vec![("_id", false)], "index0: _id [5, inf.0]; 1 ranges"),
        (doc! { "a": 1 }, vec![("b", true)], "index1 backwards: a [1, 1], b [MaxKey, MinKey]; 1 ranges"),
        (
            doc! { "a": { "$in": [1, 2] } },
            vec![("b", false)],
            "index1: a [1, 1] [2, 2], b [MinKey, MaxKey]; 2 ranges; sort",
        ),
        (
            doc! { "a": { "$in": [1, 2] } },
            vec![("a", true), ("b", true)],
            "index1 backwards: a [2, 2] [1, 1], b [MaxKey, MinKey]; 2 ranges",
        ),
        // A bound value ranks above an avoided sort, and an avoided sort above a range.
        (doc! { "a": 1 }, vec![("c", false)], "index1: a [1, 1], b [MinKey, MaxKey]; 1 ranges; sort"),
        (
            doc! { "a": { "$gt": 1 } },
            vec![("c", false)],
            "index1: a (1, inf.0], b [MinKey, MaxKey]; 1 ranges; sort",
        ),
        (
            doc! { "a": { "$gt": 1 }, "c": { "$gt": 1, "$lt": 3 } },
            vec![("a", false)],
            "index1: a (1, inf.0], b [MinKey, MaxKey]; 1 ranges; filter",
        ),
        (doc! {}, vec![("d", false)], "scan; sort"),
        (doc! { "d": 1 }, vec![("$natural", true)], "scan backwards; filter"),
    ] {
        let (plan, ..) = plans(&filter, Some(&sort(&fields)), None, &indexes()).unwrap();
        assert_eq!(line(&plan), expected, "{filter} by {fields:?}");
    }
}

#[test]
fn multikey_indexes_take_one_statement_for_a_field() {
    let multikey = AccumulatorKind { multikey: true, ..AccumulatorKind::default() };
    for (pattern, filter, expected) in [
        (doc! { "a": 1 }, doc! { "a": { "$gt": 1, "$lt": 5 } }, "index0: a (1, inf.0]; 1 ranges; filter"),
        (
            doc! { "a": 1 },
            doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 5 } } },
            "index0: a (1, 5); 1 ranges; filter",
        ),
        (doc! { "a": 1 }, doc! { "a": [1, 2] }, "index0: a [1, 1] [[ 1, 2 ], [ 1, 2 ]]; 2 ranges; filter"),
        (doc! { "a": 1 }, doc! { "a": { "$all": [1, 2] } }, "index0: a [1, 1]; 1 ranges; filter"),
        (
            doc! { "a.b": 1, "a.c": 1 },
            doc! { "a.b": 1, "a.c": 2 },
            "index0: a.b [1, 1], a.c [MinKey, MaxKey]; 1 ranges; filter",
        ),
        (
            doc! { "a.b": 1, "a.c": 1 },
            doc! { "a": { "$elemMatch": { "b": 1, "c": 2 } } },
            "index0: a.b [1, 1], a.c [2, 2]; 1 ranges; filter",
        ),
        (doc! { "a": 1, "b": 1 }, doc! { "a": 1, "b": 2 }, "index0: a [1, 1], b [2, 2]; 1 ranges; filter"),
    ] {
        let (plan, ..) = plans(&filter, None, None, &[(pattern, multikey.clone())]).unwrap();
        assert_eq!(line(&plan), expected, "{filter}");
    }
    let by_a = sort(&[("a", false)]);
    let (plan, ..) = plans(&doc! {}, Some(&by_a), None, &[(doc! { "a": 1 }, multikey)]).unwrap();
    assert_eq!(line(&plan), "scan; sort");
}

#[test]
fn sparse_and_partial_indexes_serve_what_they_hold() {
    let sparse = AccumulatorKind { sparse: true, ..AccumulatorKind::default() };
    let partial = AccumulatorKind { partial: Some(doc! { "b": { "$gt": 5 } }), ..AccumulatorKind::default() };
    let there =
        AccumulatorKind { partial: Some(doc! { "b": { "$exists": true } }), ..AccumulatorKind::default() };
    for (kind, filter, used) in [
        (&sparse, doc! { "a": 1 }, true),
        (&sparse, doc! { "a": Bson::Null }, false),
        (&sparse, doc! { "a": { "$ne": 1 } }, false),
        (&sparse, doc! { "a": { "$ne": Bson::Null } }, true),
        (&sparse, doc! { "a": { "$exists": true } }, true),
        (&sparse, doc! { "a": { "$exists": false } }, false),
        (&partial, doc! { "a": 1 }, false),
        (&partial, doc! { "a": 1, "b": 6 }, true),
        (&partial, doc! { "a": 1, "b": { "$gt": 7 } }, true),
        (&partial, doc! { "a": 1, "b": { "$gte": 5 } }, false),
        (&partial, doc! { "a": 1, "b": { "$in": [6, 7] } }, true),
        (&partial, doc! { "a": 1, "b": { "$in": [5, 7] } }, false),
        (&partial, doc! { "a": 1, "$or": [{ "b": 6 }, { "b": 7 }] }, true),
        (&there, doc! { "a": 1, "b": 0 }, true),
        (&there, doc! { "a": 1, "b": Bson::Null }, false),
        (&there, doc! { "a": 1, "b": { "$ne": Bson::Null } }, true),
    ] {
        let (plan, ..) = plans(&filter, None, None, &[(doc! { "a": 1 }, kind.clone())]).unwrap();
        assert_eq!(matches!(plan.access, Access::Index { .. }), used, "{filter}");
    }
}

#[test]
fn the_more_equal_fields_the_better() {
    let unique = AccumulatorKind { unique: true, ..AccumulatorKind::default() };
    let indexes = [
        (doc! { "a": 1 }, AccumulatorKind::default()),
        (doc! { "a": 1, "b": 1 }, AccumulatorKind::default()),
        (doc! { "c": 1 }, unique),
        (doc! { "d": "hashed" }, AccumulatorKind::default()),
    ];
    for (filter, expected) in [
        (doc! { "a": 1 }, 0),
        (doc! { "a": 1, "b": 1 }, 1),
        (doc! { "a": 1, "b": { "$gt": 1 } }, 1),
        (doc! { "a": 1, "b": 1, "c": 1 }, 2),
        (doc! { "a": 1, "c": { "$gt": 1 } }, 0),
        (doc! { "d": 1 }, 3),
        (doc! { "d": { "$in": [1, 2] }, "c": { "$gt": 1 } }, 3),
    ] {
        let (plan, ..) = plans(&filter, None, None, &indexes).unwrap();
        assert!(
            matches!(plan.access, Access::Index { index, .. } if index == expected),
            "{filter}: {}",
            line(&plan)
        );
    }
    let (plan, ..) = plans(&doc! { "d": { "$gt": 1 } }, None, None, &indexes).unwrap();
    assert_eq!(line(&plan), "scan; filter");
}

#[test]
fn hints_decide() {
    let indexes = plain(vec![doc! { "_id": 1 }, doc! { "a": 1 }, doc! { "b": -1 }]);
    for (hint, expected) in [
        (Hint::Name("index2".to_owned()), "index2: b [MaxKey, MinKey]; 1 ranges; filter"),
        (Hint::Pattern(doc! { "b": -1.0 }), "index2: b [MaxKey, MinKey]; 1 ranges; filter"),
        (Hint::Pattern(doc! { "_id": 1 }), "index0: _id [7, 7]; 1 ranges"),
        (Hint::Natural { backwards: true }, "scan backwards; filter"),
        (Hint::Pattern(doc! { "$natural": 1 }), "scan; filter"),
    ] {
        let (plan, ..) = plans(&doc! { "_id": 7 }, None, Some(&hint), &indexes).unwrap();
        assert_eq!(line(&plan), expected, "{hint:?}");
    }
    for hint in [Hint::Name("x".to_owned()), Hint::Pattern(doc! { "b": 1 })] {
        let (code, message) = plans(&doc! {}, None, Some(&hint), &indexes).unwrap_err();
        assert_eq!(code, Code::BadValue);
        assert!(message.contains("hint provided does not correspond to an existing index"), "{message}");
    }
}

#[test]
fn explain_shows_mongodbs_stages() {
    let indexes = plain(vec![doc! { "_id": 1 }, doc! { "a": 1, "b": -1 }]);
    let (_, _, shown) = plans(&doc! { "_id": 5 }, None, None, &indexes).unwrap();
    assert_eq!(shown, doc! { "stage": "IDHACK" });
    let (_, _, shown) = plans(&doc! { "c": 5 }, None, None, &indexes).unwrap();
    assert_eq!(shown, doc! { "stage": "COLLSCAN", "filter": { "c": { "$eq": 5 } }, "direction": "forward" });
    let (_, lost, shown) = plans(&doc! { "a": 5, "_id": { "$gt": 1 } }, None, None, &indexes).unwrap();
    assert_eq!(lost.len(), 1);
    assert_eq!(
        shown,
        doc! {
            "stage": "FETCH",
            "filter": { "$and": [{ "a": { "$eq": 5 } }, { "_id": { "$gt": 1 } }] },
            "inputStage": {
                "stage": "IXSCAN",
                "keyPattern": { "a": 1, "b": -1 },
                "indexName": "index1",
                "isMultiKey": false,
                "multiKeyPaths": { "a": [], "b": [] },
                "isUnique": false,
                "isSparse": false,
                "isPartial": false,
                "indexVersion": 2,
                "direction": "forward",
                "indexBounds": { "a": ["[5, 5]"], "b": ["[MaxKey, MinKey]"] },
            },
        }
    );
    let (_, _, shown) = plans(&doc! { "$or": [{ "a": 1 }, { "_id": 1 }] }, None, None, &indexes).unwrap();
    let stages = shown.get_document("inputStage").unwrap();
    assert_eq!(stages.get_str("stage").unwrap(), "OR");
    assert_eq!(stages.get_array("inputStages").unwrap().len(), 2);
}
