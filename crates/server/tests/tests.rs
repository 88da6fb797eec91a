//! Tests of the server as its clients see it, over real connections and on real engines. One module per topic.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod administration;
mod aggregate;
mod auth;
mod capped;
mod commands;
mod ddl;
mod diagnostics;
mod event_loops;
mod event_loops_device;
mod explain;
mod fail_points;
mod find_and_modify;
mod hostile;
mod options;
mod parameters;
mod plans_agree;
mod query;
mod replica_set;
mod served;
mod sessions;
mod tls;
mod ttl;
mod validate;
mod views;
