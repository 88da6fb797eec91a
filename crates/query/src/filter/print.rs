//! Formats a parsed filter as a document, as in MongoDB's explain: tests with their operators' names, conjunctions sorted.

use bson::{Bson, Document, doc};

use super::tree::{Field, FilterNode, Test};

/// The document of a filter.
pub(super) fn document(root: &FilterNode) -> Document {
    match root {
        FilterNode::Always(true) => doc! { "$alwaysTrue": 1 },
        FilterNode::Always(false) => doc! { "$alwaysFalse": 1 },
        FilterNode::And(nodes) if nodes.is_empty() => Document::new(),
        FilterNode::And(nodes) => doc! { "$and": list(nodes) },
        FilterNode::Or(nodes) => doc! { "$or": list(nodes) },
        FilterNode::Nor(nodes) => doc! { "$nor": list(nodes) },
        FilterNode::Not(node) => match negated(node) {
            Some(found) => found,
            None => doc! { "$nor": [document(node)] },
        },
        FilterNode::Field(field) => doc! { field.path.as_ref(): operators(&field.test) },
        FilterNode::Computed(computed) => doc! { "$expr": owned(&computed.source) },
        FilterNode::Schema(schema) => doc! { "$jsonSchema": schema.source().clone() },
    }
}

fn list(nodes: &[FilterNode]) -> Vec<Document> {
    let mut sorted: Vec<&FilterNode> = nodes.iter().collect();
    sorted.sort_by_key(|node| rank(node));
    sorted.into_iter().map(document).collect()
}

/// MongoDB sorts a list by kind of node, then by path.
fn rank(node: &FilterNode) -> (u8, &str) {
    match node {
        FilterNode::And(_) => (0, ""),
        FilterNode::Or(_) => (1, ""),
        FilterNode::Field(Field { path, test }) => (rank_of(test), path),
        FilterNode::Not(_) => (30, ""),
        FilterNode::Nor(_) => (31, ""),
        FilterNode::Computed(_) => (33, ""),
        FilterNode::Schema(_) => (34, ""),
        FilterNode::Always(_) => (35, ""),
    }
}

fn rank_of(test: &Test) -> u8 {
    use super::tree::ComparisonOperator;
    match test {
        Test::ElementObject(_) => 2,
        Test::ElementValue(_) => 3,
        Test::Size(_) => 4,
        Test::Compare(ComparisonOperator::Equal, _) => 5,
        Test::Compare(ComparisonOperator::LessOrEqual, _) => 6,
        Test::Compare(ComparisonOperator::Less, _) => 7,
        Test::Compare(ComparisonOperator::Greater, _) => 8,
        Test::Compare(ComparisonOperator::GreaterOrEqual, _) => 9,
        Test::Regex(_) => 10,
        Test::Modulo { .. } => 11,
        Test::Exists => 12,
        Test::Member(_) => 13,
        Test::Bits(_) => 14,
        Test::Type(_) => 32,
    }
}

/// `{path: {$not: {...}}}` if the denied tests are about one path.
fn negated(node: &FilterNode) -> Option<Document> {
    let fields: Vec<&Field> = match node {
        FilterNode::Field(field) => vec![field],
        FilterNode::And(nodes) => nodes
            .iter()
            .map(|node| match node {
                FilterNode::Field(field) => Some(field),
                _ => None,
            })
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let path = fields.first()?.path.as_ref();
    let mut all = Document::new();
    for field in fields {
        for (name, argument) in operators(&field.test) {
            // An operator that occurs twice cannot be written in one document.
            if all.insert(name, argument).is_some() {
                return None;
            }
        }
    }
    Some(doc! { path: { "$not": all } })
}

fn operators(test: &Test) -> Document {
    match test {
        Test::Compare(comparison, constant) => doc! { comparison.name(): owned(constant) },
        Test::Member(list) => {
            let mut values: Vec<Bson> = list.values.iter().map(owned).collect();
            values.extend(list.patterns.iter().map(|pattern| regex(&pattern.source, &pattern.options)));
            doc! { "$in": values }
        }
        Test::Exists => doc! { "$exists": true },
        Test::Type(types) => {
            let mut listed: Vec<Bson> = Vec::new();
            if types.number {
                listed.push("number".into());
            }
            #[expect(clippy::cast_possible_truncation, reason = "type numbers are between -1 and 127")]
            listed.extend(types.codes().map(|code| Bson::Int32(code as i32)));
            doc! { "$type": listed }
        }
        Test::Regex(pattern) => {
            let mut out = doc! { "$regex": &pattern.source };
            if !pattern.options.is_empty() {
                out.insert("$options", &pattern.options);
            }
            out
        }
        Test::Modulo { divisor, remainder } => doc! { "$mod": [*divisor, *remainder] },
        Test::Size(size) => doc! { "$size": i32::try_from(*size).unwrap_or(i32::MAX) },
        Test::Bits(bits) => doc! { bits.test.name(): bits.listed() },
        Test::ElementObject(node) => doc! { "$elemMatch": document(node) },
        Test::ElementValue(nodes) => {
            let mut all = Document::new();
            for node in nodes {
                match node {
                    FilterNode::Field(field) => all.extend(operators(&field.test)),
                    node => all.extend(denied(node)),
                }
            }
            doc! { "$elemMatch": all }
        }
    }
}

/// `{$not: ...}` for a denial within `$elemMatch`, where paths are empty.
fn denied(node: &FilterNode) -> Document {
    match node {
        FilterNode::Not(inner) => {
            negated(inner).and_then(|mut found| found.remove("")).and_then(|not| not.as_document().cloned())
        }
        _ => None,
    }
    .unwrap_or_default()
}

fn regex(source: &str, options: &str) -> Bson {
    match (source.to_owned().try_into(), options.to_owned().try_into()) {
        (Ok(pattern), Ok(options)) => Bson::RegularExpression(bson::Regex { pattern, options }),
        _ => Bson::Null,
    }
}

fn owned(value: &bson::RawBson) -> Bson {
    // The value was checked when the filter was parsed; a value that is malformed deep inside is shown as null.
    Bson::try_from(value.as_raw_bson_ref()).unwrap_or(Bson::Null)
}
