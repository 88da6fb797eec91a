//! `notablescan`: a query that no index helps is refused before it reads a whole collection.

use fathom_query::{Access, Code, Failure, Plan};

use crate::Result;
use crate::operation::Operation;

/// Refuses a plan that scans a collection, where the parameter says so. The server's own collections are small, and exempt.
pub(super) fn check(op: &Operation<'_>, plan: &Plan) -> Result<()> {
    if !op.instance.parameters.no_table_scan() || !scans(&plan.access) {
        return Ok(());
    }
    let namespace = &op.figures.namespace;
    if namespace.contains(".system.") {
        return Ok(());
    }
    let what = format!(
        "error processing query: ns={namespace}: No indexed plans available, and running with 'notablescan'"
    );
    Err(Failure::new(Code::NoQueryExecutionPlans, what))
}

fn scans(access: &Access) -> bool {
    match access {
        Access::Scan { .. } => true,
        Access::Union(plans) => plans.iter().any(|plan| scans(&plan.access)),
        _ => false,
    }
}
