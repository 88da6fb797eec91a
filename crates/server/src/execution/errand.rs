//! For whom a pipeline works at the moment, and what it costs. A pipeline outlives the command that opened it: each `getMore`,
//! on whichever connection, takes the errand up with its own client and time limit, and lays it down after its batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fathom_engine::Session;
use parking_lot::Mutex;

use crate::Result;
use crate::client::Client;
use crate::instance::Instance;
use crate::operation::Operation;

/// What the parts of one pipeline share.
#[derive(Debug)]
pub(crate) struct Errand {
    instance: Arc<Instance>,
    now: Mutex<(Arc<Client>, Option<Instant>)>,
    keys_examined: AtomicU64,
    docs_examined: AtomicU64,
    /// Sessions that no scan uses now: one is dear to make, and a `$lookup` wants one for each row.
    idle: Mutex<Vec<Box<dyn Session>>>,
}

impl Errand {
    /// An errand for the operation that opens a pipeline.
    pub(crate) fn new(op: &Operation<'_>) -> Arc<Errand> {
        Arc::new(Errand {
            instance: Arc::clone(op.instance),
            now: Mutex::new((Arc::clone(op.client), op.deadline)),
            keys_examined: AtomicU64::new(0),
            docs_examined: AtomicU64::new(0),
            idle: Mutex::default(),
        })
    }

    /// The server.
    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Who waits for the pipeline.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.now.lock().0)
    }

    /// An operation goes on with the pipeline.
    pub(crate) fn take_up(&self, op: &Operation<'_>) {
        *self.now.lock() = (Arc::clone(op.client), op.deadline);
    }

    /// The operation has its batch: what was examined for it is counted as its own.
    pub(crate) fn lay_down(&self, op: &mut Operation<'_>) {
        op.figures.keys_examined += self.keys_examined.swap(0, Ordering::Relaxed);
        op.figures.docs_examined += self.docs_examined.swap(0, Ordering::Relaxed);
    }

    /// Fails if the time is over or somebody stopped the operation.
    pub(crate) fn check(&self) -> Result<()> {
        let (client, deadline) = self.now.lock().clone();
        crate::operation::check_interrupt(&self.instance, &client, deadline)
    }

    /// A session of the pipeline's own; give it back by [`Errand::give_back`].
    pub(crate) fn session(&self) -> Result<Box<dyn Session>> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(session) => Ok(session),
            None => Ok(self.instance.engine.session()?),
        }
    }

    /// Gives a session back, with no transaction open.
    pub(crate) fn give_back(&self, session: Box<dyn Session>) {
        session.rollback();
        self.idle.lock().push(session);
    }

    /// Runs `work` as an operation in the name of whoever waits for the pipeline.
    pub(crate) fn run<T>(
        &self,
        session: &dyn Session,
        work: impl FnOnce(&mut Operation<'_>) -> Result<T>,
    ) -> Result<T> {
        let (client, deadline) = self.now.lock().clone();
        let mut op = Operation::new(&self.instance, session, &client);
        op.deadline = deadline;
        let result = work(&mut op);
        self.keys_examined.fetch_add(op.figures.keys_examined, Ordering::Relaxed);
        self.docs_examined.fetch_add(op.figures.docs_examined, Ordering::Relaxed);
        result
    }
}
