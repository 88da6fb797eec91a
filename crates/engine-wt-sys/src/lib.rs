//! WiredTiger's C interface, as the linked library's header declares it.
//!
//! The build script finds or builds the library and makes the bindings from its own `wiredtiger.h`, so that the layout of
//! every structure is that of the library. Nothing is added or checked here: safety is the business of `fathom-engine-wt`.

#[expect(
    unsafe_code,
    non_camel_case_types,
    non_upper_case_globals,
    reason = "generated from a C header, which decides the names and whose functions are unsafe by nature"
)]
#[allow(
    unused,
    non_snake_case,
    clippy::all,
    unreachable_pub,
    reason = "generated; what the generator writes differs by header version"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

// The library's compressor calls it.
use zstd_sys as _;

pub use bindings::*;

/// Compressors that are not in the library and must be loaded when a database is opened: paths, comma-separated.
/// Empty for the version that `setup/wiredtiger.sh` builds.
pub const EXTENSIONS: &str = env!("FATHOM_WIREDTIGER_EXTENSIONS");
