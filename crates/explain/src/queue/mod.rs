//! Which queue holds operations back, from the client down, and what a deeper one would bring (facts/analysis.md A3).
//!
//! A queue limits if it is full a tenth of the time or more, if more wait above it than it lets through, and if they wait the
//! longer the more they are. All three are needed: a queue that is merely full is one that is used.

mod backlog;
mod curve;
mod findings;
mod forecast;
mod ladder;
mod rung;

pub use curve::{CurvePoint, DeviceCurve};
pub(crate) use findings::waiting_share;
pub use forecast::{Backlog, BacklogSecond, forecast, mean_us};

use crate::{Evidence, Judgement};

/// The series that the ladder is made of.
pub(crate) const NEEDS: &[&str] = &[
    "device.{device}.in_flight",
    "device.{device}.queue.requests",
    "device.{device}.reads",
    "server.{member}.tickets.read.out",
    "server.{member}.tickets.read.total",
    "server.{member}.wait.page_read_us",
    "client.in_flight",
    "client.connections",
];

/// Adds a ladder for each device of each server, and what it says.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        for ladder in ladder::ladders(evidence, &member) {
            if let Some(found) = findings::of(evidence, judgement, &ladder) {
                judgement.add_unless_withheld(found);
            }
            judgement.ladders.push(ladder);
        }
    }
}

/// The probe's curve of a device's reads, whatever its queue lets through.
pub(crate) fn curve_of_reads(evidence: &Evidence, device: &str) -> Option<DeviceCurve> {
    curve::from_steps(&evidence.results, device, f64::INFINITY, false)
}

#[cfg(test)]
mod tests;
