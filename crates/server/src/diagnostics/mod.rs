//! What the server says about itself as a whole: `serverStatus`, `dbStats` and `getDiagnosticData`. It reads what everything below counts.

pub(crate) mod database_stats;
pub(crate) mod diagnostic_data;
pub(crate) mod server_status;
