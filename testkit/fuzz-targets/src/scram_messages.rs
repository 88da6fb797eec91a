//! Fuzzes SCRAM messages from an unknown peer: no panic, and no login succeeds.

use arbitrary::{Arbitrary, Unstructured};
use fathom_wire::scram::{
    ClientConversation, ClientFirstMessage, Credentials, Mechanism, ServerConversation,
};

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(messages) = <(&[u8], &[u8])>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let kept = Credentials { iterations: 1, salt: vec![1], stored_key: vec![2; 20], server_key: vec![3; 20] };
    if let Ok(first) = ClientFirstMessage::parse(messages.0) {
        let (mut server, step) = ServerConversation::start(Mechanism::Sha1, first, kept, "abc", true);
        assert!(!step.done);
        assert!(server.step(messages.1).is_err());
        assert!(server.step(messages.1).is_err());
    }
    // A client computes the requested iterations; large numbers only take the fuzzer's time.
    if messages.0.windows(6).any(|window| window.iter().all(u8::is_ascii_digit)) {
        return;
    }
    let (mut client, _) = ClientConversation::start(Mechanism::Sha1, "user", "password", "abc");
    let _ = client.step(messages.0);
    let _ = client.step(messages.1);
    assert!(!client.is_proved());
}
