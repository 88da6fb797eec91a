//! Fuzzes messages, compressed or not: each is refused or read, and an accepted one can be read completely.

use fathom_wire::{Codec, Header, Message, OpCode};

pub(crate) fn take_input(bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    // The length is corrected, or nearly every input would end at the first check.
    if let (Ok(length), Some(place)) = (i32::try_from(frame.len()), frame.first_chunk_mut::<4>()) {
        *place = length.to_le_bytes();
    }
    let Ok(header) = Header::from_frame(&frame) else { return };
    let mut unpacked = Vec::new();
    if header.op_code == OpCode::COMPRESSED {
        // A claim of many megabytes is allowed, and would only make the fuzzer slow.
        let claim = frame
            .get(20..24)
            .map_or(0, |claim| claim.iter().rev().fold(0_u32, |sum, &byte| (sum << 8) | u32::from(byte)));
        if claim > 1 << 16 || Codec::default().decompress(&frame, &mut unpacked).is_err() {
            return;
        }
        frame = unpacked;
    }
    match Message::parse(&frame) {
        Ok(Message::Msg(message)) => {
            assert!(message.body.iter().all(|element| element.is_ok()));
            for sequence in message.sequences() {
                assert_eq!(sequence.documents().count(), sequence.count());
                assert!(message.sequence(sequence.name()).is_some());
            }
        }
        Ok(Message::Query(query)) => assert!(query.command().iter().all(|element| element.is_ok())),
        Ok(Message::Reply(reply)) => assert_eq!(reply.documents().count(), reply.documents().len()),
        Err(failure) => assert!(!failure.message().is_empty()),
    }
}
