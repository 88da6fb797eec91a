//! Whose connection it is: a member's or a client's. All come from the loopback, so the kernel's tables have to tell: the socket at
//! the other end, and which of our processes has it open (proc_net_tcp(5), proc_pid_fd(5)).

use std::path::{Path, PathBuf};

use fathom_host::View;

use crate::ports::{Socket, holds};
use crate::state::State;

/// The servers of a cluster, as its state file names them.
#[derive(Debug)]
pub(super) struct Sources {
    folder: PathBuf,
}

impl Sources {
    pub(super) fn new(folder: &Path) -> Sources {
        Sources { folder: folder.to_owned() }
    }

    /// The server whose connection comes from `remote_port` to our `port`; `None` for a client's.
    pub(super) fn of(&self, remote_port: u16, port: u16) -> Option<u16> {
        let view = View::live();
        let is_it = |socket: &Socket| {
            socket.local_port == remote_port && socket.remote_port == port && !socket.listens
        };
        let tables = ["proc/net/tcp", "proc/net/tcp6"].map(|path| view.text(path).unwrap_or_default());
        let socket = tables.iter().flat_map(|table| table.lines()).filter_map(Socket::parse).find(is_it)?;
        // Read each time: servers come and go, and connections are few.
        let state = State::read(&self.folder).ok()??;
        let has = |pid: u32| holds(pid, socket.inode);
        state
            .servers
            .iter()
            .find(|server| server.process.is_some_and(|id| has(id.pid)))
            .map(|server| server.port)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use fathom_process::ProcessId;

    use super::*;
    use crate::arguments::Maker;
    use crate::state::Server;
    use crate::topology::Topology;

    #[test]
    fn a_members_connection_is_told_from_a_clients() {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let remote = listener.accept().unwrap().1.port();
        let sources = Sources::new(folder.path());
        assert_eq!(sources.of(remote, port), None, "there is no state");
        let server = |port, process| Server {
            port,
            maker: Maker::Fathom,
            program: "fathom".into(),
            version: None,
            arguments: Vec::new(),
            process,
            groups: Vec::new(),
        };
        let other = ProcessId { pid: 1, start_time: 1 };
        let servers = vec![server(1, None), server(2, Some(other)), server(3, ProcessId::current().ok())];
        State::new(Topology::default(), servers).write(folder.path()).unwrap();
        assert_eq!(sources.of(remote, port), Some(3));
        assert_eq!(sources.of(remote, port + 1), None);
    }
}
