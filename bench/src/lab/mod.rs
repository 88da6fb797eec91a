//! Code shared by the tasks that run the lab server: the server, go-ycsb and a responder as child processes, the kernel's
//! accounts of them, and the display of ratios. This module does not judge.

mod accounts;
mod cargo;
mod ratios;
mod responder;
mod server;
mod ycsb;

pub(crate) use accounts::{DeviceTotals, ProcessBytes, cpu_of_children_s, cpu_s, resident_bytes};
pub(crate) use cargo::beside;
pub(crate) use ratios::{span, verdict};
pub(crate) use responder::{RESPOND, Responder, respond};
pub(crate) use server::{BenchEngine, BenchServer, number};
pub(crate) use ycsb::Ycsb;
