//! Finds the installed RocksDB, generates Rust declarations for the part of its C interface that is used, and links it.
//!
//! `ROCKSDB_INCLUDE_DIR` and `ROCKSDB_LIB_DIR` name another RocksDB than the system's; the program then also looks in its
//! directory at run time. Otherwise pkg-config is used, and last the compiler's own directories. RocksDB older than 7 is
//! refused: its defaults and statistics differ. Nothing is downloaded or compiled.
//!
//! A static program (`-C target-feature=+crt-static`) links the archives of RocksDB and of its dependencies; zstd comes from
//! the crate zstd-sys, which the program contains anyway.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C functions that the crate calls, and no others, so that the build fails if a later RocksDB drops one of them.
const FUNCTIONS: &str = "rocksdb_(open|close|free|cancel_all_background_work\
    |write|get_pinned|pinnableslice_(value|destroy)\
    |create_snapshot|release_snapshot|get_latest_sequence_number\
    |create_iterator|iter_(destroy|valid|seek_to_first|seek_to_last|seek|seek_for_prev|next|prev|key|value|get_error)\
    |flush|flush_wal|compact_range_opt|delete_file_in_range|approximate_sizes|set_options|property_int|property_value\
    |get_column_family_metadata|column_family_metadata_(destroy|get_level_count|get_level_metadata)\
    |level_metadata_(destroy|get_level|get_file_count|get_size)\
    |writebatch_(create|destroy|clear|put|delete|singledelete|delete_range)\
    |readoptions_(create|destroy|set_snapshot|set_fill_cache|set_verify_checksums|set_iterate_lower_bound|set_iterate_upper_bound)\
    |writeoptions_(create|destroy|disable_WAL)|flushoptions_(create|destroy|set_wait)\
    |compactoptions_(create|destroy|set_exclusive_manual_compaction|set_bottommost_level_compaction)\
    |cache_(create_lru_opts|destroy|set_capacity|get_capacity|get_usage|get_pinned_usage)\
    |lru_cache_options_(create|destroy|set_capacity|set_num_shard_bits)\
    |ratelimiter_(create|destroy)|filterpolicy_create_bloom_full\
    |block_based_options_(create|destroy|set_block_size|set_block_cache|set_filter_policy|set_format_version)\
    |get_options_from_string|options_statistics_get_string|perfcontext_(create|destroy|metric)\
    |options_(create|destroy|enable_statistics|set_create_if_missing|set_wal_dir|set_ratelimiter\
    |set_block_based_table_factory))";

/// The archives that a static program links for RocksDB, in the order of their dependencies.
const ARCHIVES: [&str; 6] = ["rocksdb", "snappy", "lz4", "bz2", "z", "stdc++"];

/// The oldest major version that is accepted.
const OLDEST_MAJOR: u32 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=ROCKSDB_INCLUDE_DIR");
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    let includes = link()?;
    let header = includes.iter().map(|dir| dir.join("rocksdb/c.h")).find(|path| path.is_file()).ok_or(
        "rocksdb/c.h was not found: install librocksdb-dev, or set ROCKSDB_INCLUDE_DIR and ROCKSDB_LIB_DIR",
    )?;
    println!("cargo:rerun-if-changed={}", header.display());
    println!("cargo:rustc-env=FATHOM_ROCKSDB_VERSION={}", version(&header.with_file_name("version.h"))?);
    let declarations = bindgen::Builder::default()
        .header(header.display().to_string())
        .clang_args(includes.iter().map(|dir| format!("-I{}", dir.display())))
        .allowlist_function(FUNCTIONS)
        .allowlist_var("rocksdb_block_read_count")
        .layout_tests(false)
        .generate_comments(false)
        .generate()?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("rocksdb.rs");
    declarations.write_to_file(out)?;
    Ok(())
}

/// Tells cargo what to link, and returns the directories in which the headers may be.
fn link() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if features.split(',').any(|feature| feature == "crt-static") {
        return link_archives();
    }
    let named = env::var_os("ROCKSDB_INCLUDE_DIR").map(PathBuf::from);
    if let Some(dir) = env::var_os("ROCKSDB_LIB_DIR").map(PathBuf::from) {
        println!("cargo:rustc-link-search=native={}", dir.display());
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", dir.display());
        // A binary of another package gets it from its own build script, through cargo.
        println!("cargo:lib_dir={}", dir.display());
        println!("cargo:rustc-link-lib=dylib=rocksdb");
        let include = named.or_else(|| dir.parent().map(|parent| parent.join("include")));
        return Ok(include.into_iter().collect());
    }
    if let Some(dir) = named {
        println!("cargo:rustc-link-lib=dylib=rocksdb");
        return Ok(vec![dir]);
    }
    let mut includes = match pkg_config::Config::new().probe("rocksdb") {
        Ok(library) => library.include_paths,
        Err(_) => {
            println!("cargo:rustc-link-lib=dylib=rocksdb");
            Vec::new()
        }
    };
    includes.extend(["/usr/include", "/usr/local/include"].map(PathBuf::from));
    Ok(includes)
}

/// [`link`] for a static program.
fn link_archives() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let of = |name| env::var_os(name).map(PathBuf::from);
    let (include, lib) = (of("ROCKSDB_INCLUDE_DIR"), of("ROCKSDB_LIB_DIR"));
    if let Some(dir) = &lib {
        println!("cargo:rustc-link-search=native={}", dir.display());
    }
    for archive in ARCHIVES {
        let file = format!("lib{archive}.a");
        let is_named = lib.as_ref().is_some_and(|dir| dir.join(&file).is_file());
        if !is_named && !compiler_has(&file) {
            let what = format!(
                "{file} was not found, which a static program needs: install the package that has it"
            );
            return Err(format!("{what}, or link dynamically (make build STATIC=0)").into());
        }
        println!("cargo:rustc-link-lib=static:-bundle={archive}");
    }
    let of_lib = lib.as_ref().and_then(|dir| Some(dir.parent()?.join("include")));
    let usual = ["/usr/include", "/usr/local/include"].map(PathBuf::from);
    Ok(include.or(of_lib).into_iter().chain(usual).collect())
}

/// Whether the compiler finds a library of this name. It prints the bare name of a library that it does not find.
fn compiler_has(file: &str) -> bool {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let asked = Command::new(compiler).arg(format!("-print-file-name={file}")).output();
    asked.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() != file)
}

/// The version as RocksDB's own header has it; its C interface has no function for it.
fn version(header: &Path) -> Result<String, Box<dyn Error>> {
    let text = fs::read_to_string(header).map_err(|e| format!("cannot read {}: {e}", header.display()))?;
    let number = |name: &str| {
        let line = text.lines().find(|line| line.starts_with("#define") && line.contains(name));
        line.and_then(|line| line.split_whitespace().last()?.parse::<u32>().ok())
            .ok_or_else(|| format!("{} does not say {name}", header.display()))
    };
    let (major, minor, patch) =
        (number("ROCKSDB_MAJOR")?, number("ROCKSDB_MINOR")?, number("ROCKSDB_PATCH")?);
    if major < OLDEST_MAJOR {
        return Err(
            format!("RocksDB {major}.{minor} is too old; Fathom needs {OLDEST_MAJOR}.0 or newer").into()
        );
    }
    Ok(format!("{major}.{minor}.{patch}"))
}
