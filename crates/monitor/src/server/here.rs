//! Whether a server runs on this host: then its process, its data and its log can be watched from outside too.
//!
//! A process id alone says little: a server elsewhere, or in a container, may have the number of some process of ours. The
//! process must listen on the server's port.

use std::fs;
use std::path::{Path, PathBuf};

/// Programs that speak MongoDB's protocol, by the beginnings of their names: asked for only where the kernel does not tell us
/// whose sockets are whose.
const PROGRAMS: [&str; 3] = ["mongod", "mongos", "fathom"];

/// Whether process `pid` of this host listens on `port`.
pub(crate) fn listens(pid: u32, port: u16) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let tables =
        ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(process.join(name)).unwrap_or_default());
    let listening: Vec<String> = tables.iter().flat_map(|table| sockets(table, port)).collect();
    if listening.is_empty() {
        return false;
    }
    match fs::read_dir(process.join("fd")) {
        Ok(files) => files.flatten().any(|file| {
            let link = fs::read_link(file.path()).unwrap_or_default();
            listening.iter().any(|socket| link == Path::new(socket))
        }),
        Err(_) => {
            let command = fs::read(process.join("cmdline")).unwrap_or_default();
            let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
            let program = String::from_utf8_lossy(program);
            let program = program.rsplit('/').next().unwrap_or_default();
            PROGRAMS.iter().any(|name| program.starts_with(name))
        }
    }
}

/// The sockets of a table of TCP connections (proc(5), `/proc/net/tcp`) that listen on `port`, as links to them are written.
fn sockets(table: &str, port: u16) -> impl Iterator<Item = String> {
    const LISTENING: &str = "0A";
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (_, local_port) = fields.next()?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        let is_ours = u16::from_str_radix(local_port, 16).ok()? == port && state == LISTENING;
        let inode = fields.nth(5)?;
        is_ours.then(|| format!("socket:[{inode}]"))
    })
}

/// A path that process `pid` may have written relative to the directory it was started in.
pub(crate) fn absolute(pid: u32, path: &Path) -> PathBuf {
    if path.is_absolute() {
        return path.to_owned();
    }
    let directory = fs::read_link(Path::new("/proc").join(pid.to_string()).join("cwd")).unwrap_or_default();
    directory.join(path)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_process_is_here_if_it_listens_on_the_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pid = std::process::id();
        assert!(listens(pid, port));
        assert!(!listens(1, port), "init does not listen there");
        drop(listener);
        assert!(!listens(pid, port));
    }

    #[test]
    fn tables_that_make_no_sense_name_no_socket() {
        let line =
            "  1: 0100007F:6989 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1 x\n";
        let table = format!("head\n{line}\n0: : :\n  2: x:zz\n");
        assert_eq!(sockets(&table, 27017).collect::<Vec<_>>(), ["socket:[4711]"]);
        assert_eq!(sockets(&table, 1).count(), 0);
    }
}
