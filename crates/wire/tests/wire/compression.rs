//! Tests of OP_COMPRESSED: round trips with every compressor, and false claims.

use bson::rawdoc;
use fathom_wire::{Code, Codec, Compressor, Header, Message, OpCode, OpMsgWriter, never_compressed};
use proptest::collection::vec;
use proptest::prelude::*;

const EACH: [Compressor; 4] = [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

fn frame(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut writer = OpMsgWriter::begin(&mut frame, 77, 5);
    writer.raw_body(&rawdoc! { "text": text });
    writer.finish().unwrap();
    frame
}

fn packed(frame: &[u8], compressor: Compressor) -> Vec<u8> {
    let mut packed = Vec::new();
    Codec::default().compress(frame, compressor, &mut packed).unwrap();
    packed
}

fn code(packed: &[u8]) -> Code {
    Codec::default().decompress(packed, &mut Vec::new()).unwrap_err().code()
}

proptest! {
    #[test]
    fn there_and_back(text in "[ab]{0,3000}|[a-z]{0,300}", rounds in 1..3) {
        let frame = frame(&text);
        let mut codec = Codec::default();
        for _ in 0..rounds {
            for compressor in EACH {
                let (mut packed, mut unpacked) = (vec![9; 3], vec![1; 5]);
                codec.compress(&frame, compressor, &mut packed).unwrap();
                prop_assert_eq!(codec.decompress(&packed[3..], &mut unpacked).unwrap(), compressor);
                prop_assert_eq!(&unpacked, &frame);
            }
        }
    }

    #[test]
    fn incompressible_data_fits(bytes in vec(any::<u8>(), 0..5000)) {
        let header = Header { length_bytes: 16 + bytes.len(), request_id: 0, response_to: 0, op_code: OpCode::MSG };
        let frame = [header.to_bytes().to_vec(), bytes].concat();
        for compressor in EACH {
            let mut unpacked = Vec::new();
            Codec::default().decompress(&packed(&frame, compressor), &mut unpacked).unwrap();
            prop_assert_eq!(&unpacked, &frame);
        }
    }

    #[test]
    fn mutilated_data_is_refused_or_read(which in 0..4_usize, changes in vec(any::<(prop::sample::Index, u8)>(), 1..5)) {
        let mut packed = packed(&frame(&"text ".repeat(100)), EACH[which]);
        for (place, byte) in changes {
            // The total length and the claimed size stay plausible, so that the data is examined.
            let place = 25 + place.index(packed.len() - 25);
            packed[place] = byte;
        }
        let mut unpacked = Vec::new();
        if Codec::default().decompress(&packed, &mut unpacked).is_ok() {
            let _ = Message::parse(&unpacked);
        }
    }
}

#[test]
fn large_incompressible_data_fits() {
    // A separate generator, because proptest would take too long.
    let mut state = 42_u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(1_000_000)
    .collect();
    let header =
        Header { length_bytes: 16 + bytes.len(), request_id: 0, response_to: 0, op_code: OpCode::MSG };
    let frame = [header.to_bytes().to_vec(), bytes].concat();
    for compressor in EACH {
        let mut unpacked = Vec::new();
        Codec::default().decompress(&packed(&frame, compressor), &mut unpacked).unwrap();
        assert!(unpacked == frame, "{compressor:?}");
    }
}

#[test]
fn a_false_claim_of_the_size_is_refused() {
    for compressor in EACH {
        for change in [-1, 1] {
            let mut packed = packed(&frame("some text"), compressor);
            packed[20] = (i32::from(packed[20]) + change) as u8;
            assert_eq!(code(&packed), Code::BadValue, "{compressor:?} {change}");
        }
    }
    for claim in [-1, i32::MAX, 48_000_000 - 15] {
        let mut packed = packed(&frame("some text"), Compressor::Snappy);
        packed[20..24].copy_from_slice(&claim.to_le_bytes());
        assert_eq!(code(&packed), Code::BadValue, "{claim}");
    }
}

#[test]
fn nesting_and_unknown_compressors_are_refused() {
    let nested = packed(&packed(&frame("text"), Compressor::Snappy), Compressor::Snappy);
    assert_eq!(code(&nested), Code::ProtocolError);
    assert_eq!(Message::parse(&nested).unwrap_err().code(), Code::ProtocolError);
    let mut unknown = packed(&frame("text"), Compressor::Zlib);
    unknown[24] = 9;
    assert_eq!(code(&unknown), Code::InternalError);
    assert_eq!(code(&unknown[..20]), Code::ProtocolError);
    assert_eq!(code(&frame("text")), Code::ProtocolError);
}

#[test]
fn what_must_not_be_compressed() {
    assert!(
        ["hello", "isMaster", "saslStart", "saslContinue", "createUser", "copydbgetnonce"]
            .into_iter()
            .all(never_compressed)
    );
    assert!(!["find", "insert", "dropUser"].into_iter().any(never_compressed));
    assert_eq!(Compressor::from_name("zstd"), Some(Compressor::Zstd));
    assert_eq!(Compressor::from_name("noop"), None);
}
