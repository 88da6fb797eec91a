//! Queries and writes over collections: scans, finds, cursors, transactions that are tried again.

mod cursors;
mod errand;
mod find;
mod output;
mod pipeline_host;
mod retry;
mod scan;
mod scan_rows;
mod validator;
mod views;
mod write;

pub(crate) use cursors::{Batch, CursorTable, Producer, QueryCursor};
pub(crate) use find::{FindQuery, FindState, plan_summary};
pub(crate) use retry::write_transaction;
pub(crate) use scan::document_of;
pub(crate) use validator::Validator;
pub(crate) use write::{DeleteRequest, Target, UpdateRequest, delete, insert_documents, update};
