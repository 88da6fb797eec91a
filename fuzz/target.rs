//! The program of every fuzz target; its own name says which target of `fathom-fuzz-targets` it runs.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fathom_fuzz_targets::run(env!("CARGO_BIN_NAME"), input));
