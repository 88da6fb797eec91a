//! The input of a judgement: the series of a run, its environment, and its results.

use std::collections::BTreeMap;

use fathom_errors::Result;
use fathom_record::disk::Entry;
use fathom_record::{Run, SeriesSet};

/// A run, or the part of one that a live view has seen.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Every series by name (`fathom_record::catalog`).
    pub series: SeriesSet,
    /// Facts of the manifest: `server.0`, `server.0.engine`, `server.0.version`, `server.0.device`, the devices' caps.
    pub environment: BTreeMap<String, String>,
    /// The typed results: steps of the probe, loads.
    pub results: Vec<Entry>,
    /// The part that is judged, in nanoseconds since the run's start; warm-up and cool-down lie outside.
    pub window_ns: (u64, u64),
    pub seed: u64,
}

impl Evidence {
    /// All that a run folder holds, from its first reading to its last.
    ///
    /// # Errors
    /// When the folder's series or results cannot be read.
    pub fn from_run(run: &Run) -> Result<Evidence> {
        Evidence::with_results(run, run.results()?)
    }

    /// The same of a run whose results were read already.
    ///
    /// # Errors
    /// When the folder's series cannot be read.
    pub fn with_results(run: &Run, results: Vec<Entry>) -> Result<Evidence> {
        let series = run.series()?;
        let points =
            || series.iter().flat_map(|(_, series)| [series.points.first(), series.points.last()]).flatten();
        let begin_ns = points().map(|point| point.begin_ns).min().unwrap_or(0);
        let end_ns = points().map(|point| point.end_ns).max().unwrap_or(0);
        Ok(Evidence {
            results,
            environment: run.manifest.environment.clone(),
            window_ns: (begin_ns, end_ns),
            seed: run.manifest.seed,
            series,
        })
    }

    /// The numbers of the servers in the run, in order.
    pub fn members(&self) -> Vec<String> {
        self.series.words_after("server.").into_iter().map(str::to_owned).collect()
    }

    /// The sum of a [`fathom_record::catalog::Additivity::Sum`] series over the window, or `None` if it was not read.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let series = self.series.get(name)?;
        Some(series.within(self.window_ns.0, self.window_ns.1).iter().map(|point| point.value).sum())
    }

    /// The sum of a series over another window; `None` if nothing was read in it.
    pub(crate) fn sum_within(&self, name: &str, (begin_ns, end_ns): (u64, u64)) -> Option<f64> {
        let points = self.series.get(name)?.within(begin_ns, end_ns);
        (!points.is_empty()).then(|| points.iter().map(|point| point.value).sum())
    }

    /// The seconds of the window in which a series was read; `None` if it was not.
    pub(crate) fn read_s(&self, name: &str) -> Option<f64> {
        let points = self.series.get(name)?.within(self.window_ns.0, self.window_ns.1);
        let seconds: f64 =
            points.iter().map(|point| point.end_ns.saturating_sub(point.begin_ns) as f64 / 1e9).sum();
        (seconds > 0.0).then_some(seconds)
    }

    /// The sum of a series for each second in which it was read, because samplers do not read at the same moments.
    pub(crate) fn rate_per_s(&self, name: &str) -> Option<f64> {
        Some(self.sum(name)? / self.read_s(name)?)
    }

    /// A fact of the manifest. A sampler withdraws its fact by an empty text.
    pub(crate) fn fact(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The mean of a gauge over the window, or `None` if it was not read.
    pub fn mean(&self, name: &str) -> Option<f64> {
        let points = self.series.get(name)?.within(self.window_ns.0, self.window_ns.1);
        (!points.is_empty())
            .then(|| points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64)
    }

    /// The share of the processors' time in which nothing ran, in percent. A processor that waits for a device is free.
    pub(crate) fn idle_pct(&self) -> Option<f64> {
        let idle_pct = self.mean("host.cpu.idle_pct")?;
        Some(idle_pct + self.mean("host.cpu.iowait_pct").unwrap_or(0.0))
    }

    /// The evidence of one server alone, over the time in which it was watched.
    #[must_use]
    pub(crate) fn of_server(&self, member: &str) -> Evidence {
        let own = format!("server.{member}.");
        let mut series = SeriesSet::default();
        for (name, one) in
            self.series.iter().filter(|(name, _)| !name.starts_with("server.") || name.starts_with(&own))
        {
            one.points.iter().for_each(|point| series.add(name, &one.unit, *point));
        }
        let watched = || series.starting(&own).flat_map(|(_, one)| &one.points);
        let begin_ns = watched().map(|point| point.begin_ns).min().unwrap_or(self.window_ns.0);
        let end_ns = watched().map(|point| point.end_ns).max().unwrap_or(self.window_ns.1);
        Evidence { series, window_ns: (begin_ns, end_ns), ..self.clone() }
    }

    /// The same evidence over another window.
    #[must_use]
    pub fn over(&self, window_ns: (u64, u64)) -> Evidence {
        Evidence { window_ns, ..self.clone() }
    }
}
