//! What of a study's own words cannot be: names, kinds of factors, numbers out of their range.
//!
//! Each is refused with its line. What contradicts itself only in some cell is looked for after this ([`crate::contradictions`]).

use fathom_errors::{Error, Result};

use super::{Measures, Study, Varied};
use crate::Place;

/// More cells than this are a mistake.
const MOST_CELLS: usize = 512;

impl Study {
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<()> {
        self.check_name()?;
        self.check_places()?;
        self.check_levels()?;
        self.check_size()?;
        crate::contradictions::check(self)
    }

    fn check_name(&self) -> Result<()> {
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() <= 64
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        if !is_name(&self.name) {
            let what = format!(
                "the name '{}' must be of letters, digits, '-', '_' and '.', 64 at most{}",
                self.name,
                self.lines.at("name")
            );
            return Err(Error::usage(what));
        }
        Ok(())
    }

    /// A probe has no servers, and a load no probe.
    fn check_places(&self) -> Result<()> {
        let place = match self.measures {
            Measures::Load => Place::Probe,
            Measures::Probe => Place::Load,
        };
        let named = self
            .factors
            .iter()
            .map(|varied| varied.factor)
            .chain(self.settings.iter().map(|(factor, _)| *factor));
        let levels =
            self.factors.iter().flat_map(|varied| varied.levels.iter().map(|level| (varied.factor, level)));
        let inner = levels
            .filter(|(factor, _)| factor.place == Place::Any)
            .filter_map(|(_, level)| crate::factors::parts(&level.value).ok());
        let inner = inner.flatten().map(|(factor, _)| factor).collect::<Vec<_>>();
        for factor in named.chain(inner) {
            let strange =
                factor.place == place || (self.measures == Measures::Probe && factor.place == Place::Servers);
            if strange {
                let what = format!(
                    "'{}' means nothing in a study that measures a {}",
                    factor.name,
                    if self.measures == Measures::Load { "load" } else { "probe" }
                );
                return Err(self.refuse(factor.name, &what));
            }
        }
        Ok(())
    }

    fn check_levels(&self) -> Result<()> {
        for varied in &self.factors {
            if varied.levels.is_empty() {
                return Err(self.refuse(
                    varied.factor.name,
                    &format!("the factor '{}' has no level", varied.factor.name),
                ));
            }
            if self.settings.iter().any(|(factor, _)| std::ptr::eq(*factor, varied.factor)) {
                return Err(self.refuse(
                    varied.factor.name,
                    &format!("'{}' is both a factor and a setting", varied.factor.name),
                ));
            }
        }
        let across = self.across.and_then(|at| self.factors.get(at));
        let counts = |varied: &Varied| {
            varied.levels.iter().map(|level| level.value.as_f64()).collect::<Option<Vec<_>>>()
        };
        if let Some(varied) = across
            && !counts(varied).is_some_and(|counts| counts.is_sorted())
        {
            let name = varied.factor.name;
            return Err(self.refuse(
                name,
                &format!("the levels of '{name}', across which is compared, must be numbers that rise"),
            ));
        }
        Ok(())
    }

    fn check_size(&self) -> Result<()> {
        let cells = self.shape().iter().try_fold(1usize, |product, levels| product.checked_mul(*levels));
        if self.factors.is_empty() || cells.is_none_or(|cells| cells > MOST_CELLS) {
            let what = format!(
                "a study has 1 to {MOST_CELLS} combinations of levels, and this one has {}",
                cells.map_or_else(|| "far more".to_owned(), |cells| cells.to_string())
            );
            return Err(self.refuse("factors", &what));
        }
        if !(1..=200).contains(&self.design.blocks) {
            return Err(self.refuse("blocks", &format!("blocks are 1 to 200, not {}", self.design.blocks)));
        }
        if ![1, 3].contains(&self.design.looks) {
            return Err(self.refuse("looks", &format!("looks are 1 or 3, not {}", self.design.looks)));
        }
        if !(self.design.margin > 0.0 && self.design.margin < 1.0) {
            return Err(self.refuse(
                "margin",
                &format!("a margin lies between 0 and 1, {} does not", self.design.margin),
            ));
        }
        if !self.metrics.iter().any(|(_, primary)| *primary) {
            return Err(self.refuse("metrics", "a study needs a primary metric"));
        }
        for (metric, _) in &self.metrics {
            if metric.measures != self.measures {
                return Err(self
                    .refuse("metrics", &format!("'{}' is not measured by this kind of study", metric.name)));
            }
        }
        Ok(())
    }
}
