//! Resolves a host's name to addresses, without the system's resolver library.
//!
//! A static program cannot load the modules of the C library's name service (NSS), so this module reads what nearly every host has
//! instead: `/etc/hosts`, then the servers, search domains and `ndots` of `/etc/resolv.conf`. `localhost` and the host's own name
//! work without any file. Names that only an NSS module knows (LDAP, mDNS) are not found.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;
use std::{fs, slice};

use hickory_resolver::Hosts;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};

use crate::NameService;

/// The time limit of a server for looking up addresses of its own.
pub const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// The addresses of `host`, a name or an address, in the order in which to try them: those that this host has a route to first,
/// alternating between IPv6 and IPv4.
///
/// The look-up takes `timeout` at most, and less if `/etc/resolv.conf` says so. A name without addresses is [`io::ErrorKind::NotFound`].
pub fn host_addresses(host: &str, port: u16, timeout: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = numeric(host, port) {
        return Ok(vec![address]);
    }
    let found = match of_hosts_file(host) {
        listed if !listed.is_empty() => listed,
        _ if is_localhost(host) => loopback(),
        _ => match NameService::system().addresses_of(host, timeout) {
            Err(_) if is_own_name(host) => loopback(),
            answer => answer?,
        },
    };
    Ok(in_turn(found.into_iter().map(|address| SocketAddr::new(address, port)).collect()))
}

/// A numeric address; an IPv6 address may name its interface after `%`, by name or number.
fn numeric(host: &str, port: u16) -> Option<SocketAddr> {
    let (address, interface) = host.split_once('%').unwrap_or((host, ""));
    if interface.is_empty() {
        return Some(SocketAddr::new(host.parse().ok()?, port));
    }
    let of_name =
        || fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()?.trim().parse().ok();
    let scope = interface.parse().ok().or_else(of_name)?;
    Some(SocketAddrV6::new(address.parse().ok()?, port, 0, scope).into())
}

fn loopback() -> Vec<IpAddr> {
    vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
}

/// RFC 6761, section 6.3.
fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn is_own_name(host: &str) -> bool {
    let own = rustix::system::uname();
    own.nodename().to_str().is_ok_and(|own| own.eq_ignore_ascii_case(host.trim_end_matches('.')))
}

/// The addresses in `/etc/hosts`; empty if the file cannot be read.
fn of_hosts_file(host: &str) -> Vec<IpAddr> {
    let (Ok(hosts), Ok(name)) = (Hosts::from_system(), Name::from_utf8(host)) else { return Vec::new() };
    let kinds = [RecordType::AAAA, RecordType::A];
    let listed =
        kinds.into_iter().filter_map(|kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)));
    listed
        .flat_map(|lookup| lookup.answers().iter().filter_map(|one| one.data.ip_addr()).collect::<Vec<_>>())
        .collect()
}

/// Puts addresses with a route first, and alternates between the two kinds, as in RFC 8305, section 4.
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let (reachable, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(has_route);
    let mut ordered = Vec::new();
    for part in [reachable, others] {
        let (six, four): (Vec<_>, Vec<_>) = part.into_iter().partition(SocketAddr::is_ipv6);
        for turn in 0..six.len().max(four.len()) {
            ordered.extend(six.get(turn).into_iter().chain(four.get(turn)));
        }
    }
    ordered
}

/// Connecting a datagram socket sends nothing, and fails without a route.
fn has_route(address: &SocketAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    UdpSocket::bind(SocketAddr::new(any, 0))
        .is_ok_and(|socket| socket.connect(slice::from_ref(address)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[test]
    fn an_address_is_its_own() {
        for (host, address) in [
            ("127.0.0.2", "127.0.0.2:7"),
            ("::1", "[::1]:7"),
            ("fe80::1%3", "[fe80::1%3]:7"),
            ("::1%lo", "[::1%1]:7"),
        ] {
            assert_eq!(host_addresses(host, 7, TIMEOUT).unwrap(), [address.parse().unwrap()], "{host}");
        }
    }

    #[test]
    fn localhost_and_the_own_name_have_addresses() {
        let own = rustix::system::uname();
        for name in ["localhost", "LOCALHOST.", "db.localhost", own.nodename().to_str().unwrap()] {
            let found = host_addresses(name, 7, TIMEOUT).unwrap();
            assert!(
                !found.is_empty() && found.iter().all(|address| address.port() == 7),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn families_come_in_turn_and_routes_first() {
        let of = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        assert_eq!(in_turn(of(&["127.0.0.1:1", "127.0.0.2:1"])), of(&["127.0.0.1:1", "127.0.0.2:1"]));
        if has_route(&"[::1]:1".parse().unwrap()) {
            let mixed = of(&["127.0.0.1:1", "127.0.0.2:1", "[::1]:1"]);
            assert_eq!(in_turn(mixed), of(&["[::1]:1", "127.0.0.1:1", "127.0.0.2:1"]));
        }
    }
}
