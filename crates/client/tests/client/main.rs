//! The client from outside: connection strings, and connections to a responder that plays a server by script.

#![allow(clippy::unwrap_used, reason = "tests name what they show, and fail by panicking")]

mod authentication;
mod commands;
mod deployment;
mod member;
mod names;
mod parts;
mod responder;
mod strings;
mod tls;
