//! A server whose replies a test scripts: real sockets and real frames, no storage.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use bson::{Document, RawDocument, doc};
use fathom_client::{Address, Target};
use fathom_wire::{Codec, Compressor, Header, Message, OpCode, OpMsgWriter, OpReplyWriter};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request as the responder read it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) command: Document,
    pub(crate) sequences: Vec<(String, usize)>,
    pub(crate) more_to_come: bool,
    pub(crate) compressor: Option<Compressor>,
    /// The database, if the request was an OP_QUERY.
    pub(crate) query: Option<String>,
}

impl Request {
    pub(crate) fn name(&self) -> &str {
        self.command.keys().next().unwrap()
    }
}

/// The reply of the responder.
pub(crate) enum SurveyAnswer {
    Document(Document),
    /// A reply to another request than the one sent.
    Misdirected,
    Bytes(Vec<u8>),
    Nothing,
    Close,
}

impl From<Document> for SurveyAnswer {
    fn from(document: Document) -> Self {
        SurveyAnswer::Document(document)
    }
}

/// A running scripted server.
pub(crate) struct Responder {
    port: u16,
    thread: JoinHandle<Vec<Request>>,
}

impl Responder {
    /// Serves `connections` connections one after another by `script`, which sees each request except hello.
    pub(crate) fn play(
        connections: usize,
        tls: Option<Arc<ServerConfig>>,
        mut script: impl FnMut(&Request) -> SurveyAnswer + Send + 'static,
    ) -> Responder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            for _ in 0..connections {
                let (socket, _) = listener.accept().unwrap();
                match &tls {
                    None => serve(socket, &mut script, &mut seen),
                    Some(config) => {
                        let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                        serve(StreamOwned::<_, TcpStream>::new(connection, socket), &mut script, &mut seen);
                    }
                }
            }
            seen
        });
        Responder { port, thread }
    }

    /// A server that shakes hands as MongoDB 4.4 does and answers the rest by `script`.
    pub(crate) fn friendly(mut script: impl FnMut(&Request) -> SurveyAnswer + Send + 'static) -> Responder {
        Responder::play(1, None, move |request| match request.name() {
            "hello" => hello().into(),
            _ => script(request),
        })
    }

    pub(crate) fn target(&self) -> Target {
        Target::at(Address::new("localhost", self.port))
    }

    /// The received requests, after all connections have ended.
    pub(crate) fn seen(self) -> Vec<Request> {
        self.thread.join().unwrap()
    }
}

/// The minimal reply to hello.
pub(crate) fn hello() -> Document {
    doc! { "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 9, "ok": 1.0 }
}

/// Serves one connection until it ends.
pub(crate) fn serve(
    mut stream: impl Read + Write,
    script: &mut impl FnMut(&Request) -> SurveyAnswer,
    seen: &mut Vec<Request>,
) {
    let mut codec = Codec::default();
    while let Some(frame) = receive(&mut stream) {
        let mut plain = frame.clone();
        let compressor = (Header::from_frame(&frame).unwrap().op_code == OpCode::COMPRESSED)
            .then(|| codec.decompress(&frame, &mut plain).unwrap());
        let request = read(&plain, compressor);
        let id = Header::from_frame(&frame).unwrap().request_id;
        let answer = script(&request);
        let compressor = request.compressor;
        let query = request.query.is_some();
        seen.push(request);
        let mut reply = Vec::new();
        match answer {
            SurveyAnswer::Document(document) if query => {
                let mut writer = OpReplyWriter::begin(&mut reply, 1000, id, 0);
                writer.begin_document().extend(&document);
                writer.finish().unwrap();
            }
            SurveyAnswer::Document(document) => write(&mut reply, id, &document),
            SurveyAnswer::Misdirected => write(&mut reply, id.wrapping_sub(1), &doc! { "ok": 1.0 }),
            SurveyAnswer::Bytes(bytes) => reply = bytes,
            SurveyAnswer::Nothing => continue,
            SurveyAnswer::Close => return,
        }
        if let Some(compressor) = compressor {
            let plain = std::mem::take(&mut reply);
            codec.compress(&plain, compressor, &mut reply).unwrap();
        }
        // Sends the reply in two pieces, as a network may deliver it.
        let (first, second) = reply.split_at(reply.len() / 2);
        for piece in [first, second] {
            if stream.write_all(piece).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
}

fn write(reply: &mut Vec<u8>, id: i32, document: &Document) {
    let mut writer = OpMsgWriter::begin(reply, 1000, id);
    writer.body().extend(document);
    writer.finish().unwrap();
}

fn receive(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut header = [0; Header::BYTES];
    stream.read_exact(&mut header).ok()?;
    let mut frame = vec![0; Header::parse(&header).unwrap().length_bytes];
    frame[..Header::BYTES].copy_from_slice(&header);
    stream.read_exact(&mut frame[Header::BYTES..]).ok()?;
    Some(frame)
}

fn read(frame: &[u8], compressor: Option<Compressor>) -> Request {
    let owned = |document: &RawDocument| Document::try_from(document).unwrap();
    match Message::parse(frame).unwrap() {
        Message::Msg(message) => Request {
            command: owned(message.body),
            sequences: message
                .sequences()
                .map(|one| (one.name().to_owned(), one.documents().count()))
                .collect(),
            more_to_come: message.more_to_come(),
            compressor,
            query: None,
        },
        Message::Query(query) => Request {
            command: owned(query.command()),
            sequences: Vec::new(),
            more_to_come: false,
            compressor,
            query: query.command_database().map(str::to_owned),
        },
        other => panic!("{other:?}"),
    }
}
