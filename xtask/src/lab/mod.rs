//! What the tasks share that run the lab server: the server and go-ycsb as child processes, and the kernel's accounts of
//! them. Nothing here judges.

mod accounts;
mod cargo;
mod server;
mod ycsb;

pub(crate) use accounts::{Device, ProcessIo, cpu_of_children_s, cpu_s, resident_bytes};
pub(crate) use cargo::beside;
pub(crate) use server::{Engine, LabServer, number};
pub(crate) use ycsb::Ycsb;
