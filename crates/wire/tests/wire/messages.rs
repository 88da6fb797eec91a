//! Tests of messages: frames as drivers send them, round trips, and arbitrary input of a hostile peer.

use bson::{RawDocumentBuf, rawdoc};
use fathom_wire::limits::MAX_MESSAGE_BYTES;
use fathom_wire::{
    Code, DocumentWriter, Header, Message, OpCode, OpMsg, OpMsgWriter, OpReplyWriter, flag,
    write_query_command,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::values::document;

/// `{ping: 1, $db: "admin"}` as OP_MSG, as pymongo sends it.
const PING: &[u8] = b"\x33\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\
    \x1e\0\0\0\x10ping\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0";

/// `{isMaster: 1}` on `admin.$cmd` as OP_QUERY, as the Java driver 3.8 opens a connection.
const IS_MASTER: &[u8] =
    b"\x3a\0\0\0\x07\0\0\0\0\0\0\0\xd4\x07\0\0\x04\0\0\0admin.$cmd\0\0\0\0\0\xff\xff\xff\xff\
    \x13\0\0\0\x10isMaster\0\x01\0\0\0\0";

fn message(frame: &[u8]) -> OpMsg<'_> {
    match Message::parse(frame).unwrap() {
        Message::Msg(message) => message,
        other => panic!("{other:?}"),
    }
}

fn code(frame: &[u8]) -> Code {
    Message::parse(frame).unwrap_err().code()
}

/// A frame of OP_MSG with these flags and sections.
fn framed(flags: u32, sections: &[&[u8]]) -> Vec<u8> {
    let body: Vec<u8> = flags.to_le_bytes().into_iter().chain(sections.concat()).collect();
    let header =
        Header { length_bytes: 16 + body.len(), request_id: 1, response_to: 0, op_code: OpCode::MSG };
    [header.to_bytes().to_vec(), body].concat()
}

fn sequence(name: &str, documents: &[RawDocumentBuf]) -> Vec<u8> {
    let mut content = format!("{name}\0").into_bytes();
    documents.iter().for_each(|document| content.extend_from_slice(document.as_bytes()));
    [&[1], (content.len() as i32 + 4).to_le_bytes().as_slice(), content.as_slice()].concat()
}

fn body(document: RawDocumentBuf) -> Vec<u8> {
    [&[0], document.as_bytes()].concat()
}

#[test]
fn frames_of_drivers() {
    let ping = message(PING);
    assert_eq!((ping.flags, ping.body.get_str("$db").unwrap()), (0, "admin"));
    let Message::Query(query) = Message::parse(IS_MASTER).unwrap() else { panic!() };
    assert_eq!((query.flags, query.number_to_return), (4, -1));
    assert_eq!(query.command_database(), Some("admin"));
    assert_eq!(query.command().get_i32("isMaster").unwrap(), 1);

    let mut written = Vec::new();
    let mut writer = OpMsgWriter::begin(&mut written, 1, 0);
    let mut body = writer.body();
    body.i32("ping", 1);
    body.string("$db", "admin");
    body.end();
    assert_eq!(writer.finish().unwrap(), PING.len());
    assert_eq!(written, PING);

    let mut written = Vec::new();
    write_query_command(&mut written, 7, "admin", &rawdoc! { "isMaster": 1 });
    assert_eq!(written, IS_MASTER);
}

#[test]
fn a_wrapped_command_is_unwrapped() {
    let mut frame = Vec::new();
    let wrapped = rawdoc! { "$query": { "find": "c" }, "$readPreference": { "mode": "secondary" } };
    write_query_command(&mut frame, 7, "db", &wrapped);
    let Message::Query(query) = Message::parse(&frame).unwrap() else { panic!() };
    assert_eq!(query.command().get_str("find").unwrap(), "c");
}

#[test]
fn sections_in_any_order() {
    let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
    let insert = body(rawdoc! { "insert": "c", "$db": "db" });
    let sequences = [sequence("documents", &documents), sequence("more", &[])];
    for order in [
        [&insert, &sequences[0], &sequences[1]],
        [&sequences[0], &insert, &sequences[1]],
        [&sequences[0], &sequences[1], &insert],
    ] {
        let frame = framed(flag::MORE_TO_COME | flag::EXHAUST_ALLOWED, &order.map(Vec::as_slice));
        let read = message(&frame);
        assert!(read.more_to_come() && read.exhaust_allowed());
        let found = read.sequence("documents").unwrap();
        assert_eq!(found.count(), 2);
        assert!(found.documents().eq(documents.iter().map(|document| &**document)));
        assert_eq!(read.sequence("more").unwrap().count(), 0);
        assert!(read.sequence("updates").is_none());
    }
}

#[test]
fn each_rule_of_op_msg_is_kept() {
    let insert = body(rawdoc! { "insert": "c", "$db": "db", "updates": 1 });
    let one = sequence("documents", &[rawdoc! { "_id": 1 }]);
    let two = sequence("a", &[]);
    assert_eq!(code(&framed(1 << 4, &[&insert])), Code::IllegalOpMsgFlag);
    assert!(Message::parse(&framed(1 << 20, &[&insert])).is_ok(), "an unknown optional flag is ignored");
    assert_eq!(code(&framed(0, &[])), Code(40587));
    assert_eq!(code(&framed(0, &[&one])), Code(40587));
    assert_eq!(code(&framed(0, &[&insert, &insert])), Code(40430));
    assert_eq!(code(&framed(0, &[&insert, &one, &one])), Code(40431));
    assert_eq!(code(&framed(0, &[&insert, &[2]])), Code(40432));
    assert_eq!(code(&framed(0, &[&insert, &sequence("updates", &[])])), Code(40433));
    let three = sequence("b", &[]);
    assert_eq!(code(&framed(0, &[&insert, &one, &two, &three])), Code::TooManyDocumentSequences);
    assert_eq!(code(&framed(0, &[&insert, &[1, 3, 0, 0, 0]])), Code::Overflow);
    assert_eq!(code(&framed(0, &[&insert, &[1, 0xff, 0, 0, 0]])), Code::Overflow);
    assert_eq!(code(&framed(0, &[&insert, &[1, 5, 0, 0, 0, b'a']])), Code::Overflow);
    let long = [&[0], 0x0101_0000_i32.to_le_bytes().as_slice(), &[0; 64]].concat();
    assert_eq!(code(&framed(0, &[&long])), Code::BSONObjectTooLarge);
}

#[test]
fn checksums_are_verified() {
    let mut frame = Vec::new();
    let mut writer = OpMsgWriter::begin(&mut frame, 3, 9);
    writer.raw_body(&rawdoc! { "ok": 1.0 });
    let length = writer.finish_with_checksum().unwrap();
    assert_eq!(length, frame.len());
    assert_eq!(message(&frame).body.get_f64("ok").unwrap(), 1.0);
    let header = Header::from_frame(&frame).unwrap();
    assert_eq!((header.request_id, header.response_to), (3, 9));
    for at in [4, 22, length - 1] {
        let mut wrong = frame.clone();
        wrong[at] ^= 1;
        assert_eq!(code(&wrong), Code::ChecksumMismatch, "byte {at}");
    }
}

#[test]
fn other_opcodes_are_refused_by_name() {
    for (number, name) in [
        (2001, "OP_UPDATE"),
        (2002, "OP_INSERT"),
        (2005, "OP_GET_MORE"),
        (2006, "OP_DELETE"),
        (2007, "OP_KILL_CURSORS"),
    ] {
        let header = Header { length_bytes: 16, request_id: 1, response_to: 0, op_code: OpCode(number) };
        let failure = Message::parse(&header.to_bytes()).unwrap_err();
        assert!(failure.message().starts_with(name), "{failure}");
    }
    let header = Header { length_bytes: 16, request_id: 1, response_to: 0, op_code: OpCode(4711) };
    assert_eq!(code(&header.to_bytes()), Code::ProtocolError);
}

#[test]
fn lengths_are_checked_before_anything_else() {
    for length in [i32::MIN, -1, 0, 15, MAX_MESSAGE_BYTES as i32 + 1, i32::MAX] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(Header::parse(&bytes).unwrap_err().code(), Code::ProtocolError, "{length}");
    }
    assert_eq!(code(&PING[..PING.len() - 1]), Code::ProtocolError);
    assert_eq!(code(&PING[..10]), Code::ProtocolError);
}

#[test]
fn a_message_that_grew_too_long_is_taken_back() {
    let mut buffer = PING.to_vec();
    let mut writer = OpMsgWriter::begin(&mut buffer, 1, 0);
    writer.raw_body(&rawdoc! { "insert": "c" });
    let mut documents = writer.sequence("documents");
    let large = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0; 16_000_000] };
    for _ in 0..3 {
        documents.document(&rawdoc! { "b": large.clone() });
    }
    documents.end();
    assert_eq!(writer.finish().unwrap_err().code(), Code::BSONObjectTooLarge);
    assert_eq!(buffer, PING);
}

#[test]
fn replies_to_op_query() {
    let mut frame = Vec::new();
    let mut writer = OpReplyWriter::begin(&mut frame, 5, 7, OpReplyWriter::QUERY_FAILURE);
    writer.begin_document().f64("ok", 0.0);
    writer.document_bytes().extend_from_slice(rawdoc! { "a": 1 }.as_bytes());
    writer.finish().unwrap();
    let Message::Reply(reply) = Message::parse(&frame).unwrap() else { panic!() };
    assert_eq!((reply.flags, reply.cursor_id, reply.starting_from), (2, 0, 0));
    assert_eq!(reply.documents().len(), 2);
    assert_eq!(reply.documents().last().unwrap().get_i32("a").unwrap(), 1);
    let at = frame.len() - rawdoc! { "a": 1 }.as_bytes().len();
    frame.truncate(at);
    frame[0] = frame.len() as u8;
    assert_eq!(code(&frame), Code::ProtocolError, "fewer documents than it says");
}

proptest! {
    #[test]
    fn what_is_written_is_read(fields in document(), documents in vec(document(), 0..5), more in vec(document(), 0..3), checksum: bool, ids in any::<(i32, i32)>()) {
        prop_assume!(!fields.contains_key("documents") && !fields.contains_key("more"));
        let mut buffer = vec![1, 2, 3];
        let mut writer = OpMsgWriter::begin(&mut buffer, ids.0, ids.1);
        writer.set_flags(flag::EXHAUST_ALLOWED);
        let mut sequence = writer.sequence("documents");
        documents.iter().for_each(|document| sequence.begin_document().extend(document));
        sequence.end();
        writer.body().extend(&fields);
        let mut sequence = writer.sequence("more");
        more.iter().for_each(|document| DocumentWriter::new(sequence.buffer()).extend(document));
        sequence.end();
        if checksum { writer.finish_with_checksum().unwrap() } else { writer.finish().unwrap() };
        let header = Header::from_frame(&buffer[3..]).unwrap();
        prop_assert_eq!((header.request_id, header.response_to), ids);
        let read = message(&buffer[3..]);
        prop_assert_eq!(read.flags, flag::EXHAUST_ALLOWED | u32::from(checksum));
        prop_assert_eq!(read.body.as_bytes(), RawDocumentBuf::try_from(&fields).unwrap().into_bytes());
        for (name, written) in [("documents", &documents), ("more", &more)] {
            let found = read.sequence(name).unwrap();
            prop_assert_eq!(found.count(), written.len());
            for (found, written) in found.documents().zip(written) {
                prop_assert_eq!(found.as_bytes(), RawDocumentBuf::try_from(written).unwrap().into_bytes());
            }
        }
    }

    #[test]
    fn a_mutilated_frame_is_refused_or_read(which in 0..3_usize, changes in vec(any::<(prop::sample::Index, u8)>(), 1..6), cut in any::<prop::sample::Index>()) {
        let insert = framed(0, &[&body(rawdoc! { "insert": "c" }), &sequence("documents", &[rawdoc! { "_id": 1, "a": ["b", { "c": null }] }])]);
        let mut frame = [PING.to_vec(), IS_MASTER.to_vec(), insert][which].clone();
        for (place, byte) in changes {
            let place = place.index(frame.len());
            frame[place] = byte;
        }
        let _ = Message::parse(&frame);
        let length = 16.max(cut.index(frame.len()));
        frame.truncate(length);
        frame[..4].copy_from_slice(&(length as i32).to_le_bytes());
        if let Ok(Message::Msg(message)) = Message::parse(&frame) {
            prop_assert!(message.sequences().all(|sequence| sequence.documents().count() == sequence.count()));
        }
    }
}

#[test]
fn opcodes_are_shown_by_name() {
    assert_eq!(format!("{:?} {:?}", OpCode::MSG, OpCode(5)), "OP_MSG opcode 5");
}
