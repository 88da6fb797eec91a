//! Which servers are watched, and what they are.

use serde::Serialize;

use super::reading::Look;

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Member {
    pub(crate) number: String,
    pub(crate) address: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) engine: Option<String>,
    pub(crate) version: Option<String>,
    /// Whether it answered; none before it was asked.
    pub(crate) is_up: Option<bool>,
    pub(crate) lag_ms: Option<f64>,
}

/// All of them.
pub(super) fn all(look: Look<'_>) -> Vec<Member> {
    look.evidence.members().into_iter().map(|number| member(look, number)).collect()
}

fn member(look: Look<'_>, number: String) -> Member {
    let fact = |what: &str| look.fact(&format!("server.{number}{what}")).map(str::to_owned);
    let series = |what: &str| format!("server.{number}.{what}");
    // What the set says now counts more than what it was at the start.
    let role = look.last(&series("replication.state")).map(|state| state_name(state).to_owned());
    Member {
        address: fact(""),
        role: role.or_else(|| fact(".role")),
        engine: fact(".engine"),
        version: fact(".version"),
        is_up: look.last(&series("up")).map(|up| up > 0.0),
        lag_ms: look.last(&series("replication.lag_ms")),
        number,
    }
}

/// The state of a member as `rs.status()` words it.
fn state_name(state: f64) -> &'static str {
    match state as i64 {
        0 => "startup",
        1 => "primary",
        2 => "secondary",
        3 => "recovering",
        5 => "startup2",
        6 => "unknown",
        7 => "arbiter",
        8 => "down",
        9 => "rollback",
        10 => "removed",
        _ => "state not known",
    }
}
