//! A client of the driver's, made of the connection string and proven to be let in.

use std::time::Duration;

use bson::{RawDocumentBuf, doc, rawdoc};
use fathom_errors::{Error, Kind};
use mongodb::Client;
use mongodb::error::ErrorKind;
use mongodb::options::{ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};

use crate::binding::Binding;

/// How long the first answer may take, where the connection string says nothing: it comes within 5 s.
const FIRST_ANSWER: Duration = Duration::from_secs(4);
/// Connections that the pool makes at once, as many as the own client has hands for.
const HANDS: u32 = 16;

/// Connects. Nothing of the connection string is repeated in an error but what the driver says is wrong with it.
pub(super) async fn connect(url: &str, binding: &Binding, connections: usize) -> Result<Client, Error> {
    let options = ClientOptions::parse(url).await;
    let mut options = options.map_err(|error| refused("cannot use the connection string", &error))?;
    options.app_name.get_or_insert_with(|| "fathom".to_owned());
    options.max_pool_size = Some(u32::try_from(connections).unwrap_or(u32::MAX));
    options.max_connecting.get_or_insert(HANDS);
    options.server_selection_timeout.get_or_insert(FIRST_ANSWER);
    options.connect_timeout =
        Some(options.connect_timeout.map_or(FIRST_ANSWER, |time| time.min(FIRST_ANSWER)));
    // YCSB's old options for these count where the connection string has none, so what the binding made of both is used.
    options.write_concern = read::<WriteConcern>(binding.write_concern.as_ref())?;
    options.selection_criteria =
        read::<ReadPreference>(binding.read_preference.as_ref())?.map(SelectionCriteria::ReadPreference);
    let level = binding.read_concern.as_deref().map(|level| rawdoc! { "level": level });
    options.read_concern = read::<ReadConcern>(level.as_ref())?;
    let criteria = options.selection_criteria.clone();
    let client =
        Client::with_options(options).map_err(|error| refused("cannot use the connection string", &error))?;
    let ping = client.database("admin");
    let ping = ping.run_command(doc! { "ping": 1 });
    let ping = match criteria {
        Some(criteria) => ping.selection_criteria(criteria),
        None => ping,
    };
    ping.await.map_err(|error| refused("cannot connect", &error))?;
    Ok(client)
}

fn read<T: serde::de::DeserializeOwned>(document: Option<&RawDocumentBuf>) -> Result<Option<T>, Error> {
    let read = document.map(|document| bson::deserialize_from_slice(document.as_bytes())).transpose();
    read.map_err(|error| Error::usage("the official driver does not take these options").because(error))
}

fn refused(what: &str, error: &mongodb::error::Error) -> Error {
    let kind = match &*error.kind {
        ErrorKind::InvalidArgument { .. } | ErrorKind::InvalidTlsConfig { .. } => Kind::Usage,
        ErrorKind::Authentication { .. } => Kind::Permission,
        ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. } => Kind::NotFound,
        _ => Kind::Io,
    };
    // The kind alone: the error as a whole repeats itself, with labels and replies.
    Error::new(kind, format!("the official driver {what}")).because(error.kind.to_string())
}
