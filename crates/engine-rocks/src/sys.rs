//! RocksDB's C interface as bindgen declares it from the installed header; only `native` may call it.

#![expect(unsafe_code, reason = "declarations of C functions")]
#![allow(non_camel_case_types, non_upper_case_globals, reason = "C's names")]
#![allow(unreachable_pub, reason = "bindgen makes everything public")]
#![allow(dead_code, reason = "bindgen also declares the types that the functions only mention")]

// RocksDB calls it, in a static program by these symbols.
use zstd_sys as _;

include!(concat!(env!("OUT_DIR"), "/rocksdb.rs"));
