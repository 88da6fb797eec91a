//! The bytes that a load counts as given by its user: the documents that it inserts and the fields that it updates, byte by byte.

use std::sync::Arc;

use fathom_load::binding::Binding;
use fathom_load::core_workload::{CoreShared, CoreSource, CoreWorkload, Phase, Retry};
use fathom_load::properties::Properties;
use fathom_load::source::Source;
use fathom_wire::OpMsgWriter;

fn source(phase: Phase, pairs: &[&str]) -> CoreSource {
    let mut properties = Properties::default();
    for pair in ["workload=CoreWorkload", "recordcount=1000"].iter().chain(pairs) {
        properties.add_flag(pair).unwrap();
    }
    let workload = CoreWorkload::from_properties(&properties, phase, None).unwrap();
    let (binding, _) = Binding::from_properties(&properties).unwrap();
    CoreSource::new(&Arc::new(CoreShared::new(workload, binding, Retry::default(), 0)), 7, 0)
}

/// The frame of one message of `source` for up to `most` records.
fn frame(source: &mut CoreSource, most: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
    source.begin(most, &mut message).unwrap();
    message.finish().unwrap();
    frame
}

/// The bytes behind a word of a frame.
fn behind<'f>(frame: &'f [u8], word: &[u8]) -> &'f [u8] {
    let at = frame.windows(word.len()).position(|window| window == word).unwrap();
    &frame[at + word.len()..]
}

#[test]
fn inserted_documents_count_whole() {
    let mut source = source(Phase::Load, &["batchsize=5"]);
    let frame = frame(&mut source, 5);
    // The section of documents is the last of the message.
    let documents = behind(&frame, b"documents\0");
    let first = u32::from_le_bytes(documents[..4].try_into().unwrap());
    assert!(first > 1100, "ten fields of a hundred bytes: {first}");
    assert_eq!(source.take_user_bytes(), documents.len() as u64);
    assert_eq!(source.take_user_bytes(), 0);
}

#[test]
fn updates_count_their_fields_and_reads_nothing() {
    let mut updates = source(Phase::Run, &["updateproportion=1", "readproportion=0", "fieldlength=50"]);
    let frame_of_update = frame(&mut updates, 1);
    let set = behind(&frame_of_update, b"$set\0");
    let length = u32::from_le_bytes(set[..4].try_into().unwrap());
    // Less the length and the end of the document around the fields.
    assert_eq!(updates.take_user_bytes(), u64::from(length) - 5);
    let mut reads = source(Phase::Run, &["updateproportion=0", "readproportion=1"]);
    frame(&mut reads, 1);
    assert_eq!(reads.take_user_bytes(), 0);
}
