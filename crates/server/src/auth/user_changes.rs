//! Changes of users, which are written durably before they take effect.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Bson, Document, doc};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::execution::{with_collection, write_transaction};
use crate::operation_context::OperationContext;
use crate::storage::document_of;
use crate::users::{SCHEMA_VERSION, USERS, User, Users, VERSION};

impl Users {
    /// Writes a new or changed user durably. The caller holds [`Users::lock`].
    pub(crate) fn put(&self, op: &mut OperationContext<'_>, user: User) -> Result<()> {
        if self.is_empty() {
            let version = doc! { "_id": "authSchema", "currentVersion": SCHEMA_VERSION };
            write(op, VERSION, &"authSchema".into(), Some(&version))?;
        }
        write(op, USERS, &user.id().into(), Some(user.document()))?;
        make_durable(op)?;
        self.all.write().insert(user.id(), Arc::new(user));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes a user durably; false if it does not exist. The caller holds [`Users::lock`].
    pub(crate) fn remove(&self, op: &mut OperationContext<'_>, database: &str, name: &str) -> Result<bool> {
        let id = format!("{database}.{name}");
        if !self.all.read().contains_key(&id) {
            return Ok(false);
        }
        write(op, USERS, &id.as_str().into(), None)?;
        make_durable(op)?;
        self.all.write().remove(&id);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(true)
    }
}

/// Replaces the document with the same `_id`, or removes it.
fn write(
    op: &mut OperationContext<'_>,
    namespace: &str,
    id: &Bson,
    document: Option<&Document>,
) -> Result<()> {
    let after = document.map(crate::parse::raw_of).transpose()?;
    let length = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    with_collection(op, namespace, true, |op, found| {
        let Some((collection, state)) = found else {
            return Err(Failure::new(Code::InternalError, format!("{namespace} could not be made")));
        };
        let (records, bytes) = write_transaction(op, |op| {
            let mut before = Vec::new();
            let record = op.document_by_id(collection, id, &mut before)?;
            let session = op.session();
            match (record, &after) {
                (None, None) => return Ok((0, 0)),
                (None, Some(after)) => {
                    collection.insert(session, state, after)?;
                    op.note_insert(collection, after);
                    return Ok((1, length(after.as_bytes().len())));
                }
                (Some(record), Some(after)) => {
                    let document = document_of(&before)?;
                    collection.replace(session, state, record, document, after, None)?;
                    op.note_update(collection, document, after)?;
                    return Ok((0, length(after.as_bytes().len()) - length(before.len())));
                }
                (Some(record), None) => {
                    let document = document_of(&before)?;
                    collection.remove(session, state, record, document)?;
                    op.note_delete(collection, document)?;
                }
            }
            Ok((-1, -length(before.len())))
        })?;
        collection.note(records, bytes);
        Ok(())
    })
}

fn make_durable(op: &OperationContext<'_>) -> Result<()> {
    if op.instance.config.storage.journal {
        op.instance.journal.wait_until_durable()?;
    }
    Ok(())
}
