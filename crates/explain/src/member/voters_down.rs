//! Voters that are down: then a majority needs every voter that is left, and the slowest of these holds the commit point.
//!
//! Flow control holds writes back while the commit point lags (`flowControlTargetLagSeconds`). It looks like slow storage of a member, and the
//! remedy is to bring back the members that are down.

use fathom_record::{Confidence, Finding};

use crate::Evidence;
use crate::member::fact;

/// From so many voters down on average the set was short of one for most of the time.
const MIN_DOWN: f64 = 0.5;

/// Adds to a finding on a primary's writes that voters are down, if the majority needs every voter that is up.
pub(crate) fn name_down_voters(evidence: &Evidence, primary: &str, finding: &mut Finding) {
    let name = format!("server.{primary}.replication.voters_down");
    let Some(down) = evidence.mean(&name).filter(|down| *down >= MIN_DOWN).map(f64::round) else { return };
    let number = |name: &str| fact(evidence, primary, name).and_then(|text| text.parse::<f64>().ok());
    let Some((voters, majority)) = number("voters").zip(number("majority")) else { return };
    let up = voters - down;
    if up > majority {
        return;
    }
    finding.evidence.push(format!(
        "{down:.0} of {voters:.0} voters with data are down, and a majority is {majority:.0}: every voter that is left is needed."
    ));
    finding.series.push(name);
    if finding.id == "flow-control-on-path" {
        finding.claim = format!(
            "The server holds writes back: {down:.0} of {voters:.0} voters are down, and the slowest of the others holds the commit point."
        );
        finding.advice = Some(
            "Bring the voters that are down back, or remove them from the configuration; no storage holds these writes back.".to_owned(),
        );
        // The server's own counter of the wait, and the set's own state.
        finding.confidence = Confidence::Likely;
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet, Severity};

    use super::*;

    fn named(id: &'static str, down: f64) -> Finding {
        let mut series = SeriesSet::default();
        let window_ns = (0, 30_000_000_000);
        let point = Point { begin_ns: 0, end_ns: window_ns.1, value: down };
        series.add("server.0.replication.voters_down", "1", point);
        let environment = [("server.0.voters", "5"), ("server.0.majority", "3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let evidence = Evidence { series, window_ns, environment, ..Evidence::default() };
        let mut finding = Finding::new(id, Severity::Warning, "Writes are held back.");
        name_down_voters(&evidence, "0", &mut finding);
        finding
    }

    #[test]
    fn voters_that_are_down_are_the_cause_once_none_of_the_others_can_be_spared() {
        let two = named("flow-control-on-path", 2.0);
        assert!(two.claim.contains("2 of 5 voters are down"), "{two:#?}");
        assert!(two.advice.unwrap().starts_with("Bring the voters that are down back"));
        assert_eq!(named("flow-control-on-path", 1.0).claim, "Writes are held back.");
        let waits = named("replication-on-path", 2.0);
        assert_eq!((waits.claim.as_str(), waits.evidence.len()), ("Writes are held back.", 1));
    }
}
