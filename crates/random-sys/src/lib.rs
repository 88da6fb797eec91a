//! Provides random bytes to the crate getrandom in a static program.
//!
//! By default getrandom looks for the C library's function with `dlsym`, which finds nothing in a static program, and then needs
//! `/dev/random`, which containers and empty roots may lack. This crate calls the kernel, and reads `/dev/urandom` if the system call is
//! missing (before Linux 3.17) or forbidden. It is used if the program is built with `--cfg getrandom_backend="custom"`, as `make build` does.

use std::fs::File;
use std::io::{self, Read};

use getrandom::Error;
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::PERM) => return File::open("/dev/urandom")?.read_exact(bytes),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The function that getrandom calls (its documentation: "Custom backend").
///
/// # Safety
/// `dest` points to `len` bytes that may be written.
#[expect(unsafe_code, reason = "the crate getrandom fixes this name and signature")]
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(dest: *mut u8, len: usize) -> Result<(), Error> {
    // SAFETY: by the contract above. The bytes may be uninitialized, so they are initialized before a reference to them is made.
    let bytes = unsafe {
        std::ptr::write_bytes(dest, 0, len);
        std::slice::from_raw_parts_mut(dest, len)
    };
    fill(bytes).map_err(|_| Error::UNEXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_differ_from_call_to_call() {
        let (mut one, mut other) = ([0; 32], [0; 32]);
        fill(&mut one).unwrap();
        fill(&mut other).unwrap();
        assert_ne!(one, other);
    }
}
