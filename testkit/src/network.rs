//! Simulated hosts for a test: network namespaces on one bridge, which can be cut off from each other.
//!
//! The namespaces have no names and exist only while a process holds them, so that a killed test leaves none. The bridge is
//! in a separate namespace with the test's clients: the machine's own network is not changed and does not show it, and any
//! number of tests may use the same addresses. Needs root and iproute2.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_process::Tool;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::scratch::root_fixture;
use crate::skip::Need;

/// The time of one attempt to reach a host: an unanswered packet was lost, and would be sent again only after a second.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// The time limit for the bridge to begin forwarding packets.
const FORWARDING_TIMEOUT: Duration = Duration::from_secs(30);

/// Hosts `0..n` with the addresses `10.0.0.1` and on, each linked to a bridge.
#[derive(Debug)]
pub struct Network {
    hub: Namespace,
    hosts: Vec<Namespace>,
}

impl Network {
    /// Makes this number of hosts (at most 200), all connected. The test ends as skipped if this machine does not support them.
    #[track_caller]
    pub fn new(hosts: u8) -> Network {
        root_fixture(Need::Network, || make(hosts))
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, u8::try_from(host + 1).unwrap_or(u8::MAX))
    }

    /// Moves this thread to the clients' namespace, which reaches each host that is plugged in.
    pub fn enter(&self) -> Result<()> {
        self.hub.enter()
    }

    /// Runs `work` in the clients' namespace; a program that it starts is in it too.
    pub fn among_clients<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.hub.within(work)
    }

    /// Runs `work` on a host; a program that it starts is on that host.
    pub fn on<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.host(host)?.within(work)
    }

    /// Unplugs a host: no packet reaches it or leaves it, also of clients.
    pub fn unplug(&self, host: usize) -> Result<()> {
        self.hub.ip(&format!("link set host{host} down"))
    }

    /// Connects the host again.
    pub fn plug(&self, host: usize) -> Result<()> {
        self.hub.ip(&format!("link set host{host} up"))
    }

    /// Blocks all packets from one host to another; clients are still answered.
    pub fn block(&self, from: usize, to: usize) -> Result<()> {
        self.host(from)?.ip(&format!("route add blackhole {}/32", self.address(to)))
    }

    /// Undoes a [`Network::block`] of this pair.
    pub fn unblock(&self, from: usize, to: usize) -> Result<()> {
        self.host(from)?.ip(&format!("route del blackhole {}/32", self.address(to)))
    }

    /// Drops this percentage of the packets to a host, at random; 0 ends this. Needs nftables.
    pub fn lose(&self, host: usize, percent: u8) -> Result<()> {
        let mut steps = vec![
            vec!["add", "table", "ip", "loss"],
            vec!["add", "chain", "ip", "loss", "input", "{ type filter hook input priority 0 ; }"],
            vec!["flush", "chain", "ip", "loss", "input"],
        ];
        let share = percent.to_string();
        let at_random: &[&str] = match percent {
            100.. => &[],
            _ => &["numgen", "random", "mod", "100", "<", &share],
        };
        if percent > 0 {
            steps.push([&["add", "rule", "ip", "loss", "input"], at_random, &["drop"]].concat());
        }
        let nft = |step: Vec<&str>| Tool::new("nft", "nftables")?.args(step).run().map(drop);
        self.host(host)?.within(|| steps.into_iter().try_for_each(nft))?
    }

    /// Waits until each host answers: the kernel opens a bridge's port some time after `ip` has ended, and drops earlier packets.
    fn wait_until_up(&self) -> Result<()> {
        let begin = Instant::now();
        for host in 0..self.hosts.len() {
            // No process listens on that port: a reachable host refuses the connection.
            let at = SocketAddr::from((self.address(host), 9));
            let answers = || match TcpStream::connect_timeout(&at, ATTEMPT_TIMEOUT) {
                Ok(_) => true,
                Err(error) => error.kind() == ErrorKind::ConnectionRefused,
            };
            while !self.hub.within(answers)? {
                if begin.elapsed() > FORWARDING_TIMEOUT {
                    return Err(Error::new(
                        Kind::Io,
                        format!("host {host} of a test's network does not answer"),
                    ));
                }
                // A missing route is refused at once.
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    fn host(&self, host: usize) -> Result<&Namespace> {
        self.hosts.get(host).ok_or_else(|| Error::usage(format!("there is no host {host}")))
    }
}

fn make(hosts: u8) -> Result<Network> {
    let hub = Namespace::new()?;
    let steps = [
        "link add bridge0 type bridge",
        "addr add 10.0.0.254/24 dev bridge0",
        "link set bridge0 up",
        "link set lo up",
    ];
    steps.iter().try_for_each(|step| hub.ip(step))?;
    let mut network = Network { hub, hosts: Vec::new() };
    for place in 0..usize::from(hosts) {
        let host = Namespace::new()?;
        let steps = [
            format!("link add host{place} type veth peer name eth0 netns {}", host.path()),
            format!("link set host{place} master bridge0"),
            format!("link set host{place} up"),
        ];
        steps.iter().try_for_each(|step| network.hub.ip(step))?;
        let address = format!("addr add {}/24 dev eth0", network.address(place));
        [&address, "link set eth0 up", "link set lo up"].iter().try_for_each(|step| host.ip(step))?;
        network.hosts.push(host);
    }
    network.wait_until_up()?;
    Ok(network)
}

/// A network namespace that exists as long as this or a process in it.
#[derive(Debug)]
struct Namespace(File);

impl Namespace {
    fn new() -> Result<Namespace> {
        // Its first program echoes its input; it has started once it answers.
        let call = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut holder = call.map_err(|e| Error::io("run", "unshare", e))?;
        let opened = (|| {
            holder.stdin.as_mut()?.write_all(b"\n").ok()?;
            holder.stdout.as_mut()?.read_exact(&mut [0]).ok()?;
            Some(File::open(format!("/proc/{}/ns/net", holder.id())))
        })();
        drop(holder.stdin.take());
        holder.wait().map_err(|e| Error::io("wait for", "unshare", e))?;
        match opened {
            Some(opened) => opened.map(Namespace).map_err(|e| Error::io("open", "a network namespace", e)),
            None => Err(Error::new(Kind::Unsupported, "this machine gives no network namespaces")),
        }
    }

    /// The path by which `ip` finds it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn enter(&self) -> Result<()> {
        let moved = move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network));
        moved.map_err(|e| Error::io("enter", "a network namespace", e))
    }

    /// Runs `work` in it, in a new thread, since a thread that has entered cannot leave.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let entered = || self.enter().map(|()| work());
        match thread::scope(|scope| scope.spawn(entered).join()) {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn ip(&self, words: &str) -> Result<()> {
        self.within(|| Tool::new("ip", "iproute2")?.args(words.split(' ')).run().map(drop))?
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::skip::OrSkip;
    use crate::{assert, test};

    #[test]
    fn hosts_reach_each_other_unless_cut_off() {
        let network = Network::new(2);
        let at = SocketAddr::from((network.address(1), 7));
        let _listener = network.on(1, || TcpListener::bind(at).unwrap()).unwrap();
        let connect = || TcpStream::connect_timeout(&at, ATTEMPT_TIMEOUT).map(drop);
        let reaches = || network.on(0, connect).unwrap().is_ok();
        let is_reached = || network.hub.within(connect).unwrap().is_ok();
        // An attempt fails if the machine stops for its whole length, whichever host answers.
        let twice = |reached: &dyn Fn() -> bool| reached() || reached();
        assert!(twice(&reaches) && twice(&is_reached));
        network.block(1, 0).unwrap();
        assert!(!reaches() && twice(&is_reached));
        network.unblock(1, 0).unwrap();
        assert!(twice(&reaches));
        network.unplug(1).unwrap();
        assert!(!reaches() && !is_reached());
        network.plug(1).unwrap();
        assert!((0..20).any(|_| reaches()) && (0..20).any(|_| is_reached()));
        network.lose(1, 100).or_skip(Need::Program);
        assert!(!reaches() && !is_reached());
        network.lose(1, 0).unwrap();
        assert!((0..20).any(|_| reaches()) && (0..20).any(|_| is_reached()));
    }
}
