//! Finds or builds WiredTiger, passes it to the linker, and generates the bindings from its own header.
//!
//! It tries three ways, in this order: `FATHOM_WIREDTIGER_DIR` names a directory with `include/` and `lib/`;
//! `FATHOM_WIREDTIGER=system` uses the installed library (3.2 or newer); otherwise `setup/wiredtiger.sh` builds the
//! pinned version once into the cache. The C sources are never compiled from here, so a change of Rust compiles only Rust.
//! It does not guess: if the requested library is missing, the build fails with a message.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The oldest version whose interface the engine was tested with.
const OLDEST: &str = "3.2.0";
/// The compressors of MongoDB's options that are system libraries; zstd comes from the crate zstd-sys, which the program contains anyway.
const COMPRESSORS: [(&str, &str); 2] = [("snappy", "snappy"), ("zlib", "z")];

/// The path of the header, and the compressors that are loaded at run time because they are not in the library.
struct BuildInputs {
    include: PathBuf,
    extensions: Vec<PathBuf>,
}

fn main() -> ExitCode {
    for name in ["FATHOM_WIREDTIGER_DIR", "FATHOM_WIREDTIGER", "FATHOM_CACHE", "XDG_CACHE_HOME", "HOME"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let outcome = find().and_then(|found| {
        let joined: Vec<String> = found.extensions.iter().map(|path| path.display().to_string()).collect();
        println!("cargo:rustc-env=FATHOM_WIREDTIGER_EXTENSIONS={}", joined.join(","));
        bind(&found.include)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            println!("cargo::error={sentence}");
            ExitCode::FAILURE
        }
    }
}

fn find() -> Result<BuildInputs, String> {
    if let Some(prefix) = env::var_os("FATHOM_WIREDTIGER_DIR").filter(|prefix| !prefix.is_empty()) {
        return prefixed(Path::new(&prefix));
    }
    match env::var("FATHOM_WIREDTIGER").as_deref() {
        Ok("system") => installed(),
        Ok("") | Err(_) => prefixed(&built()?),
        Ok(other) => Err(format!("FATHOM_WIREDTIGER is '{other}'; it takes 'system' or nothing")),
    }
}

/// A directory with include/ and lib/, as our script or WiredTiger's own installation creates it.
fn prefixed(prefix: &Path) -> Result<BuildInputs, String> {
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let archive = lib.join("libwiredtiger.a");
    let header = include.join("wiredtiger.h");
    for file in [&archive, &header] {
        if !file.exists() {
            return Err(format!("there is no {}", file.display()));
        }
        println!("cargo:rerun-if-changed={}", file.display());
    }
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=static=wiredtiger");
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    let kind = if is_static { "static:-bundle" } else { "dylib" };
    let inside = fs::read(&archive).map_err(|error| format!("cannot read {}: {error}", archive.display()))?;
    for (compressor, library) in COMPRESSORS {
        if mentions(&inside, &format!("{compressor}_extension_init")) {
            println!("cargo:rustc-link-lib={kind}={library}");
        }
    }
    for library in ["pthread", "dl"] {
        println!("cargo:rustc-link-lib={kind}={library}");
    }
    Ok(BuildInputs { include, extensions: Vec::new() })
}

/// Runs the script that builds once into the cache; its last line is the directory.
fn built() -> Result<PathBuf, String> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo did not say where this package is")?;
    let script = Path::new(&manifest).join("../../setup/wiredtiger.sh");
    println!("cargo:rerun-if-changed={}", script.display());
    let output = Command::new("bash")
        .arg(&script)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", script.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().last() {
        Some(line) if output.status.success() => Ok(PathBuf::from(line)),
        _ => Err("setup/wiredtiger.sh could not build WiredTiger; its own words are above".to_owned()),
    }
}

/// The installed library: found by pkg-config, or else -lwiredtiger and the compiler's own paths.
fn installed() -> Result<BuildInputs, String> {
    let mut found = BuildInputs { include: PathBuf::from("/usr/include"), extensions: Vec::new() };
    match pkg_config::Config::new().atleast_version(OLDEST).probe("wiredtiger") {
        Ok(library) => {
            if let Some(include) =
                library.include_paths.into_iter().find(|path| path.join("wiredtiger.h").exists())
            {
                found.include = include;
            }
            let folder = PathBuf::from(
                pkg_config::get_variable("wiredtiger", "libdir")
                    .map_err(|error| format!("pkg-config: {error}"))?,
            );
            let file = |name: &str| folder.join(format!("libwiredtiger_{name}.so"));
            found.extensions =
                ["snappy", "zlib", "zstd"].map(file).into_iter().filter(|path| path.exists()).collect();
        }
        Err(pkg_config::Error::ProbeFailure { .. } | pkg_config::Error::Command { .. }) => {
            println!("cargo:rustc-link-lib=wiredtiger");
        }
        Err(error) => return Err(format!("pkg-config: {error}")),
    }
    Ok(found)
}

fn mentions(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn bind(include: &Path) -> Result<(), String> {
    let header = include.join("wiredtiger.h");
    let bindings = bindgen::Builder::default()
        .header(header.display().to_string())
        .clang_arg(format!("-I{}", include.display()))
        .allowlist_function("wiredtiger_.*")
        .allowlist_type("WT_.*|__wt_.*")
        .allowlist_var("WT_.*|WIREDTIGER_.*")
        .generate_comments(false)
        .layout_tests(false)
        .derive_debug(false)
        .generate()
        .map_err(|error| format!("cannot make bindings from {}: {error}", header.display()))?;
    let out = env::var_os("OUT_DIR").ok_or("cargo did not say where to write")?;
    let file = Path::new(&out).join("bindings.rs");
    bindings.write_to_file(&file).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
