//! What a trial measured, as its run folders say it.

use fathom_explain::{Evidence, judge, member_rows};
use fathom_record::Run;
use fathom_record::amplification::Amplification;
use fathom_record::disk::{Entry, Step};
use fathom_record::load::Load;
use fathom_record::members::MemberRow;

use fathom_errors::Result;

/// Everything that metrics are read from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// The loading of the records.
    pub load: Option<Load>,
    /// The run.
    pub run: Option<Load>,
    /// The probe.
    pub step: Option<Step>,
    /// What was written for each byte of a user, by server.
    pub amplifications: Vec<Amplification>,
    /// What each server asked of its devices, for each operation of the run.
    pub members: Vec<MemberRow>,
    /// Processor time of all servers during the run, in microseconds.
    pub servers_cpu_us: Option<f64>,
}

/// The load in a run folder.
pub(super) fn load_of(run: &Run) -> Result<Option<Load>> {
    let mut loads = run.results()?.into_iter().filter_map(|entry| match entry {
        Entry::Load(load) => Some(load),
        _ => None,
    });
    Ok(loads.next_back())
}

/// What a run folder says of a run that was watched.
pub(super) fn of_run(run: &Run) -> Result<Figures> {
    let evidence = Evidence::of(run)?;
    let amplifications = judge(&evidence).amplifications;
    let members = member_rows(&evidence);
    let cpu = evidence
        .members()
        .iter()
        .filter_map(|member| evidence.sum(&format!("server.{member}.process.cpu_us")))
        .reduce(|a, b| a + b);
    Ok(Figures { run: load_of(run)?, amplifications, members, servers_cpu_us: cpu, ..Figures::default() })
}

impl Figures {
    /// The sum over servers of a figure for each operation; devices that servers share count once.
    pub(crate) fn per_operation(&self, of: fn(&MemberRow) -> Option<f64>) -> Option<f64> {
        self.summed(of)
    }

    /// Reads and writes of all devices for each operation of the run.
    pub(crate) fn device_ios_per_operation(&self) -> Option<f64> {
        let per_s = self.run.as_ref()?.per_s;
        let ios =
            self.summed(|row| Some(row.device_reads_per_s.unwrap_or(0.0) + row.device_writes_per_s?))?;
        (per_s > 0.0).then(|| ios / per_s)
    }

    /// Processor time of all servers for each operation of the run, in microseconds.
    pub(crate) fn cpu_per_operation(&self) -> Option<f64> {
        let operations = self.run.as_ref()?.operations;
        (operations > 0).then_some(self.servers_cpu_us? / operations as f64)
    }

    /// The worst of a device's mean times in microseconds, in nanoseconds.
    pub(crate) fn slowest_member(&self, of: fn(&MemberRow) -> Option<f64>) -> Option<f64> {
        self.members.iter().filter_map(of).reduce(f64::max).map(|us| us * 1e3)
    }

    fn summed(&self, of: impl Fn(&MemberRow) -> Option<f64>) -> Option<f64> {
        let mut counted: Vec<&String> = Vec::new();
        let mut sum = None;
        for row in &self.members {
            if row.shared_devices.iter().any(|device| counted.contains(&device)) {
                continue;
            }
            counted.extend(&row.shared_devices);
            sum = of(row).map(|value| sum.unwrap_or(0.0) + value).or(sum);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(written: f64, shared: &[&str]) -> MemberRow {
        MemberRow {
            written_per_operation_bytes: Some(written),
            shared_devices: shared.iter().map(|name| (*name).to_owned()).collect(),
            ..MemberRow::default()
        }
    }

    #[test]
    fn a_shared_device_counts_once() {
        let members = vec![row(10.0, &["vda"]), row(10.0, &["vda"]), row(4.0, &[]), MemberRow::default()];
        let figures = Figures { members, ..Figures::default() };
        assert_eq!(figures.per_operation(|row| row.written_per_operation_bytes), Some(14.0));
        assert_eq!(figures.per_operation(|row| row.read_per_operation_bytes), None);
    }
}
