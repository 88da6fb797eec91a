//! What a run looks like around an event that comes again and again: every cycle laid over the others.

/// The cycles of one kind of event on one server.
#[derive(Clone, Debug, PartialEq)]
pub struct SuperposedCycles {
    /// The server's number; empty where none was watched.
    pub member: String,
    /// What the event is: `checkpoint`, `flush`, `compaction`.
    pub event: &'static str,
    /// How many cycles were laid over each other.
    pub cycles: usize,
    /// The median distance between the beginnings of events, in seconds.
    pub period_s: f64,
    /// The middle of each step, in seconds from the beginning of the event; below 0 before it.
    pub offsets_s: Vec<f64>,
    /// What was read in each step, one measure after the other.
    pub measures: Vec<CycleMeasure>,
}

/// One measure over the cycle. A step in which no cycle has a reading is a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleMeasure {
    /// `latency`, for links.
    pub id: &'static str,
    /// For people.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// How many readings it was made of.
    pub readings: usize,
    /// The mean of the cycles, step by step.
    pub mean: Vec<Option<f64>>,
    /// What nine tenths of the cycles are above.
    pub low: Vec<Option<f64>>,
    /// What nine tenths of the cycles are below.
    pub high: Vec<Option<f64>>,
}
