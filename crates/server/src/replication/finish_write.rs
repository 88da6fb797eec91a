//! The end of a write in a set: the wait for its write concern, and what its reply says of that.

use super::ReplicaSet;
use super::wait;
use crate::consistency;
use crate::operation::Operation;
use crate::request::{Reply, Request};

impl ReplicaSet {
    /// Waits for the write concern of a command that may have written, and says in its reply what was not fulfilled.
    pub(crate) fn finish_write(&self, op: &Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) {
        let default = || {
            self.ask(|one| one.config().map(|config| config.settings.default_write_concern.clone()))
                .unwrap_or_default()
        };
        let given = request.write_concern.of_set.clone();
        let provenance = if given.is_some() { "clientSupplied" } else { "getLastErrorDefaults" };
        let concern = given.unwrap_or_else(default);
        let Some(failure) = wait::for_write(op, &concern) else { return };
        let mut extra = failure.extra().clone();
        let mut info = extra.get_document("errInfo").cloned().unwrap_or_default();
        let mut wanted = concern.to_document();
        wanted.insert("provenance", provenance);
        info.insert("writeConcern", wanted);
        extra.insert("errInfo", info);
        let mut error = reply.begin_document("writeConcernError");
        error.i32("code", failure.code().0);
        error.string("codeName", &failure.code().name());
        error.string("errmsg", failure.message());
        error.extend(&extra);
        error.end();
        if consistency::is_retryable(&failure, request) {
            reply.begin_array("errorLabels").string("RetryableWriteError");
        }
    }
}
