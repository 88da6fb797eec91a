//! Reports on the server as a whole: `serverStatus`, `dbStats` and `getDiagnosticData`. They read the counters of all layers below, which
//! are also recorded once a second in `diagnostic.data`.

pub(crate) mod database_stats;
pub(crate) mod diagnostic_data;
mod diagnostic_file;
pub(crate) mod diagnostic_recorder;
pub(crate) mod host_info;
pub(crate) mod server_status;
