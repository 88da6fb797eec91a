//! Checks whether ports are free, and names the process that holds one, as far as `/proc` shows it.
//!
//! The check binds no port: that could get in another program's way for a moment (proc_net_tcp(5), proc_pid_fd(5)).

use std::collections::BTreeMap;
use std::fs;

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;

/// The state of a socket that listens (torvalds/linux:include/net/tcp_states.h).
const LISTEN: &str = "0A";

/// Fails with one sentence if one of the ports is taken; names at most a few.
pub(crate) fn check_free(ports: &[u16]) -> Result<()> {
    const MAX_PORTS_NAMED: usize = 4;
    let listening = listening(&View::live());
    let taken: Vec<u16> = ports.iter().copied().filter(|port| listening.contains_key(port)).collect();
    if taken.is_empty() {
        return Ok(());
    }
    let one = |port: &u16| {
        let owner = listening.get(port).and_then(|inode| owner(*inode));
        owner.map_or_else(|| port.to_string(), |owner| format!("{port} (by {owner})"))
    };
    let named: Vec<String> = taken.iter().take(MAX_PORTS_NAMED).map(one).collect();
    let more = taken.len().saturating_sub(MAX_PORTS_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let what = match taken.len() {
        1 => format!("port {} is in use", named.join("")),
        _ => format!("ports {}{more} are in use", named.join(", ")),
    };
    Err(Error::new(Kind::Busy, what)
        .with_id("port-taken")
        .advise("choose others with --port, or stop what uses them"))
}

/// The listening sockets, by port.
pub(crate) fn listening(view: &View) -> BTreeMap<u16, u64> {
    let tables = ["proc/net/tcp", "proc/net/tcp6"].map(|path| view.text(path).unwrap_or_default());
    let sockets = tables.iter().flat_map(|table| table.lines().filter_map(TcpEntry::parse));
    sockets.filter(|socket| socket.listens).map(|socket| (socket.local_port, socket.inode)).collect()
}

/// A line of `/proc/net/tcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpEntry {
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) listens: bool,
    pub(crate) inode: u64,
}

impl TcpEntry {
    /// `0: 0100007F:6989 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 ...`
    pub(crate) fn parse(line: &str) -> Option<TcpEntry> {
        let mut fields = line.split_ascii_whitespace();
        let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
        let local_port = port(fields.nth(1)?)?;
        let remote_port = port(fields.next()?)?;
        let listens = fields.next()? == LISTEN;
        let inode = fields.nth(5)?.parse().ok()?;
        Some(TcpEntry { local_port, remote_port, listens, inode })
    }
}

/// The holder of a socket, such as `mongod, process 4711`.
fn owner(inode: u64) -> Option<String> {
    let pids = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.into_iter().find(|pid| holds(*pid, inode))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("{}, process {pid}", name.trim()))
}

/// Whether a process has a socket open; false if we may not look.
pub(crate) fn holds(pid: u32, inode: u64) -> bool {
    let wanted = format!("socket:[{inode}]");
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_taken_port_is_named_with_its_owner() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = check_free(&[port]).unwrap_err();
        let expected = format!("port {port} (by ");
        assert!(error.what().starts_with(&expected) && error.kind() == Kind::Busy, "{error}");
        assert!(error.what().contains(&format!("process {}", std::process::id())), "{error}");
        drop(taken);
        check_free(&[port]).unwrap();
    }

    #[test]
    fn lines_of_the_kernels_table() {
        let line = "   0: 0100007F:6989 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000 100 0";
        let socket = TcpEntry { local_port: 27017, remote_port: 0, listens: true, inode: 4711 };
        assert_eq!(TcpEntry::parse(line), Some(socket));
        assert_eq!(TcpEntry::parse("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }
}
