//! What the parts of one pipeline share (mongod's `ExpressionContext`): the server, the operation that the pipeline is attached to at the
//! moment, and the server as the stages see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_engine::Session;
use fathom_query::Variables;
use parking_lot::Mutex;

use crate::Result;
use crate::client::Client;
use crate::cursors::Attachment;
use crate::instance::Instance;
use crate::operation_context::OperationContext;

impl Attachment {
    /// Attached to the operation that opens a pipeline.
    fn new(op: &OperationContext<'_>) -> Attachment {
        Attachment {
            now: Mutex::new((Arc::clone(op.client), op.deadline)),
            keys_examined: AtomicU64::new(0),
            docs_examined: AtomicU64::new(0),
        }
    }

    /// An operation goes on with the pipeline.
    pub(crate) fn attach(&self, op: &OperationContext<'_>) {
        *self.now.lock() = (Arc::clone(op.client), op.deadline);
    }

    /// The operation has its batch: what was examined for it is counted as its own.
    pub(crate) fn detach(&self, op: &mut OperationContext<'_>) {
        op.figures.keys_examined += self.keys_examined.swap(0, Ordering::Relaxed);
        op.figures.docs_examined += self.docs_examined.swap(0, Ordering::Relaxed);
    }
}

/// What the parts of one pipeline share.
#[derive(Debug)]
pub(crate) struct ExpressionContext {
    instance: Arc<Instance>,
    attachment: Arc<Attachment>,
    /// Sessions that no scan uses now: one is dear to make, and a `$lookup` wants one for each row.
    idle: Mutex<Vec<Box<dyn Session>>>,
}

impl ExpressionContext {
    /// The context of a pipeline that an operation opens.
    pub(crate) fn new(op: &OperationContext<'_>) -> Arc<ExpressionContext> {
        Arc::new(ExpressionContext {
            instance: Arc::clone(op.instance),
            attachment: Arc::new(Attachment::new(op)),
            idle: Mutex::default(),
        })
    }

    /// The operation that the pipeline is attached to.
    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// The server.
    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Who waits for the pipeline.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.attachment.now.lock().0)
    }

    /// Fails if the time is over or somebody stopped the operation.
    pub(crate) fn check(&self) -> Result<()> {
        let (client, deadline) = self.attachment.now.lock().clone();
        crate::operation_context::check_interrupt(&self.instance, &client, deadline)
    }

    /// A session of the pipeline's own; give it back by [`ExpressionContext::give_back`].
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
        work: impl FnOnce(&mut OperationContext<'_>) -> Result<T>,
    ) -> Result<T> {
        let (client, deadline) = self.attachment.now.lock().clone();
        let mut op = OperationContext::new(&self.instance, session, &client);
        op.deadline = deadline;
        let result = work(&mut op);
        self.attachment.keys_examined.fetch_add(op.figures.keys_examined, Ordering::Relaxed);
        self.attachment.docs_examined.fetch_add(op.figures.docs_examined, Ordering::Relaxed);
        result
    }
}

/// The server as a pipeline sees it.
#[derive(Clone, Debug)]
pub(crate) struct ServerHost {
    pub(crate) context: Arc<ExpressionContext>,
    /// `database.collection` that the command is about.
    pub(crate) namespace: String,
    /// What `$out` and `$merge` check documents with: not at all if `bypassDocumentValidation`.
    pub(crate) validate: bool,
    pub(crate) variables: Arc<Variables>,
    /// How many views this pipeline stands in.
    pub(crate) depth: usize,
}

impl ServerHost {
    /// The database of the command.
    pub(crate) fn database(&self) -> &str {
        self.namespace.split('.').next().unwrap_or_default()
    }

    /// Runs a piece of work with a session of the pipeline's own.
    pub(crate) fn work<T>(&self, work: impl FnOnce(&mut OperationContext<'_>) -> Result<T>) -> Result<T> {
        let session = self.context.session()?;
        let result = self.context.run(&*session, |op| {
            op.set_variables(Variables::clone(&self.variables));
            work(op)
        });
        self.context.give_back(session);
        result
    }
}
