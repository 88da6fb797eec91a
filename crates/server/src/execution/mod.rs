//! Executes queries and writes over collections: scans, finds, cursors, and transactions that are retried.

mod aggregate;
mod batch;
pub(crate) mod coll_mod;
mod distinct;
pub(crate) mod explain;
mod explain_stages;
mod expression_context;
mod find;
mod index_build;
mod output;
mod pipeline_host;
mod retry;
mod scan;
mod scan_rows;
pub(crate) mod stages;
pub(crate) mod validate;
mod views;
mod write;

pub(crate) use aggregate::{Aggregation, PipelinePlan, needed};
pub(crate) use batch::{ReplyBatch, time_left};
pub(crate) use distinct::{DistinctValues, distinct_index, first_values};
pub(crate) use find::{BatchEffect, gone, plan_summary};
pub(crate) use index_build::build_indexes;
pub(crate) use retry::write_transaction;
pub(crate) use scan::ScanFlow;
pub(crate) use views::check_view;
pub(crate) use write::{
    DeleteRequest, UpdateRequest, WriteTarget, delete, delete_one, delete_some, insert_capped,
    insert_documents, now, update, with_collection,
};
