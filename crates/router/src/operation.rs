//! What a command runs with: the router, and the client that it came from.

use std::sync::Arc;

use crate::client::Client;
use crate::instance::Instance;

/// One command at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) instance: &'a Arc<Instance>,
    pub(crate) client: &'a Arc<Client>,
}
