//! Reserves ports for servers whose port is set on the command line, so that no two tests use the same one.
//!
//! cargo-nextest runs each test in its own process, so tests share no memory. Each block of ports has a file instead, which a test
//! locks while it uses the ports. The kernel releases the lock when the process ends.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use crate::scratch::base;

/// The first port, below those that the kernel assigns by itself (`ip_local_port_range` begins at 32,768).
const FIRST_PORT: u16 = 20_000;

/// Ports in a block, the most that one reservation can have.
const BLOCK_PORTS: u16 = 16;

const BLOCKS: u16 = 750;

/// Consecutive free ports of 127.0.0.1 that no other test gets while this exists.
#[derive(Debug)]
pub struct Ports {
    first: u16,
    _lock: File,
}

impl Ports {
    /// Reserves `count` ports, at most 16.
    ///
    /// # Errors
    /// When the folder of the locks cannot be written, or no block is free.
    pub fn reserve(count: u16) -> Result<Ports> {
        std::assert!(count <= BLOCK_PORTS, "{count} ports do not fit into a block");
        let folder = folder();
        fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
        // Tests that begin together begin their search at different blocks.
        let start = std::process::id();
        let blocks = (0..u32::from(BLOCKS)).map(|step| (start + step) % u32::from(BLOCKS));
        for block in blocks.filter_map(|block| u16::try_from(block).ok()) {
            let first = FIRST_PORT + block * BLOCK_PORTS;
            if let Some(lock) = lock(&folder, first)?
                && is_free(first, count)
            {
                return Ok(Ports { first, _lock: lock });
            }
        }
        Err(Error::new(Kind::NotFound, format!("no {count} free ports from {FIRST_PORT} on")))
    }

    /// The first of them.
    pub fn first(&self) -> u16 {
        self.first
    }
}

/// The folder of the locks; each user has one.
fn folder() -> PathBuf {
    base().join(format!("fathom-testkit-ports-{}", rustix::process::geteuid().as_raw()))
}

/// Locks a block; `None` if another test has it.
fn lock(folder: &Path, first: u16) -> Result<Option<File>> {
    let path = folder.join(first.to_string());
    let file = File::create(&path).map_err(|e| Error::io("create", &path, e))?;
    Ok(file.try_lock().is_ok().then_some(file))
}

/// Returns whether no server, such as one started by hand, listens on these ports.
fn is_free(first: u16, count: u16) -> bool {
    (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{assert, assert_ne, test};

    #[test]
    fn no_port_is_given_twice_while_it_is_in_use() {
        let one = Ports::reserve(2).unwrap();
        // A lock excludes every other open file, so the test opens the file again in place of a second process.
        assert!(lock(&folder(), one.first()).unwrap().is_none());
        let other = Ports::reserve(2).unwrap();
        assert_ne!(one.first(), other.first());
        let first = one.first();
        drop(one);
        assert!(lock(&folder(), first).unwrap().is_some());
    }

    #[test]
    fn ports_that_something_listens_on_are_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port(), 1));
    }
}
