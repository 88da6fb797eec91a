//! The switch that makes the engine fail as a disk does: one call fails, and everything after it is refused.

use parking_lot::Mutex;

use crate::{Error, Kind, Result};

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`crate::Engine::flush_journal`].
    FlushJournal,
    /// [`crate::Engine::checkpoint`].
    Checkpoint,
    /// [`crate::Session::commit`], and the commit of a write outside a transaction. Commits without writes do not count.
    Commit,
}

#[derive(Debug)]
struct Fault {
    call: Call,
    calls_left: u64,
    kind: Kind,
}

/// Which calls are going to fail. None, until a test says so.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    /// Lets the `nth` call from now fail (1 is the next) with `kind`, which is [`Kind::NoSpace`] or [`Kind::Io`] where a
    /// disk is played. The engine is stopped from then on.
    pub fn fail(&self, call: Call, nth: u64, kind: Kind) {
        self.0.lock().push(Fault { call, calls_left: nth.max(1), kind });
    }

    /// Counts a call; an error if it is one that fails.
    pub(super) fn count(&self, call: Call) -> Result<()> {
        for fault in self.0.lock().iter_mut().filter(|fault| fault.call == call) {
            fault.calls_left = fault.calls_left.saturating_sub(1);
            if fault.calls_left == 0 {
                return Err(Error::new(fault.kind, format!("{call:?} failed because a test asked for it")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::open;
    use crate::{Durability, Engine, Key, TableSpec};

    #[test]
    fn the_nth_call_fails_and_everything_after_it() {
        let engine = open();
        engine.faults().fail(Call::FlushJournal, 3, Kind::NoSpace);
        assert!(engine.flush_journal().is_ok());
        assert!(engine.checkpoint().is_ok());
        assert!(engine.flush_journal().is_ok());
        assert_eq!(engine.flush_journal().unwrap_err().kind(), Kind::NoSpace);
        assert_eq!(engine.flush_journal().unwrap_err().kind(), Kind::Stopped);
        assert_eq!(engine.tables().unwrap_err().kind(), Kind::Stopped);
    }

    #[test]
    fn a_commit_that_fails_leaves_no_transaction_and_stops_the_session() {
        let engine = open();
        let table = engine.create_table("t", &TableSpec::records()).unwrap();
        let session = engine.session().unwrap();
        session.put(&table, Key::Number(1), b"before").unwrap();
        engine.faults().fail(Call::Commit, 1, Kind::Io);
        session.begin().unwrap();
        session.put(&table, Key::Number(2), b"lost").unwrap();
        assert_eq!(session.commit(Durability::Buffered).unwrap_err().kind(), Kind::Io);
        assert!(!session.in_transaction());
        assert_eq!(session.get(&table, Key::Number(1), &mut Vec::new()).unwrap_err().kind(), Kind::Stopped);
        assert_eq!(session.begin().unwrap_err().kind(), Kind::Stopped);
    }
}
