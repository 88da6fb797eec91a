//! The devices under a server's data, by the facts of a run: those that the file system is on (`server.0.device`), and those at
//! the bottom of their stack (`server.0.device.leaves`), each with commas between.

use std::collections::BTreeMap;

use fathom_record::Point;

use crate::Evidence;
use crate::client::points;

/// The devices at the bottom under a server's data: those that the environment names, else the one device that was watched.
/// Empty if several were watched and nothing says which are stacked on which: their figures must not be added.
pub(crate) fn leaves(evidence: &Evidence, member: &str) -> Vec<String> {
    // A router stores nothing.
    if crate::member::is_router(evidence, member) {
        return Vec::new();
    }
    let named = [".leaves", ""].map(|rest| named(evidence, &format!("server.{member}.device{rest}")));
    named.into_iter().find(|names| !names.is_empty()).unwrap_or_else(|| {
        let mut watched: Vec<String> = Vec::new();
        for (name, _) in evidence.series.starting("device.") {
            if let Some(device) = name.strip_suffix(".reads").or_else(|| name.strip_suffix(".in_flight"))
                && !watched.iter().any(|one| one == device)
            {
                watched.push(device.to_owned());
            }
        }
        if watched.len() == 1 { watched } else { Vec::new() }
    })
}

/// The devices that a server's file system is on, as the environment names them. If the kernel did not count the requests of one of
/// them, as of the head of several NVMe paths, those at the bottom: a device without readings was not idle.
pub(crate) fn tops(evidence: &Evidence, member: &str) -> Vec<String> {
    let tops = named(evidence, &format!("server.{member}.device"));
    let was_read = |device: &String| {
        [".reads", ".writes", ".written_bytes", ".in_flight"]
            .iter()
            .any(|counter| evidence.series.get(&format!("device.{device}{counter}")).is_some())
    };
    let bottom = named(evidence, &format!("server.{member}.device.leaves"));
    if tops.iter().all(was_read) || bottom.is_empty() { tops } else { bottom }
}

/// The requests in flight at the devices that a server's file system is on, of the moments at which all were read.
pub(crate) fn in_flight(evidence: &Evidence, member: &str) -> Vec<Point> {
    let devices = tops(evidence, member);
    let mut sums: BTreeMap<(u64, u64), (usize, f64)> = BTreeMap::new();
    for device in &devices {
        for point in points(evidence, &format!("device.{device}.in_flight")) {
            let (count, sum) = sums.entry((point.end_ns, point.begin_ns)).or_default();
            *count += 1;
            *sum += point.value;
        }
    }
    let whole = sums.into_iter().filter(|(_, (count, _))| *count == devices.len());
    whole.map(|((end_ns, begin_ns), (_, value))| Point { begin_ns, end_ns, value }).collect()
}

fn named(evidence: &Evidence, fact: &str) -> Vec<String> {
    let text = evidence.environment.get(fact).map(String::as_str).unwrap_or_default();
    let names = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|name| !name.is_empty());
    names.map(|name| name.trim_start_matches("/dev/").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use fathom_record::SeriesSet;

    use super::*;

    fn evidence(facts: &[(&str, &str)], points: &[(&str, u64, f64)]) -> Evidence {
        let mut series = SeriesSet::default();
        for (name, end_ns, value) in points {
            series.add(name, "1", Point { begin_ns: end_ns - 1, end_ns: *end_ns, value: *value });
        }
        let environment = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Evidence { series, environment: environment.collect(), window_ns: (0, 10), ..Evidence::default() }
    }

    #[test]
    fn a_device_that_the_kernel_did_not_count_is_replaced_by_what_it_stands_on() {
        let facts = [("server.0.device", "nvme0n1p1"), ("server.0.device.leaves", "nvme0c0n1,nvme0c1n1")];
        let paths = [("device.nvme0c0n1.reads", 1, 5.0), ("device.nvme0c1n1.reads", 1, 5.0)];
        let seen = evidence(&facts, &paths);
        assert_eq!(tops(&seen, "0"), ["nvme0c0n1", "nvme0c1n1"]);
        assert_eq!(leaves(&seen, "0"), tops(&seen, "0"));
        let counted = evidence(&facts, &[("device.nvme0n1p1.reads", 1, 0.0), paths[0], paths[1]]);
        assert_eq!(tops(&counted, "0"), ["nvme0n1p1"], "zero was read");
        assert_eq!(
            tops(&evidence(&[], &paths), "0"),
            Vec::<String>::new(),
            "nothing says that it is this server's"
        );
    }

    #[test]
    fn requests_in_flight_are_those_of_all_devices() {
        let facts = [("server.0.device", "sda,sdb"), ("server.0.device.leaves", "sda,sdb")];
        let name = ["device.sda.in_flight", "device.sdb.in_flight"];
        let read = evidence(&facts, &[(name[0], 1, 2.0), (name[1], 1, 3.0), (name[0], 2, 7.0)]);
        assert_eq!(in_flight(&read, "0"), [Point { begin_ns: 0, end_ns: 1, value: 5.0 }]);
    }
}
