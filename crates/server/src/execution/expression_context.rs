//! The shared state of one pipeline (mongod's `ExpressionContext`): the server, the operation that the pipeline is currently attached
//! to, and the services that its stages use.

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
    /// An attachment to the operation that opens a pipeline.
    fn new(op: &OperationContext<'_>) -> Attachment {
        Attachment {
            now: Mutex::new((Arc::clone(op.client), op.deadline)),
            keys_examined: AtomicU64::new(0),
            docs_examined: AtomicU64::new(0),
        }
    }

    /// Attaches the pipeline to another operation.
    pub(crate) fn attach(&self, op: &OperationContext<'_>) {
        *self.now.lock() = (Arc::clone(op.client), op.deadline);
    }

    /// Detaches the pipeline after a batch; the keys and documents examined are counted for the operation.
    pub(crate) fn detach(&self, op: &mut OperationContext<'_>) {
        op.figures.keys_examined += self.keys_examined.swap(0, Ordering::Relaxed);
        op.figures.docs_examined += self.docs_examined.swap(0, Ordering::Relaxed);
    }
}

/// The state that the parts of one pipeline share.
#[derive(Debug)]
pub(crate) struct ExpressionContext {
    instance: Arc<Instance>,
    attachment: Arc<Attachment>,
    /// Sessions that no scan is using: creating one is expensive, and a `$lookup` needs one for each row.
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

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The client that waits for the pipeline.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.attachment.now.lock().0)
    }

    /// Fails if the time limit has passed or the operation was killed.
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

    /// Runs `work` as an operation on behalf of the client that waits for the pipeline.
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

/// The server's services for a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct ServerHost {
    pub(crate) context: Arc<ExpressionContext>,
    /// The `database.collection` that the command names.
    pub(crate) namespace: String,
    /// Whether `$out` and `$merge` apply validators: false with `bypassDocumentValidation`.
    pub(crate) validate: bool,
    pub(crate) variables: Arc<Variables>,
    /// The number of views around this pipeline.
    pub(crate) depth: usize,
}

impl ServerHost {
    /// The database of the command.
    pub(crate) fn database(&self) -> &str {
        self.namespace.split('.').next().unwrap_or_default()
    }

    /// Runs a task with a session of the pipeline's own.
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
