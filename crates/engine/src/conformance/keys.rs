//! Test cases for keys and values: keys of both kinds in their order, values of all sizes.

use super::Subject;
use super::fixture::{Fixture, OwnedKey, all, bytes, committed, number, numbers, read};
use super::random::Random;
use crate::{Key, Table};

/// Negative numbers come first, and the ends of the range are numbers too.
pub fn numbers_are_in_numeric_order(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("numbers");
    let session = place.session();
    let mut expected = vec![i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0, 1, -1];
    for bits in 1..63 {
        expected.extend([1 << bits, (1 << bits) - 1, -(1 << bits), -(1 << bits) - 1]);
    }
    let mut random = Random::new(7);
    expected.extend((0..200).map(|_| random.next().cast_signed()));
    committed(&*session, || {
        for one in &expected {
            session.put(&table, number(*one), &one.to_le_bytes()).unwrap();
        }
    });
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(numbers(&*session, &table), expected);
    for one in expected {
        assert_eq!(read(&*session, &table, number(one)), Some(one.to_le_bytes().to_vec()), "value of {one}");
    }
}

/// Prefixes come before what they are prefixes of; zero and 0xff bytes are bytes; the empty key is a key.
pub fn bytes_are_in_order_of_memcmp(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.index("bytes");
    let session = place.session();
    let mut random = Random::new(8);
    let mut expected: Vec<Vec<u8>> =
        vec![Vec::new(), vec![0x7f], vec![0x80], b"a".to_vec(), b"a\0b".to_vec()];
    for byte in [0x00, 0x01, 0xfe, 0xff] {
        expected.extend([1, 2, 3, 8, 9, 1000].map(|many| vec![byte; many]));
    }
    for _ in 0..300 {
        let many = random.below(24);
        expected.push(
            (0..many)
                .map(|_| *[0x00, 0x01, 0x61, 0x80, 0xff].get(random.below(5) as usize).unwrap())
                .collect(),
        );
    }
    let long = random.bytes(1000);
    for last in 0..=0xff_u8 {
        expected.push(long.iter().copied().chain([last]).collect());
    }
    expected.sort_unstable();
    expected.dedup();
    let mut shuffled = expected.clone();
    shuffled.sort_by_key(|key| key.iter().fold(17_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(*byte)));
    committed(&*session, || {
        for key in &shuffled {
            session.insert(&table, bytes(key), &value_of(key)).unwrap();
        }
    });
    let rows = all(&*session, &table);
    assert_eq!(rows.len(), expected.len(), "as many rows as keys");
    for ((found, value), wanted) in rows.iter().zip(&expected) {
        assert_eq!(found, &OwnedKey::Bytes(wanted.clone()), "keys out of order, or changed");
        assert_eq!(value, &value_of(wanted), "value of key {wanted:?}");
        assert_eq!(
            read(&*session, &table, bytes(wanted)),
            Some(value_of(wanted)),
            "by get, of key {wanted:?}"
        );
    }
}

fn value_of(key: &[u8]) -> Vec<u8> {
    key.iter().rev().copied().take(40).collect()
}

/// From no byte to 16 MiB, alone and overwritten by another size, in both kinds of table.
pub fn values_of_all_sizes(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let (records, index) = (place.records("records"), place.index("index"));
    let session = place.session();
    let mut random = Random::new(9);
    let sizes = [0, 1, 7, 100, 4095, 4096, 4097, 32_768, 70_000, 1 << 20, 16 << 20];
    let values: Vec<Vec<u8>> = sizes.iter().map(|size| random.bytes(*size)).collect();
    let check = |table: &Table, key: Key<'_>, value: &[u8]| {
        session.put(table, key, value).unwrap();
        let found = read(&*session, table, key);
        assert!(found.as_deref() == Some(value), "a value of {} bytes came back changed", value.len());
    };
    for (place, value) in values.iter().enumerate() {
        check(&records, number(place as i64), value);
        check(&index, bytes(&[place as u8]), value);
    }
    for (place, value) in values.iter().rev().enumerate() {
        check(&records, number(place as i64), value);
    }
    for (place, value) in values.iter().rev().enumerate() {
        let found = read(&*session, &records, number(place as i64));
        assert!(found.as_ref() == Some(value), "an overwritten value of {} bytes is another", value.len());
    }
    let found: Vec<_> = all(&*session, &index).into_iter().map(|(_, value)| value).collect();
    assert!(found == values, "a cursor reads other values than were written");
}

/// `get` appends to its buffer, and leaves the buffer unchanged if the key does not exist.
pub fn get_appends(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    session.put(&table, number(1), b"one").unwrap();
    let mut out = b"head ".to_vec();
    assert!(session.get(&table, number(1), &mut out).unwrap());
    assert_eq!(out, b"head one");
    assert!(!session.get(&table, number(2), &mut out).unwrap());
    assert_eq!(out, b"head one");
}
