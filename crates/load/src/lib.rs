//! Workloads and the load loop.
//!
//! YCSB's keys, values, distributions and documents are reproduced bit for bit, so that either program can read what the other loaded.

mod java;
mod reply;

pub mod binding;
pub mod builtin_workloads;
pub mod client_settings;
pub mod core_workload;
pub mod document_workload;
pub mod documents;
pub mod driving;
pub mod find_max;
pub mod generators;
pub mod keys;
pub mod measurements;
pub mod properties;
pub mod search_rates;
pub mod servers;
pub mod source;
pub mod values;
pub mod ycsb_report;
