//! The order of values: a ladder of all classes, and numbers across types.
use super::*;
use crate::order::samples::ladder;
use bson::doc;

fn raw(value: &Bson) -> RawBson {
    RawBson::try_from(value.clone()).unwrap()
}

/// Compares in all four ways and requires one answer.
fn order(left: &Bson, right: &Bson) -> Ordering {
    let (raw_left, raw_right) = (raw(left), raw(right));
    let order = compare_owned(left, right);
    assert_eq!(
        order,
        compare(raw_left.as_raw_bson_ref(), raw_right.as_raw_bson_ref()),
        "{left} beside {right}, raw"
    );
    assert_eq!(order, compare_mixed(raw_left.as_raw_bson_ref(), right), "{left} beside {right}, mixed");
    order
}

#[test]
fn the_ladder_is_strictly_ordered() {
    let ladder = ladder();
    for (place, left) in ladder.iter().enumerate() {
        for (other, right) in ladder.iter().enumerate() {
            assert_eq!(order(left, right), place.cmp(&other), "{left:?} beside {right:?}");
        }
    }
}

#[test]
fn numbers_are_equal_across_types() {
    let ones = [
        Bson::Int32(1),
        Bson::Int64(1),
        Bson::Double(1.0),
        Bson::Decimal128("1".parse().unwrap()),
        Bson::Decimal128("1.000".parse().unwrap()),
    ];
    let zeros = [Bson::Int32(0), Bson::Double(-0.0), Bson::Decimal128("-0E+3".parse().unwrap())];
    for same in [&ones[..], &zeros[..]] {
        for left in same {
            for right in same {
                assert_eq!(order(left, right), Ordering::Equal);
            }
        }
    }
    assert_eq!(order(&Bson::Int64(i64::MAX), &Bson::Double(i64::MAX as f64)), Ordering::Less);
    assert_eq!(order(&Bson::Int64(i64::MIN), &Bson::Double(i64::MIN as f64)), Ordering::Equal);
    assert_eq!(order(&Bson::Int32(-1), &Bson::Double(-1.5)), Ordering::Greater);
    assert_eq!(order(&Bson::Double(f64::NAN), &Bson::Decimal128("NaN".parse().unwrap())), Ordering::Equal);
}

#[test]
fn documents_compare_by_type_then_name_then_value() {
    let cases = [
        (doc! { "b": 1 }, doc! { "a": "" }, Ordering::Less),
        (doc! { "a": 2 }, doc! { "b": 1 }, Ordering::Less),
        (doc! { "a": 1 }, doc! { "a": 1.0 }, Ordering::Equal),
        (doc! { "a": 1, "b": 1 }, doc! { "a": 1 }, Ordering::Greater),
    ];
    for (left, right, expected) in cases {
        let (left, right) =
            (bson::RawDocumentBuf::try_from(left).unwrap(), bson::RawDocumentBuf::try_from(right).unwrap());
        assert_eq!(compare_documents(&left, &right), expected);
        assert_eq!(compare_documents(&right, &left), expected.reverse());
    }
}

#[test]
fn nothing_nests_deep_enough_to_exhaust_the_stack() {
    let mut bytes = vec![5, 0, 0, 0, 0];
    for _ in 0..100_000 {
        let mut outer = ((bytes.len() + 8) as i32).to_le_bytes().to_vec();
        if bytes.len() > 60_000 {
            break;
        }
        outer.extend([3, b'a', 0]);
        outer.extend(&bytes);
        outer.push(0);
        bytes = outer;
    }
    let document = RawDocument::from_bytes(&bytes).unwrap();
    assert_eq!(compare_documents(document, document), Ordering::Equal);
}
