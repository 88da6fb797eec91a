//! `--metrics ADDRESS`: what goes on, in OpenMetrics, for a Prometheus that scrapes it.
//!
//! One page on one address, read only.

mod load;
mod series;

use std::sync::Arc;

use fathom_errors::Result;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub(crate) use self::load::LoadMetrics;
pub(crate) use self::series::SeriesMetrics;
use crate::web::{self, Request, Response};

/// A label's value as it may stand between quotes; prometheus-client writes it as it is, and one quote would end the page for
/// whoever reads it. Names of operations are anybody's.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn listen(address: &str, registry: Arc<Registry>) -> Result<()> {
    let bound =
        web::serve(web::parse_address(address)?, "metrics", move |request| answer(request, &registry))?;
    crate::output::note(&format!("metrics: http://{bound}/metrics"));
    Ok(())
}

fn answer(request: &Request, registry: &Registry) -> Response {
    if !matches!(request.path.as_str(), "/metrics" | "/") {
        return Response::text("404 Not Found", "the numbers are at /metrics");
    }
    let mut body = String::new();
    match encode(&mut body, registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            Response { status: "200 OK", kind, body, heads: &[] }
        }
        Err(error) => Response::text("500 Internal Server Error", &error.to_string()),
    }
}
