//! Queries the name service (DNS) for the addresses of hosts, and for the SRV and TXT records of `mongodb+srv://`.
//!
//! The system's own `getaddrinfo` does not support these records, and a static program cannot use it, so this module queries the
//! servers of `/etc/resolv.conf` itself. The DNS library is asynchronous; a runtime exists only for the duration of a look-up.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;

use crate::Address;
use crate::seed_list::SeedList;

#[derive(Clone, Debug, Default)]
pub struct NameService {
    source: NameServerSource,
}

#[derive(Clone, Debug, Default)]
enum NameServerSource {
    /// The servers that `/etc/resolv.conf` names.
    #[default]
    System,
    Server(SocketAddr),
    /// The text of such a file, and the port of its servers.
    Text(String, u16),
}

/// The records of the name service for a seed list.
pub(crate) struct SeedRecords {
    /// The servers, with names without a final full stop.
    pub(crate) services: Vec<Address>,
    /// The TXT records, each with its pieces joined.
    pub(crate) texts: Vec<Vec<u8>>,
}

impl NameService {
    /// The servers that `/etc/resolv.conf` names.
    pub fn system() -> NameService {
        NameService::default()
    }

    /// A single server of the name service, queried by UDP and TCP.
    pub fn at(server: SocketAddr) -> NameService {
        NameService { source: NameServerSource::Server(server) }
    }

    /// The servers, search domains and options of a text like `/etc/resolv.conf` (resolv.conf(5)), with the servers at `port`.
    pub fn from_resolv_conf(text: &str, port: u16) -> NameService {
        NameService { source: NameServerSource::Text(text.to_owned(), port) }
    }

    /// The addresses of a host, of IPv6 and of IPv4; a name with fewer dots than `ndots` is tried in the search domains first.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] for a name without addresses, [`io::ErrorKind::TimedOut`] if no answer comes within `timeout`.
    pub fn addresses_of(&self, host: &str, timeout: Duration) -> io::Result<Vec<IpAddr>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let resolver = self.resolver().map_err(io::Error::other)?;
            match tokio::time::timeout(timeout, resolver.lookup_ip(host)).await {
                Ok(Ok(found)) => Ok(found.iter().collect()),
                Ok(Err(cause)) if cause.is_no_records_found() => {
                    Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
                }
                Ok(Err(cause)) => Err(io::Error::other(cause)),
                Err(_) => {
                    let what = format!("no answer from the name service within {timeout:?}");
                    Err(io::Error::new(io::ErrorKind::TimedOut, what))
                }
            }
        })
    }

    /// Looks up both kinds of records within `timeout`.
    pub(crate) fn look_up(&self, seeds: &SeedList, timeout: Duration) -> Result<SeedRecords> {
        let failed = |reason: String| {
            let what = format!("cannot find the servers of mongodb+srv://{}: {reason}", seeds.host());
            Error::new(Kind::NotFound, what).advise("check the name, or list the servers with mongodb://")
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| failed(format!("no asynchronous runtime ({cause})")))?;
        let found = runtime.block_on(async {
            let resolver =
                self.resolver().map_err(|cause| format!("the name service is not configured ({cause})"))?;
            tokio::time::timeout(timeout, ask(&resolver, seeds))
                .await
                .unwrap_or_else(|_| Err(format!("no answer from the name service within {timeout:?}")))
        });
        found.map_err(failed)
    }

    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let mut builder = match &self.source {
            NameServerSource::System => TokioResolver::builder_tokio()?,
            NameServerSource::Server(server) => {
                let mut config = NameServerConfig::udp_and_tcp(server.ip());
                config.connections.iter_mut().for_each(|connection| connection.port = server.port());
                let config = ResolverConfig::from_name_servers(vec![config]);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
            NameServerSource::Text(text, port) => {
                let (config, options) = parse_resolv_conf(text)?;
                let (domain, search, mut servers) = config.into_parts();
                let connections = servers.iter_mut().flat_map(|server| &mut server.connections);
                connections.for_each(|connection| connection.port = *port);
                let config = ResolverConfig::from_parts(domain, search, servers);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
                    .with_options(options)
            }
        };
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
        builder.build()
    }
}

/// Performs both look-ups; an error is the end of a sentence.
async fn ask(resolver: &TokioResolver, seeds: &SeedList) -> Result<SeedRecords, String> {
    let query = seeds.query();
    let servers = answers(resolver, &query, RecordType::SRV)
        .await?
        .ok_or_else(|| format!("the name service has no SRV records for {query}"))?;
    let mut services = Vec::new();
    for answer in servers {
        if let RData::SRV(server) = answer {
            let host = server.target.to_ascii().trim_end_matches('.').to_ascii_lowercase();
            let address = format!("{host}:{}", server.port).parse();
            services.push(address.map_err(|cause: Error| format!("of the SRV records of {query}, {cause}"))?);
        }
    }
    let texts = answers(resolver, seeds.host(), RecordType::TXT).await?.unwrap_or_default();
    let texts = texts.into_iter().filter_map(|answer| match answer {
        RData::TXT(text) => Some(text.txt_data.concat()),
        _ => None,
    });
    Ok(SeedRecords { services, texts: texts.collect() })
}

/// The records of one kind; `None` if the name has none of them.
async fn answers(
    resolver: &TokioResolver,
    name: &str,
    kind: RecordType,
) -> Result<Option<Vec<RData>>, String> {
    // A final full stop makes the name complete: the machine's search domains are not tried.
    match resolver.lookup(format!("{name}."), kind).await {
        Ok(found) => Ok(Some(found.answers().iter().map(|record| record.data.clone()).collect())),
        Err(cause) if cause.is_no_records_found() => Ok(None),
        Err(cause) => Err(format!("the name service failed at the {kind} records of {name} ({cause})")),
    }
}
