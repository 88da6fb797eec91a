//! Parts of the simulator where operations wait for one another: a station with places, and the journal.

use std::collections::VecDeque;

/// Places that serve one operation each, and a queue before them.
#[derive(Debug)]
pub(crate) struct Station {
    free: usize,
    line: VecDeque<usize>,
}

impl Station {
    pub(crate) fn new(places: usize) -> Station {
        Station { free: places, line: VecDeque::new() }
    }

    /// Takes a slot, or joins the queue. Returns whether a slot was free.
    pub(crate) fn enter(&mut self, operation: usize) -> bool {
        if self.free > 0 {
            self.free -= 1;
            return true;
        }
        self.line.push_back(operation);
        false
    }

    /// Gives a place back. Returns the operation that takes it.
    pub(crate) fn leave(&mut self) -> Option<usize> {
        let next = self.line.pop_front();
        self.free += usize::from(next.is_none());
        next
    }

    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }
}

/// How writes wait for the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum JournalMode {
    /// They do not wait; it is still synced every 100 ms.
    Behind,
    /// They wait for the next sync of those every 100 ms.
    Tick,
    /// A write that waits makes a sync at once, which serves all that came before it began.
    Group,
}

/// The journal: the writes that wait for the running sync and those that wait for the next.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) waiting: Vec<usize>,
    pub(crate) syncing: Vec<usize>,
    pub(crate) runs: bool,
}

impl Journal {
    /// Begins a sync for all that wait.
    pub(crate) fn begin(&mut self) {
        self.runs = true;
        self.syncing = std::mem::take(&mut self.waiting);
    }

    /// Ends it. Returns the writes that it served.
    pub(crate) fn end(&mut self) -> Vec<usize> {
        self.runs = false;
        std::mem::take(&mut self.syncing)
    }
}
