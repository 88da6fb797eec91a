//! The page of servers' recordings of themselves: days as strips of colour, with all members on one axis, then each incident with the
//! hour around it, then the slow operations of the log by shape.

use std::fmt::Write;

use fathom_errors::Result;
use fathom_record::incident::{Incident, IncidentFigure};
use fathom_record::verdict::{Outcome, Verdict};
use fathom_record::{Confidence, Redaction, ShapeTotals, SlowOperationTable, most_frequent};
use fathom_units::{Bytes, Nanos, count, time_span};
use minijinja::context;
use serde::Serialize;

use super::chart::{Chart, ChartPlan};
use super::render;
use super::summary_cards::Card;
use super::svg::{ChartLine, XAxis, escaped};

/// The number of incidents for which their hour is shown; the others are in a table.
const MAX_DETAILED: usize = 10;
/// Shapes in the table of slow operations.
const MAX_SHAPES: usize = 20;
/// The time that a chart shows before and after an incident, in milliseconds.
const MARGIN_MS: i64 = 1_800_000;
/// The picture of strips in its own units: a column is one unit wide.
const WIDTH: f64 = 720.0;
const LEFT: f64 = 4.0;
const COLUMNS: usize = 712;
const NAME_HEIGHT: f64 = 16.0;
const STRIP_HEIGHT: f64 = 14.0;
const SERVER_HEIGHT: f64 = 22.0;
const GAP: f64 = 6.0;
const AXIS_HEIGHT: f64 = 20.0;
/// Numbers closer to each other than this would overlap.
const MIN_NUMBER_DISTANCE: f64 = 18.0;
/// The number of shades of a strip, from usual values to the darkest.
const SHADES: usize = 8;
/// A mean is darkest at this multiple of its median.
const MAX_RATIO: f64 = 16.0;

/// A figure of a recording in equal steps.
#[derive(Clone, Copy, Debug)]
pub struct Strip<'r> {
    /// The figure (`a sync of the journal`).
    pub name: &'static str,
    /// When the first step begins, in milliseconds since 1970.
    pub begin_ms: i64,
    /// The length of a step, in milliseconds.
    pub step_ms: i64,
    /// Means in microseconds, or shares from 0 to 1.
    pub values: &'r [Option<f32>],
    /// Whether values are shares.
    pub is_share: bool,
}

/// A server's recording, as judged.
#[derive(Clone, Debug)]
pub struct RecordedServer<'r> {
    /// Its version, host and directory.
    pub name: String,
    pub verdict: &'r Verdict,
    pub incidents: &'r [Incident],
    /// One sentence for each thing that the recording lacks.
    pub missing: &'r [String],
    /// Begin and end, in milliseconds since 1970.
    pub window_ms: (i64, i64),
    /// When other processes of the server began.
    pub restarts_ms: &'r [i64],
    pub strips: Vec<Strip<'r>>,
    pub slow_operations: Option<&'r SlowOperationTable>,
}

/// The content of a page of recordings.
pub struct RecordingSource<'r> {
    pub servers: &'r [RecordedServer<'r>],
    /// A time, in milliseconds since 1970, for people.
    pub moment: &'r dyn Fn(i64) -> String,
    /// The offsets between the clocks of members, a sentence for each set.
    pub clocks: &'r [String],
    /// Readings that failed, a sentence each.
    pub notes: &'r [String],
    /// Removes names from the page, if set.
    pub redaction: Option<&'r Redaction>,
}

/// A server for the template.
#[derive(Serialize)]
struct ServerPart {
    name: String,
    verdict: Card,
    reasons: Vec<String>,
    next: Option<String>,
    span: String,
    missing: Vec<String>,
    incidents: Vec<IncidentPart>,
    /// The table cells of incidents without a part of their own.
    others: Vec<[String; 4]>,
    slow_heading: Option<String>,
    shapes: Vec<[String; 8]>,
}

/// An incident for the template.
#[derive(Serialize)]
struct IncidentPart {
    id: String,
    number: usize,
    when: String,
    cost: String,
    sentence: String,
    is_unsure: bool,
    /// The name, the usual value and the present value of each figure.
    figures: Vec<[String; 3]>,
    waits: Vec<[String; 3]>,
    evidence: Vec<String>,
    against: Vec<String>,
    next: Option<String>,
    chart: Option<Chart>,
}

/// The page of recordings.
///
/// # Errors
/// When the template does not accept its values, which a test would have found.
pub fn recording_page(source: &RecordingSource<'_>) -> Result<String> {
    let servers: Vec<ServerPart> = source
        .servers
        .iter()
        .enumerate()
        .map(|(number, server)| part(number, server, source.moment))
        .collect();
    let values = context! {
        servers => servers,
        strips => strips(source),
        clocks => source.clocks,
        notes => source.notes,
    };
    render("recording", values, source.redaction)
}

fn part(number: usize, server: &RecordedServer<'_>, moment: &dyn Fn(i64) -> String) -> ServerPart {
    let verdict = server.verdict;
    let kind = match (verdict.outcome, verdict.confidence) {
        (Outcome::HeldBack, _) => "bad",
        (Outcome::NotHeldBack, _) => "good",
        _ => "unsure",
    };
    let incidents = server.incidents.iter().enumerate();
    let incident = |(at, one): (usize, &Incident)| IncidentPart {
        id: format!("incident-{number}-{}", at + 1),
        number: at + 1,
        when: format!("{} for {}", moment(one.begin_ms), time_span(one.length_s())),
        cost: cost_words(one),
        sentence: one.sentence.clone(),
        is_unsure: one.confidence == Confidence::CannotTell,
        figures: one.changes.iter().map(change_cells).collect(),
        waits: one
            .waits
            .iter()
            .filter(|wait| wait.mean_us.max(wait.usual_us) >= 1.0)
            .map(change_cells)
            .collect(),
        evidence: one.evidence.clone(),
        against: one.against.clone(),
        next: one.next.clone(),
        chart: hour(&format!("hour-{number}-{}", at + 1), server, one, moment),
    };
    let table = server.slow_operations.filter(|table| table.count > 0);
    ServerPart {
        name: server.name.clone(),
        verdict: Card {
            kind,
            label: server.name.clone(),
            text: verdict.sentence.clone(),
            more: String::new(),
        },
        reasons: verdict.reasons.clone(),
        next: verdict.next.clone(),
        span: format!("{} to {}", moment(server.window_ms.0), moment(server.window_ms.1)),
        missing: server.missing.to_vec(),
        incidents: incidents.clone().take(MAX_DETAILED).map(incident).collect(),
        others: incidents
            .skip(MAX_DETAILED)
            .map(|(_, one)| {
                [moment(one.begin_ms), time_span(one.length_s()), cost_words(one), one.sentence.clone()]
            })
            .collect(),
        slow_heading: table.map(|table| {
            format!(
                "{} slow operations, which took {} in total. {} shapes; those that read most come first, or that took most time where the log does not say what they read.",
                count(table.count as f64),
                time_span(table.time_s),
                count(table.shapes.len() as f64)
            )
        }),
        shapes: table
            .map(|table| table.shapes.iter().take(MAX_SHAPES).map(shape_cells).collect())
            .unwrap_or_default(),
    }
}

fn cost_words(incident: &Incident) -> String {
    if incident.lost_s < 0.1 {
        return String::new();
    }
    let range = incident.wide_range_s().map_or_else(String::new, |(low_s, high_s)| {
        format!(" (95 % interval {} to {})", time_span(low_s), time_span(high_s))
    });
    format!("{}{range}", time_span(incident.lost_s))
}

fn micros(us: f64) -> String {
    Nanos((us.max(0.0) * 1e3) as u64).to_string()
}

fn change_cells(change: &IncidentFigure) -> [String; 3] {
    [change.of.clone(), micros(change.usual_us), micros(change.mean_us)]
}

fn shape_cells(shape: &ShapeTotals) -> [String; 8] {
    let most = |names| most_frequent(names).unwrap_or_default().to_owned();
    [
        format!("{} {}", shape.namespace, shape.shape),
        count(shape.count as f64),
        format!("{:.0} ms", 1e3 * shape.time_s / shape.count.max(1) as f64),
        format!("{} ms", shape.max_ms),
        shape.read_bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string()),
        most(&shape.plans),
        most(&shape.applications),
        count(shape.in_incidents as f64),
    ]
}

/// The hour around an incident.
fn hour(
    id: &str,
    server: &RecordedServer<'_>,
    incident: &Incident,
    moment: &dyn Fn(i64) -> String,
) -> Option<Chart> {
    let strips: Vec<&Strip<'_>> = server.strips.iter().filter(|strip| !strip.is_share).collect();
    let first = strips.first()?;
    let step = |ms: i64| (ms - first.begin_ms).div_euclid(first.step_ms);
    let length = first.values.len() as i64;
    let from = step(incident.begin_ms - MARGIN_MS).clamp(0, length);
    let to = step(incident.end_ms + MARGIN_MS).clamp(from, length);
    let place = |at: i64| (at - from) as f64 * first.step_ms as f64 / 1e3;
    let lines = strips.iter().map(|strip| ChartLine {
        name: strip.name.to_owned(),
        values: (from..to)
            .map(|at| strip.values.get(at as usize).copied().flatten().map(|us| f64::from(us) / 1e3))
            .collect(),
        ends: Vec::new(),
    });
    let lines: Vec<ChartLine> = lines.collect();
    let ticks = (0..=4).map(|part| from + (to - from) * part / 4);
    let clock = |at: i64| {
        let whole = moment(first.begin_ms + at * first.step_ms);
        whole.split(' ').nth(1).unwrap_or(&whole).to_owned()
    };
    let band = |ms: i64| (ms - first.begin_ms - from * first.step_ms) as f64 / 1e3;
    ChartPlan {
        id: id.to_owned(),
        title: "The hour around it".to_owned(),
        unit: "ms",
        across: XAxis {
            name: "time",
            places: (from..to).map(place).collect(),
            ticks: ticks.map(|at| (place(at), clock(at))).collect(),
            is_log: false,
        },
        readings: lines.iter().map(|line| line.values.iter().flatten().count()).sum(),
        lines,
        is_log: true,
        window: format!(
            "{} to {}, in steps of {} s",
            moment(first.begin_ms + from * first.step_ms),
            moment(first.begin_ms + to * first.step_ms),
            first.step_ms / 1000
        ),
        how: "Means of each step within the server. Band: the incident.".to_owned(),
        bands: vec![(band(incident.begin_ms), band(incident.end_ms))],
    }
    .draw()
}

/// The shade of a value: 0 is the usual value, `SHADES - 1` the darkest.
fn shade(value: f64, median: f64, is_share: bool) -> usize {
    let part = match is_share {
        true => value,
        false if median > 0.0 => (value / median).max(1.0).ln() / MAX_RATIO.ln(),
        false => 0.0,
    };
    ((part * SHADES as f64) as usize).min(SHADES - 1)
}

/// All servers over one axis of time: a strip for each figure, and marks for incidents and restarts.
fn strips(source: &RecordingSource<'_>) -> Option<String> {
    let begin_ms = source.servers.iter().map(|server| server.window_ms.0).min()?;
    let end_ms = source.servers.iter().map(|server| server.window_ms.1).max()?.max(begin_ms + 1);
    let per_column = (end_ms - begin_ms) as f64 / COLUMNS as f64;
    let x = |ms: i64| LEFT + ((ms - begin_ms) as f64 / per_column).clamp(0.0, COLUMNS as f64);
    let has_several = source.servers.len() > 1;
    let mut out = String::new();
    let mut y = 0.0;
    for server in source.servers {
        if has_several {
            y += SERVER_HEIGHT;
            let _ = write!(
                out,
                "<text class=\"row\" x=\"{LEFT}\" y=\"{:.0}\">{}</text>",
                y - 6.0,
                escaped(&server.name)
            );
        }
        // Numbers of incidents are in a row of their own.
        let (numbers_y, top) = (y + NAME_HEIGHT - 4.0, y + NAME_HEIGHT);
        y = top;
        for strip in server.strips.iter().filter(|strip| strip.values.iter().any(Option::is_some)) {
            y += NAME_HEIGHT;
            let _ = write!(out, "<text x=\"{LEFT}\" y=\"{:.0}\">{}</text>", y - 4.0, escaped(strip.name));
            draw_strip(&mut out, strip, y, begin_ms, per_column);
            y += STRIP_HEIGHT + GAP;
        }
        for restart in server.restarts_ms {
            let _ = write!(out, "<path class=\"guide\" d=\"M{:.1} {top:.0}V{y:.0}\"/>", x(*restart));
        }
        draw_incidents(&mut out, server.incidents, (numbers_y, top, y), &x);
    }
    let labels = (0..=4).map(|part| {
        let at_ms = begin_ms + (end_ms - begin_ms) * part / 4;
        let label = (source.moment)(at_ms);
        // Without the year and the seconds.
        let label = label.get(5..16).unwrap_or(&label).to_owned();
        let anchor = match part {
            0 => "start",
            4 => "end",
            _ => "middle",
        };
        format!(
            "<text style=\"text-anchor:{anchor}\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            x(at_ms),
            y + AXIS_HEIGHT - 6.0,
            escaped(&label)
        )
    });
    let labels: String = labels.collect();
    Some(format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Figures over the whole recording, with incidents and restarts\">{out}{labels}</svg>",
        y + AXIS_HEIGHT
    ))
}

/// Frames around incidents from `top` to `bottom`, and their numbers in a row above.
fn draw_incidents(
    out: &mut String,
    incidents: &[Incident],
    (numbers_y, top, bottom): (f64, f64, f64),
    x: &dyn Fn(i64) -> f64,
) {
    let mut numbers: Vec<f64> = Vec::new();
    for (number, incident) in incidents.iter().take(MAX_DETAILED).enumerate() {
        let (from, to) = (x(incident.begin_ms), x(incident.end_ms));
        let _ = write!(
            out,
            "<rect class=\"mark-band\" x=\"{from:.1}\" y=\"{top:.0}\" width=\"{:.1}\" height=\"{:.0}\"/>",
            (to - from).max(2.0),
            bottom - top
        );
        let middle = f64::midpoint(from, to).clamp(LEFT + 8.0, WIDTH - 12.0);
        // If incidents are close together, only the costliest gets its number.
        if numbers.iter().all(|other| (other - middle).abs() >= MIN_NUMBER_DISTANCE) {
            numbers.push(middle);
            let _ = write!(
                out,
                "<text class=\"mark x\" x=\"{middle:.1}\" y=\"{numbers_y:.0}\">{}</text>",
                number + 1
            );
        }
    }
}

/// One strip: the worst step of each column decides its shade. A column without a step stays empty.
fn draw_strip(out: &mut String, strip: &Strip<'_>, y: f64, begin_ms: i64, per_column: f64) {
    let known: Vec<f64> = strip.values.iter().flatten().map(|value| f64::from(*value)).collect();
    let median = fathom_stats::median(&known).unwrap_or(0.0);
    let mut columns: Vec<Option<usize>> = vec![None; COLUMNS];
    for (step, value) in strip.values.iter().enumerate() {
        let Some(value) = value else { continue };
        let shade = shade(f64::from(*value), median, strip.is_share);
        let column = |ms: i64| ((ms - begin_ms) as f64 / per_column).floor().max(0.0) as usize;
        let at_ms = strip.begin_ms + step as i64 * strip.step_ms;
        let last = column(at_ms + strip.step_ms - 1).min(COLUMNS - 1);
        for slot in columns.iter_mut().take(last + 1).skip(column(at_ms)) {
            *slot = Some(slot.map_or(shade, |before| before.max(shade)));
        }
    }
    let mut at = 0;
    for run in columns.chunk_by(|one, next| one == next) {
        if let Some(Some(shade)) = run.first() {
            let _ = write!(
                out,
                "<rect class=\"cell s{shade}\" x=\"{:.0}\" y=\"{y:.0}\" width=\"{}\" height=\"{STRIP_HEIGHT}\"/>",
                LEFT + at as f64,
                run.len()
            );
        }
        at += run.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(begin_ms: i64, end_ms: i64) -> Incident {
        Incident {
            member: 0,
            begin_ms,
            end_ms,
            cause: "storage-reads".to_owned(),
            domain: None,
            confidence: Confidence::Likely,
            sentence: "Storage, through reads: <b> & more.".to_owned(),
            lost_s: 12.0,
            lost_range_s: Some((10.0, 14.0)),
            lost_share: 0.5,
            storage_s: 0.0,
            changes: vec![IncidentFigure { of: "a read".to_owned(), usual_us: 200.0, mean_us: 40_000.0 }],
            waits: vec![IncidentFigure { of: "pages".to_owned(), usual_us: 10.0, mean_us: 39_000.0 }],
            engine_times: Vec::new(),
            evidence: vec!["It waited.".to_owned()],
            against: Vec::new(),
            next: None,
        }
    }

    #[test]
    fn members_share_an_axis_and_text_is_escaped() {
        let verdict = Verdict::new(Outcome::HeldBack, "Held back by storage.".to_owned());
        let values: Vec<Option<f32>> =
            (0..360).map(|step| (step != 7).then_some(if step == 100 { 8000.0 } else { 1000.0 })).collect();
        let strip =
            Strip { name: "a read or write", begin_ms: 0, step_ms: 10_000, values: &values, is_share: false };
        let incidents = [incident(1_000_000, 1_020_000)];
        let server = |name: &str| RecordedServer {
            name: name.to_owned(),
            verdict: &verdict,
            incidents: &incidents,
            missing: &[],
            window_ms: (0, 3_600_000),
            restarts_ms: &[60_000],
            strips: vec![strip],
            slow_operations: None,
        };
        let servers = [server("one"), server("two <script>")];
        let moment = |ms: i64| {
            format!("2026-11-28 {:02}:{:02}:{:02}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60)
        };
        let source =
            RecordingSource { servers: &servers, moment: &moment, clocks: &[], notes: &[], redaction: None };
        let page = recording_page(&source).unwrap();
        assert!(page.contains("two &lt;script&gt;") && !page.contains("two <script>"));
        assert!(page.contains("Storage, through reads: &lt;b&gt; &amp; more."));
        let drawn = strips(&source).unwrap();
        // The dark step, and a column without a value, in each of two servers.
        assert_eq!(drawn.matches("cell s6").count(), 2, "{drawn}");
        assert_eq!(drawn.matches("class=\"guide\"").count(), 2);
        assert!(page.contains("12.0 s (95 % interval 10.0 s to 14.0 s)"), "{page}");
    }

    #[test]
    fn shades_follow_ratios_and_shares() {
        assert_eq!((shade(100.0, 100.0, false), shade(50.0, 100.0, false)), (0, 0));
        assert_eq!((shade(1600.0, 100.0, false), shade(1e9, 100.0, false)), (SHADES - 1, SHADES - 1));
        assert_eq!((shade(0.0, 0.3, true), shade(0.5, 0.3, true), shade(1.0, 0.3, true)), (0, 4, 7));
    }
}
