//! Sessions for transactions: one transaction at a time in each, with a number that goes up.

use bson::Uuid;
use bson::spec::BinarySubtype;
use fathom_wire::DocumentWriter;

/// A session that is in use.
#[derive(Debug)]
pub(super) struct Session {
    id: [u8; 16],
    /// The number of the transaction.
    number: i64,
}

/// Sessions that are free.
#[derive(Debug, Default)]
pub(super) struct Sessions(Vec<Session>);

impl Sessions {
    /// A session for a new transaction. Its id is nobody else's: chance, not the seed, makes it.
    pub(super) fn take(&mut self) -> Session {
        let mut session = self.0.pop().unwrap_or_else(|| Session { id: Uuid::new().bytes(), number: 0 });
        session.next();
        session
    }

    /// Gives one back.
    pub(super) fn put(&mut self, session: Session) {
        self.0.push(session);
    }
}

impl Session {
    /// Goes on to the next transaction; what is open of the one before ends with it.
    pub(super) fn next(&mut self) {
        self.number += 1;
    }

    /// Writes what makes a command part of the transaction.
    pub(super) fn write(&self, is_first: bool, body: &mut DocumentWriter<'_>) {
        let mut id = body.begin_document("lsid");
        id.binary("id", BinarySubtype::Uuid, &self.id);
        id.end();
        body.i64("txnNumber", self.number);
        if is_first {
            body.bool("startTransaction", true);
        }
        body.bool("autocommit", false);
    }
}
