//! Logins by SCRAM: the exchange of `saslStart` and `saslContinue`, and its speculative form inside hello.
//!
//! On any failure the client learns only that the login failed. An unknown user must give a proof like any other.

use std::net::SocketAddr;

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument, doc};
use fathom_query::{Code, Failure};
use fathom_wire::scram::{ClientFirstMessage, Mechanism, ScramReply, ServerConversation};

use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Reply;

/// The maximum length of a login message, as in mongod.
const MAX_PAYLOAD_BYTES: usize = 64 << 10;
/// The conversation number of the only login on a connection, as in mongod.
const CONVERSATION: i32 = 1;

/// A login in progress on a connection. A new login replaces it; a connection never has two.
#[derive(Debug)]
pub(crate) struct Conversation {
    scram: ServerConversation,
    mechanism: Mechanism,
    database: String,
    /// Whether the user exists and has such credentials.
    real: bool,
    /// Whether the user exists but has credentials for other mechanisms only.
    other_mechanisms: bool,
}

pub(crate) fn start(
    op: &OperationContext<'_>,
    database: &str,
    command: &RawDocument,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    *conversation = None;
    let name = parse::required_string(command, "mechanism")?;
    let mechanism = Mechanism::from_name(name).ok_or_else(|| {
        let what = format!("Received authentication for mechanism {name} which is unknown or not enabled");
        Failure::new(Code::MechanismUnavailable, what)
    })?;
    let payload = payload_of(command)?;
    let options = parse::document(command, "options")?.unwrap_or(parse::empty());
    let skip_empty_exchange = parse::boolean(options, "skipEmptyExchange")?;
    let first = ClientFirstMessage::parse(&payload.bytes).map_err(|failure| {
        note_failure(op, database, "", mechanism, failure.message());
        failed()
    })?;
    let user = op.instance.users.get(database, first.user());
    let credentials = user.as_ref().and_then(|user| user.credentials(mechanism)).cloned();
    let (real, other_mechanisms) = (credentials.is_some(), user.is_some() && credentials.is_none());
    let credentials = credentials.unwrap_or_else(|| {
        op.instance.users.pretend(&op.instance.parameters, mechanism, database, first.user())
    });
    let (scram, step) =
        ServerConversation::start(mechanism, first, credentials, &nonce(), skip_empty_exchange);
    *conversation =
        Some(Conversation { scram, mechanism, database: database.to_owned(), real, other_mechanisms });
    answer(&step, payload.text, reply);
    Ok(())
}

/// Answers `saslContinue`; when the exchange is complete, the connection is logged in as the user.
pub(crate) fn step(
    op: &OperationContext<'_>,
    database: &str,
    command: &RawDocument,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let Some(mut current) = conversation.take() else {
        return Err(Failure::new(Code::ProtocolError, "No SASL session state found"));
    };
    if parse::integer(command, "conversationId")? != Some(i64::from(CONVERSATION)) {
        return Err(Failure::new(Code::ProtocolError, "sasl: Mismatched conversation id"));
    }
    if current.database != database {
        let what = "Attempt to switch database target during SASL authentication.";
        return Err(Failure::new(Code::ProtocolError, what));
    }
    let payload = payload_of(command)?;
    let result = current.scram.step(&payload.bytes);
    let step = match result {
        Ok(step) if current.real => step,
        other => {
            let why = other.err().map_or("there is no such user".to_owned(), |why| why.message().to_owned());
            note_failure(op, database, current.scram.user(), current.mechanism, &why);
            return Err(failed());
        }
    };
    answer(&step, payload.text, reply);
    if step.done {
        op.client.add_user(current.scram.user(), database);
        note_success(op, &current);
    } else {
        *conversation = Some(current);
    }
    Ok(())
}

/// Begins a login within hello; a failure is left for the real login to report.
pub(crate) fn speculate(
    op: &OperationContext<'_>,
    login: &RawDocument,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let Some(database) = parse::string(login, "db")? else { return Ok(()) };
    if parse::field(login, "saslStart").is_none() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let mut inner = Reply::new(&mut bytes);
    let begun = start(op, database, login, conversation, &mut inner);
    inner.end();
    // A driver that guessed the wrong mechanism must learn that, so that it uses one of `saslSupportedMechs`.
    if conversation.as_ref().is_some_and(|one| one.other_mechanisms) {
        *conversation = None;
    } else if begun.is_ok()
        && let Ok(inner) = RawDocument::from_bytes(&bytes)
    {
        reply.document("speculativeAuthenticate", inner);
    }
    Ok(())
}

/// Writes `saslSupportedMechs` for `database.user`. An unknown user appears to have all mechanisms, like most real users.
pub(crate) fn write_mechanisms(op: &OperationContext<'_>, user: &str, reply: &mut Reply<'_>) -> Result<()> {
    let Some((database, name)) = user.split_once('.') else {
        let what = format!("saslSupportedMechs must be a string 'database.user', not '{user}'");
        return Err(Failure::new(Code::BadValue, what));
    };
    let mechanisms = match op.instance.users.get(database, name) {
        Some(user) => user.mechanisms(),
        None => vec![Mechanism::Sha1, Mechanism::Sha256],
    };
    let mut array = reply.begin_array("saslSupportedMechs");
    mechanisms.iter().for_each(|mechanism| array.string(mechanism.name()));
    Ok(())
}

/// Whether a connection comes from this machine, for the localhost exception.
pub(crate) fn is_local(remote: &str) -> bool {
    remote.parse::<SocketAddr>().is_ok_and(|address| match address.ip() {
        std::net::IpAddr::V6(ip) => {
            ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
        std::net::IpAddr::V4(ip) => ip.is_loopback(),
    })
}

struct Payload {
    bytes: Vec<u8>,
    /// Whether the payload came as text, so that the answer is text too.
    text: bool,
}

fn payload_of(command: &RawDocument) -> Result<Payload> {
    use base64::Engine as _;
    let payload = match parse::field(command, "payload") {
        Some(RawBsonRef::Binary(binary)) => Payload { bytes: binary.bytes.to_vec(), text: false },
        Some(RawBsonRef::String(text)) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| failed())?;
            Payload { bytes, text: true }
        }
        Some(other) => return Err(parse::wrong_type("payload", other, "binData")),
        None => return Err(parse::missing("payload")),
    };
    if payload.bytes.len() > MAX_PAYLOAD_BYTES { Err(failed()) } else { Ok(payload) }
}

fn answer(step: &ScramReply, text: bool, reply: &mut Reply<'_>) {
    use base64::Engine as _;
    reply.i32("conversationId", CONVERSATION);
    reply.bool("done", step.done);
    if text {
        reply.string("payload", &base64::engine::general_purpose::STANDARD.encode(&step.payload));
    } else {
        reply.binary("payload", BinarySubtype::Generic, &step.payload);
    }
}

fn failed() -> Failure {
    Failure::new(Code::AuthenticationFailed, "Authentication failed.")
}

fn nonce() -> String {
    let mut bytes = [0_u8; 24];
    crate::random::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn note_success(op: &OperationContext<'_>, current: &Conversation) {
    op.instance.log.info(
        "ACCESS",
        20250,
        &format!("conn{}", op.client.id),
        "Authentication succeeded",
        doc! {
            "mechanism": current.mechanism.name(),
            "principalName": current.scram.user(),
            "authenticationDatabase": &current.database,
            "remote": &op.client.remote,
        },
    );
}

fn note_failure(op: &OperationContext<'_>, database: &str, user: &str, mechanism: Mechanism, why: &str) {
    op.instance.log.info(
        "ACCESS",
        20249,
        &format!("conn{}", op.client.id),
        "Authentication failed",
        doc! {
            "mechanism": mechanism.name(),
            "principalName": user,
            "authenticationDatabase": database,
            "remote": &op.client.remote,
            "result": why,
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_local() {
        for (address, local) in [
            ("127.0.0.1:5", true),
            ("[::1]:5", true),
            ("[::ffff:127.0.0.1]:5", true),
            ("10.0.0.1:5", false),
            ("[fe80::1]:5", false),
            ("", false),
        ] {
            assert_eq!(is_local(address), local, "{address}");
        }
    }
}
