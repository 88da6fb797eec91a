//! Tests that the server's reports on itself are correct and have the form that mongod's tools expect.
mod counters;
mod held_transaction;
mod index_build;
mod operations;
mod shapes;
mod slow;
mod support;
