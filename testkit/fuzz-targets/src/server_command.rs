//! Fuzzes commands from untrusted clients on a whole server in memory: no panic, and always a reply that is a document with
//! `ok`. Half of the inputs run on a server that requires a login.

use std::cell::RefCell;

use fathom_server::fuzzing::Harness;

thread_local! {
    static OPEN: RefCell<Harness> = RefCell::new(Harness::new(false).expect("a server in memory"));
    static CLOSED: RefCell<Harness> = RefCell::new(Harness::new(true).expect("a server in memory"));
}

pub(crate) fn take_input(data: &[u8]) {
    // The first byte chooses the server; messages follow, each with its length in two bytes.
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let server = if choice & 1 == 0 { &OPEN } else { &CLOSED };
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (sections, more) = after.split_at(length);
        rest = more;
        let reply = server.with_borrow_mut(|server| server.run(sections));
        if let Some(reply) = reply {
            assert!(matches!(reply.get_f64("ok"), Ok(0.0 | 1.0)), "{reply:?}");
        }
    }
}
