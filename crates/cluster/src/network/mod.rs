//! Faults of the network between servers: a proxy of our own before each, which delays and cuts.
//!
//! A proxy and not network namespaces with `tc netem`: it needs no root, no kernel module and no addresses that clients elsewhere
//! would have to know; any server can stand behind it, and a cut comes and goes within milliseconds. What it costs is one more
//! process on the way, so that a cluster has it only on request.

mod proxy;
mod rules;
mod source;

pub use proxy::serve;
pub use rules::Rules;
