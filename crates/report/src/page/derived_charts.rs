//! Charts of data that no series contains directly: cycles laid over each other, rhythms by period and by lag, and the laws of scaling.

use fathom_record::pictures::Pictures;
use fathom_record::pictures::cycles::SuperposedCycles;
use fathom_record::pictures::rhythm::LatencyRhythm;
use fathom_record::pictures::scaling::Scaling;
use fathom_units::{count, decimal};

use super::chart::ChartPlan;
use super::scale::Scale;
use super::svg::{ChartLine, XAxis, figure};

pub(super) fn plans(pictures: &Pictures) -> Vec<ChartPlan> {
    let mut plans: Vec<ChartPlan> = pictures.cycles.iter().flat_map(of_cycles).collect();
    plans.extend(pictures.rhythms.iter().flat_map(of_rhythm));
    plans.extend(pictures.scalings.iter().enumerate().map(|(number, one)| of_scaling(number, one)));
    plans
}

/// The id and the title of a chart. They include the server, if the chart belongs to one.
fn named(id: &str, title: String, member: &str) -> (String, String) {
    match member {
        "" => (id.to_owned(), title),
        member => (format!("{id}-{member}"), format!("{title}: server {member}")),
    }
}

/// Ticks with figures as their labels.
fn ticks(scale: Scale) -> Vec<(f64, String)> {
    scale.ticks().into_iter().map(|tick| (tick, figure(tick))).collect()
}

/// A chart for each measure over the cycle.
fn of_cycles(one: &SuperposedCycles) -> Vec<ChartPlan> {
    let (first, last) =
        one.offsets_s.first().copied().zip(one.offsets_s.last().copied()).unwrap_or((0.0, 1.0));
    let across = XAxis {
        name: "seconds from its beginning",
        places: one.offsets_s.clone(),
        ticks: ticks(Scale::between(first, last)),
        is_log: false,
    };
    let plans = one.measures.iter().map(|measure| {
        let title = format!("{} around a {}", measure.name, one.event);
        let (id, title) = named(&format!("cycle-{}", measure.id), title, &one.member);
        let line = |name: &str, values: &[Option<f64>]| ChartLine { ends: Vec::new(), name: name.to_owned(), values: values.to_vec() };
        ChartPlan {
            id,
            title,
            unit: measure.unit,
            across: across.clone(),
            lines: vec![
                line("mean of the cycles", &measure.mean),
                line("nine tenths are above", &measure.low),
                line("nine tenths are below", &measure.high),
            ],
            is_log: false,
            readings: measure.readings,
            window: format!("{} cycles, {} s apart in the median", one.cycles, figure(one.period_s)),
            how: format!(
                "Every cycle laid over the others at the second in which its {} began; a cycle counts once in each step.",
                one.event
            ),
            bands: Vec::new(),
        }
    });
    plans.collect()
}

/// The rhythm by period, with the line that noise stays below, and by lag.
fn of_rhythm(one: &LatencyRhythm) -> [ChartPlan; 2] {
    let flat = |height: f64, count: usize| vec![Some(height); count];
    let ends = one.by_period.first().zip(one.by_period.last()).map_or((1.0, 10.0), |(a, b)| (a.0, b.0));
    let window = format!("{} to {} s", figure(one.begin_s), figure(one.begin_s + one.seconds as f64));
    let values = |points: &[(f64, f64)]| points.iter().map(|point| Some(point.1)).collect();
    let places = |points: &[(f64, f64)]| points.iter().map(|point| point.0).collect::<Vec<f64>>();
    let (id, title) = named("rhythm", format!("Rhythm in the {}", one.of), &one.member);
    let by_period = ChartPlan {
        id,
        title,
        unit: "powers of ten",
        across: XAxis {
            name: "period in seconds",
            places: places(&one.by_period),
            ticks: ticks(Scale::between_ratios(ends.0, ends.1)),
            is_log: true,
        },
        lines: vec![
            ChartLine { ends: Vec::new(), name: "the run".into(), values: values(&one.by_period) },
            ChartLine { ends: Vec::new(), name: "95 % of noise stays below".into(), values: flat(one.band, one.by_period.len()) },
        ],
        is_log: false,
        readings: one.seconds,
        window: window.clone(),
        how: "How unlikely so much power is at that period alone and its next three harmonics, in noise with the same memory: \
              3 is one in a thousand. The line is for the highest of all periods. Logarithms of means of seconds."
            .to_owned(),
        bands: Vec::new(),
    };
    let (id, title) = named("echo", format!("How the {} resembles itself later", one.of), &one.member);
    let last = one.by_lag.last().map_or(1.0, |lag| lag.0);
    let by_lag = ChartPlan {
        id,
        title,
        unit: "correlation",
        across: XAxis {
            name: "lag in seconds",
            places: places(&one.by_lag),
            ticks: ticks(Scale::between(0.0, last)),
            is_log: false,
        },
        // A value below 0 is no echo; a chart from 0 on shows the values that are.
        lines: vec![
            ChartLine { ends: Vec::new(),
                name: "the run".into(),
                values: one.by_lag.iter().map(|lag| Some(lag.1.max(0.0))).collect(),
            },
            ChartLine { ends: Vec::new(),
                name: "95 % of noise stays below".into(),
                values: one.lag_band.iter().map(|value| Some(value.max(0.0))).collect(),
            },
        ],
        is_log: false,
        readings: one.seconds,
        window,
        how: "Autocorrelation of the same logarithms; below 0 is drawn as 0. A rhythm echoes itself at its period and twice that."
            .to_owned(),
        bands: Vec::new(),
    };
    [by_period, by_lag]
}

/// Measured throughput at each number of connections, and the fitted laws.
fn of_scaling(number: usize, one: &Scaling) -> ChartPlan {
    let mut places: Vec<f64> = one.levels.iter().map(|level| level.0).collect();
    places.extend(one.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)));
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut lines = vec![ChartLine {
        ends: Vec::new(),
        name: "measured".into(),
        values: at_places(&places, &one.levels),
    }];
    lines.extend(one.curves.iter().map(|curve| ChartLine {
        ends: Vec::new(),
        name: format!("{} (AICc {})", curve.law, decimal(curve.aicc)),
        values: at_places(&places, &curve.points),
    }));
    let best = one.curves.first().map_or("no law", |curve| curve.law);
    let peak = match &one.peak {
        Ok((at, (low, high))) => {
            format!(
                "Throughput is highest at {} connections (95 %: {} to {}).",
                count(*at),
                count(*low),
                count(*high)
            )
        }
        Err(why) => format!("No peak is claimed: {why}."),
    };
    let ends = (places.first().copied().unwrap_or(1.0), places.last().copied().unwrap_or(2.0));
    ChartPlan {
        id: format!("scaling-{number}"),
        title: format!("Operations a second over connections: {}", one.of),
        unit: "1/s",
        across: XAxis {
            name: "connections",
            places,
            ticks: ticks(Scale::between_ratios(ends.0, ends.1)),
            is_log: true,
        },
        lines,
        is_log: false,
        readings: one.levels.len(),
        window: "a load for each number of connections".to_owned(),
        how: format!(
            "Laws of scaling fitted on logarithms; the corrected criterion of Akaike chooses, lower is better: {best}. {peak}"
        ),
        bands: Vec::new(),
    }
}

/// The mean of the points at each place; between its points a line has gaps, across which it is drawn straight.
fn at_places(places: &[f64], points: &[(f64, f64)]) -> Vec<Option<f64>> {
    let at = |place: &f64| {
        let here: Vec<f64> =
            points.iter().filter(|(x, _)| (x - place).abs() < 1e-9).map(|(_, y)| *y).collect();
        if !here.is_empty() {
            return Some(here.iter().sum::<f64>() / here.len() as f64);
        }
        let before = points.iter().rfind(|(x, _)| x < place)?;
        let behind = points.iter().find(|(x, _)| x > place)?;
        Some(before.1 + (behind.1 - before.1) * (place - before.0) / (behind.0 - before.0))
    };
    places.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use fathom_record::pictures::cycles::CycleMeasure;
    use fathom_record::pictures::scaling::ScalingCurve;

    use super::super::chart::Chart;
    use super::*;

    #[test]
    fn each_picture_is_a_chart_with_its_data() {
        let cycles = SuperposedCycles {
            member: "0".into(),
            event: "checkpoint",
            cycles: 10,
            period_s: 60.0,
            offsets_s: vec![-0.5, 0.5],
            measures: vec![CycleMeasure {
                id: "latency",
                name: "Mean latency at the client".into(),
                unit: "µs",
                readings: 20,
                mean: vec![Some(100.0), Some(300.0)],
                low: vec![Some(90.0), Some(200.0)],
                high: vec![Some(110.0), None],
            }],
        };
        let rhythm = LatencyRhythm {
            member: String::new(),
            of: "latency at the client",
            seconds: 600,
            begin_s: 1.0,
            by_period: vec![(5.0, 0.2), (60.0, 12.0)],
            band: 3.0,
            by_lag: vec![(1.0, 0.5), (2.0, -0.1)],
            lag_band: vec![0.1, 0.1],
        };
        let scaling = Scaling {
            of: "lab under a".into(),
            levels: vec![(1.0, 100.0), (4.0, 300.0), (4.0, 320.0)],
            curves: vec![ScalingCurve { law: "cap", aicc: -3.0, points: vec![(1.0, 99.0), (4.0, 312.0)] }],
            peak: Err("too few levels".into()),
        };
        let pictures = Pictures {
            cycles: vec![cycles],
            rhythms: vec![rhythm],
            scalings: vec![scaling],
            ..Pictures::default()
        };
        let charts: Vec<Chart> = plans(&pictures).into_iter().filter_map(ChartPlan::draw).collect();
        let ids: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids, ["cycle-latency-0", "rhythm", "echo", "scaling-0"]);
        assert!(charts[0].csv.ends_with("-0.5,100,90,110\n0.5,300,200,"), "{}", charts[0].csv);
        assert!(charts[1].csv.ends_with("5,0.2,3\n60,12,3"), "{}", charts[1].csv);
        assert!(charts[3].csv.ends_with("1,100,99\n4,310,312") && charts[3].how.contains("too few levels"));
        assert!(charts.iter().all(|chart| chart.kind == "still"));
    }
}
