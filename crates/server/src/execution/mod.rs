//! Queries and writes over collections: scans, finds, cursors, transactions that are tried again.

mod aggregate;
mod cursors;
mod distinct;
mod errand;
pub(crate) mod explain;
mod explain_stages;
mod find;
mod no_table_scan;
mod output;
mod pipeline_host;
mod retry;
mod scan;
mod scan_rows;
mod step;
mod validator;
mod views;
mod write;

pub(crate) use crate::storage::document_of;
pub(crate) use aggregate::{Aggregation, Planned, needed};
pub(crate) use cursors::{Batch, CursorTable, Producer, QueryCursor, time_left};
pub(crate) use distinct::{Values, distinct_index, first_values};
pub(crate) use find::{FindQuery, FindState, Taken, gone, plan_summary};
pub(crate) use retry::write_transaction;
pub(crate) use scan::{Fetch, Flow, Scan};
pub(crate) use validator::Validator;
pub(crate) use write::{
    DeleteRequest, Target, UpdateRequest, delete, delete_one, delete_some, insert_capped, insert_documents,
    now, update, with_collection,
};
