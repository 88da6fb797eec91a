//! Fuzzes index keys from an untrusted disk: no panic, and a decoded key is encoded to one that decodes to the same
//! values and sorts equally.

use fathom_query::{Bound, KeyBuilder, compare_owned, decode, leading_record_id, split_record_id};

pub(crate) fn take_input(data: &[u8]) {
    // The first byte selects the descending fields, the second the number of bytes of type bits.
    let [flags, type_bytes, rest @ ..] = data else { return };
    let Some((type_bits, bytes)) = rest.split_at_checked(usize::from(*type_bytes)) else { return };
    let _ = (split_record_id(bytes), leading_record_id(bytes));
    for fields in 1..=3 {
        let descending: Vec<bool> = (0..fields).map(|field| flags >> field & 1 == 1).collect();
        let Ok(values) = decode(bytes, type_bits, &descending) else { continue };
        let mut builder = KeyBuilder::new();
        for (value, descending) in values.iter().zip(&descending) {
            builder.append_owned(value, *descending);
        }
        builder.check().expect("what was decoded is whole");
        let key = builder.finish(Bound::Exact);
        let again = decode(&key.bytes, &key.type_bits, &descending).expect("what was encoded decodes");
        assert_eq!(values.len(), again.len());
        for (value, again) in values.iter().zip(&again) {
            assert!(compare_owned(value, again).is_eq(), "{value:?} came back as {again:?}");
        }
    }
}
