//! The Java behaviour that shows in YCSB's data: hashes of strings, and the order of a `HashMap`.

/// `String.hashCode()` of a text that grows: s0·31^(n-1) + … + s(n-1) over UTF-16 units, in 32 bits that wrap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringHash(i32);

impl StringHash {
    pub(crate) fn from_text(text: &str) -> StringHash {
        let mut hash = StringHash(0);
        hash.extend(text);
        hash
    }

    /// Adds text to the hash of the text so far.
    pub(crate) fn extend(&mut self, text: &str) {
        let next = |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
        self.0 = text.encode_utf16().fold(self.0, next);
    }

    pub(crate) fn value(self) -> i32 {
        self.0
    }
}

/// The order in which a `HashMap` of Java 8 and later returns keys that were put in this order: by bucket, and within a bucket
/// in the order of insertion. The table starts with 16 buckets and doubles when it is three quarters full.
pub(crate) fn hash_map_order<T: AsRef<str>>(keys: &[T]) -> Vec<usize> {
    let mut buckets: u32 = 16;
    while keys.len() as u64 * 4 > u64::from(buckets) * 3 && buckets < 1 << 30 {
        buckets *= 2;
    }
    let bucket = |key: &T| {
        let hash = StringHash::from_text(key.as_ref()).value() as u32;
        (hash ^ (hash >> 16)) & (buckets - 1)
    };
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|&place| keys.get(place).map(bucket));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_hash_as_in_java() {
        for (text, hash) in
            [("", 0), ("a", 97), ("hello", 99_162_322), ("user6284781860667377211:field0:", -56_807_877)]
        {
            assert_eq!(StringHash::from_text(text).value(), hash, "{text}");
        }
        let mut grown = StringHash::from_text("hel");
        grown.extend("lo");
        assert_eq!(grown.value(), StringHash::from_text("hello").value());
    }

    #[test]
    fn fields_come_in_the_order_of_a_hash_map() {
        // Seen in documents that YCSB wrote.
        let fields = |count: usize| (0..count).map(|number| format!("field{number}")).collect::<Vec<_>>();
        assert_eq!(hash_map_order(&fields(10)), [1, 0, 7, 6, 9, 8, 3, 2, 5, 4]);
        assert_eq!(hash_map_order(&fields(8)), [1, 0, 7, 6, 3, 2, 5, 4]);
        let many = hash_map_order(&fields(1000));
        let mut sorted = many.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
    }
}
