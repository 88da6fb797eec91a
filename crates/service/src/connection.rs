//! Serves one connection: reads a message, has it answered and writes the reply, until the peer disconnects.
//!
//! Bytes that are not a message end the connection. A length that a peer only announces takes no memory: the buffer
//! grows with the bytes received.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use fathom_wire::{
    Code, Compressor, Failure, Header, Message, OpCode, OpMsg, OpMsgWriter, OpQuery, OpReplyWriter,
};
use rustls::ServerConfig;

use crate::service::{IdleConnection, ServedConnection};
use crate::stream::{Socket, SocketStream};
use crate::{Answer, RequestMessage, Result, Service};

/// The stack size of a connection's thread, as in mongod; the deepest recursion is over 200 nested documents.
const STACK_BYTES: usize = 1 << 20;
/// The number of bytes read at once; most requests fit.
const CHUNK_BYTES: usize = 16 << 10;
/// The maximum number of bytes of a large message read at once.
const MAX_AT_ONCE_BYTES: usize = 1 << 20;
/// A larger buffer, left behind by one large message, is released.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// The maximum pause of a client within the first bytes, which tell a TLS handshake from a message.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether bytes begin a TLS handshake; `None` while they are too few to decide. A message that began like one would announce 64
/// KB at least, but the first message of a connection is a hello.
fn is_handshake(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [] | [0x16] | [0x16, 3] => None,
        [0x16, 3, version, ..] => Some((1..=4).contains(version)),
        _ => Some(false),
    }
}

/// Makes a new connection's stream, and returns the first bytes of its messages if they were read. If the client may choose,
/// these bytes decide whether the connection is encrypted.
pub(super) fn secure(
    socket: Socket,
    tls: Option<&Arc<ServerConfig>>,
    may_be_plain: bool,
) -> io::Result<(SocketStream, Vec<u8>)> {
    let mut stream = SocketStream::Plain(socket);
    let Some(config) = tls else { return Ok((stream, Vec::new())) };
    let first = if may_be_plain { read_first(&mut stream, FIRST_BYTES_TIMEOUT)? } else { Vec::new() };
    if may_be_plain && is_handshake(&first) != Some(true) {
        return Ok((stream, first));
    }
    Ok((stream.encrypt(config, &first)?, Vec::new()))
}

/// Reads until it is clear whether the client begins a TLS handshake. A client may take any time to send its first byte, as on
/// any connection; `timeout` limits each later pause.
fn read_first(stream: &mut SocketStream, timeout: Duration) -> io::Result<Vec<u8>> {
    let (mut bytes, mut filled) = ([0; 3], 0);
    loop {
        let read = stream.read(bytes.get_mut(filled..).unwrap_or_default())?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let first = bytes.get(..filled).unwrap_or_default();
        if is_handshake(first).is_some() {
            stream.socket().set_read_timeout(None)?;
            return Ok(first.to_vec());
        }
        stream.socket().set_read_timeout(Some(timeout))?;
    }
}

impl<S: Service> ServedConnection<S> {
    /// Answers messages until the peer disconnects or sends an invalid one, the server stops, or the service takes the connection over.
    pub(super) fn serve(mut self) {
        while !self.service.is_stopping() {
            let Ok(Some(length)) = self.read_frame() else { break };
            self.service.traffic().received(length);
            if !self.answer(length) || self.service.is_over(&self.peer) {
                break;
            }
            self.use_up(length);
            self.spare_output();
            let between_messages = self.filled == 0 && self.stream.is_plain() && !self.compressed;
            if between_messages && self.service.is_wanted(&self.peer) {
                let service = Arc::clone(&self.service);
                return service.take_over(IdleConnection::new(self));
            }
        }
    }

    /// Drops the frame at the start of the input after it was answered.
    pub(super) fn use_up(&mut self, length: usize) {
        self.input.copy_within(length..self.filled, 0);
        self.filled -= length;
        if self.filled == 0 && self.input.len() > MAX_KEPT_BYTES {
            self.input = vec![0; CHUNK_BYTES];
        }
    }

    /// Releases the memory of a large reply after it was sent.
    pub(super) fn spare_output(&mut self) {
        if self.output.capacity() > MAX_KEPT_BYTES {
            self.output = Vec::with_capacity(CHUNK_BYTES);
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Reads until a whole frame is at the start of the input; returns its length, or `None` at the end.
    fn read_frame(&mut self) -> io::Result<Option<usize>> {
        loop {
            let wanted = self.wanted()?;
            if self.filled >= wanted {
                return Ok(Some(wanted));
            }
            self.make_room(wanted);
            let read = self.stream.read(self.input.get_mut(self.filled..).unwrap_or_default())?;
            if read == 0 {
                return Ok(None);
            }
            self.filled += read;
        }
    }

    /// The length of the frame at the start of the input, or of its header while that is incomplete.
    pub(super) fn wanted(&self) -> io::Result<usize> {
        let filled = self.input.get(..self.filled).unwrap_or_default();
        if self.requests == 0 && is_handshake(filled) == Some(true) {
            let what = "SSL handshake received but server is started without SSL support";
            return Err(self.protest(&Failure::new(Code::ProtocolError, what)));
        }
        match filled.first_chunk::<{ Header::BYTES }>() {
            None => Ok(Header::BYTES),
            Some(header) => Ok(Header::parse(header).map_err(|failure| self.protest(&failure))?.length_bytes),
        }
    }

    /// Makes room for more of a frame. An announced length is trusted only in proportion to the bytes received: a peer that
    /// announces 48 MB and sends a header gets room for a header.
    pub(super) fn make_room(&mut self, wanted: usize) {
        let believed = self.filled.clamp(CHUNK_BYTES / 2, MAX_AT_ONCE_BYTES);
        let room = if self.requests == 0 { (wanted - self.filled).min(believed) } else { believed };
        if self.input.len() < self.filled + room {
            self.input.resize(self.filled + room, 0);
        }
    }

    /// Answers the frame at the start of the input; false ends the connection.
    fn answer(&mut self, length: usize) -> bool {
        match self.write_answer(length) {
            // No other thread could answer it.
            Answer::Close | Answer::Unanswered => false,
            Answer::MayCompress | Answer::Plain => {
                self.output.is_empty() || self.stream.write_all(&self.output).is_ok()
            }
        }
    }

    /// Writes the reply to the frame at the start of the input into the output, compressed if the answer allows.
    pub(super) fn write_answer(&mut self, length: usize) -> Answer {
        let input = std::mem::take(&mut self.input);
        let result = self.answer_frame(input.get(..length).unwrap_or_default());
        self.input = input;
        match result {
            Ok(Answer::Unanswered) => Answer::Unanswered,
            Ok(answer) => {
                self.service.traffic().sent(self.output.len());
                answer
            }
            Err(failure) => {
                self.protest(&failure);
                Answer::Close
            }
        }
    }

    fn answer_frame(&mut self, frame: &[u8]) -> Result<Answer> {
        self.output.clear();
        let header = Header::from_frame(frame)?;
        self.compressed = header.op_code == OpCode::COMPRESSED;
        if !self.compressed {
            return self.answer_plain(frame, header.request_id, None);
        }
        let mut plain = std::mem::take(&mut self.plain);
        let compressor = self.codec.decompress(frame, &mut plain)?;
        self.service.traffic().decompressed(compressor, frame.len(), plain.len());
        let result = self.answer_plain(&plain, header.request_id, Some(compressor));
        plain.clear();
        plain.shrink_to(MAX_KEPT_BYTES);
        self.plain = plain;
        result
    }

    fn answer_plain(
        &mut self,
        frame: &[u8],
        request_id: i32,
        compressor: Option<Compressor>,
    ) -> Result<Answer> {
        match Message::parse(frame)? {
            Message::Msg(message) => self.answer_message(&message, request_id, compressor),
            Message::Query(query) => self.answer_query(&query, request_id),
            Message::Reply(_) => Err(Failure::new(Code::ProtocolError, "a client sent an OP_REPLY")),
        }
    }

    fn answer_message(
        &mut self,
        message: &OpMsg<'_>,
        request_id: i32,
        compressor: Option<Compressor>,
    ) -> Result<Answer> {
        self.requests = self.requests.wrapping_add(1);
        let mut output = std::mem::take(&mut self.output);
        let mut writer = OpMsgWriter::begin(&mut output, self.requests, request_id);
        let answer = self.run(&RequestMessage::Message(message), writer.body_bytes())?;
        let finished = writer.finish();
        self.output = output;
        let length = finished?;
        if answer == Answer::Unanswered {
            self.requests = self.requests.wrapping_sub(1);
        }
        if matches!(answer, Answer::Close | Answer::Unanswered) {
            self.output.clear();
            return Ok(answer);
        }
        if message.more_to_come() {
            self.output.clear();
        } else if let (Some(compressor), true) = (compressor, answer == Answer::MayCompress) {
            let mut packed = std::mem::take(&mut self.plain);
            packed.clear();
            self.codec.compress(&self.output, compressor, &mut packed)?;
            self.service.traffic().compressed(compressor, length, packed.len());
            std::mem::swap(&mut self.output, &mut packed);
            self.plain = packed;
        }
        Ok(answer)
    }

    fn answer_query(&mut self, query: &OpQuery<'_>, request_id: i32) -> Result<Answer> {
        self.requests = self.requests.wrapping_add(1);
        let mut output = std::mem::take(&mut self.output);
        let mut writer = OpReplyWriter::begin(&mut output, self.requests, request_id, 0);
        let answer = self.run(&RequestMessage::Query(query), writer.document_bytes())?;
        let finished = writer.finish();
        self.output = output;
        finished?;
        Ok(answer)
    }

    fn run(&mut self, incoming: &RequestMessage<'_>, out: &mut Vec<u8>) -> Result<Answer> {
        self.service.answer(&mut self.peer, incoming, out)
    }

    fn protest(&self, failure: &Failure) -> io::Error {
        let attributes =
            doc! { "error": failure.message(), "code": failure.code().0, "remote": &self.remote };
        let what = "Error receiving request from client";
        self.service.log().info("NETWORK", 22988, &format!("conn{}", self.id), what, attributes);
        io::Error::from(io::ErrorKind::InvalidData)
    }
}

/// Runs a connection on a thread of its own. If none can be started, `run` is dropped, and so closes the connection that it holds.
pub(super) fn spawn<S: Service>(service: &S, id: u64, run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(format!("conn{id}")).stack_size(STACK_BYTES);
    if let Err(error) = thread.spawn(run) {
        let what = "cannot start a thread for a connection";
        service.log().warning("NETWORK", 22944, "listener", what, doc! { "error": error.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_short_message_is_not_taken_for_a_handshake() {
        assert_eq!(is_handshake(&[0x16, 3, 1, 2]), Some(true));
        assert_eq!(is_handshake(&[0x16, 3]), None);
        // A hello of 278 bytes, and one of 790.
        assert_eq!(is_handshake(&[0x16, 1, 0, 0]), Some(false));
        assert_eq!(is_handshake(&[0x16, 3, 0, 0]), Some(false));
        assert_eq!(is_handshake(&[0x3f]), Some(false));
    }

    #[test]
    fn a_client_that_pauses_within_its_first_bytes_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut stream = SocketStream::Plain(Socket(Arc::new(listener.accept().unwrap().0)));
        client.write_all(&[0x16, 3]).unwrap();
        let failed = read_first(&mut stream, Duration::from_millis(10)).unwrap_err();
        assert!(matches!(failed.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{failed}");
        client.write_all(&[0x3f]).unwrap();
        assert_eq!(read_first(&mut stream, Duration::from_millis(10)).unwrap(), [0x3f]);
        assert_eq!(stream.socket().read_timeout().unwrap(), None);
    }
}
