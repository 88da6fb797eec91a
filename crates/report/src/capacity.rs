//! The capacity of a server as text: a row for each kind of load, and the verdict in sentences.

use fathom_record::capacity::{Capacity, CapacityLimit, CapacityLoad, NeedAnswer};
use fathom_stats::Slo;
use fathom_units::{Bytes, Nanos, count, decimal};

use crate::terminal_text::wrap;

/// A row of the table of capacities; `header` puts the heads of the columns above.
pub(crate) fn capacity_lines(capacity: &Capacity, header: bool, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if header {
        let (rate, read, broken) = ("ops/s", "reads/s", "breaks at");
        let time = quantile(capacity);
        lines.push(String::new());
        lines.push(format!("{:<20}{rate:>9}{read:>9}{broken:>11}{time:>9}  limit", capacity.server));
    }
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), count);
    let time = capacity.quantile_ns.filter(|_| capacity.rate_per_s.is_some());
    lines.push(format!(
        "  {:<18}{:>9}{:>9}{:>11}{:>9}  {}",
        capacity.load.name(),
        rate(capacity.rate_per_s),
        rate(capacity.device_reads_per_s()),
        rate(capacity.broken_per_s),
        time.map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string()),
        if capacity.withheld.is_some() { "cannot tell" } else { capacity.limit.words() }
    ));
    if let Some(withheld) = &capacity.withheld {
        lines.extend(wrap(withheld, "    ", "    ", width));
    }
    lines
}

/// Whether the capacities of each server cover a need, and the assumptions of these answers, each once.
pub fn need_lines(answers: &[&NeedAnswer], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in need_paragraphs(answers) {
        lines.push(String::new());
        lines.extend(wrap(&paragraph, "", "", width));
    }
    let mut assumptions: Vec<&str> = Vec::new();
    for assumption in answers.iter().flat_map(|answer| &answer.assumptions) {
        if !assumptions.contains(&assumption.as_str()) {
            assumptions.push(assumption);
        }
    }
    for assumption in assumptions {
        lines.extend(wrap(&format!("assumed: {assumption}"), "  ", "    ", width));
    }
    lines
}

/// An answer for each server. If the first sentence of all is the same, one paragraph has it once and the rest by server.
fn need_paragraphs(answers: &[&NeedAnswer]) -> Vec<String> {
    let named = |server: &str, text: &str| format!("{server}: {text}");
    let [first, _, ..] = answers else {
        return answers.iter().map(|answer| answer.sentence.clone()).collect();
    };
    let common = first.sentence.split_inclusive(". ").next().filter(|start| start.ends_with(". "));
    let rests: Option<Vec<String>> = common.and_then(|start| {
        let rest = |answer: &&NeedAnswer| Some(named(&answer.server, answer.sentence.strip_prefix(start)?));
        answers.iter().map(rest).collect()
    });
    match (common, rests) {
        (Some(start), Some(rests)) => vec![format!("{start}{}", rests.join(" "))],
        _ => answers.iter().map(|answer| named(&answer.server, &answer.sentence)).collect(),
    }
}

fn quantile(capacity: &Capacity) -> &str {
    capacity.objective.split_once('<').map_or("", |(quantile, _)| quantile.trim())
}

fn objective(capacity: &Capacity) -> String {
    capacity.objective.parse::<Slo>().map_or_else(|_| capacity.objective.clone(), |slo| slo.words())
}

/// A rate to two significant figures: a search is no more precise.
pub(crate) fn about(rate: f64) -> String {
    let magnitude = 10f64.powf(rate.max(1.0).log10().floor() - 1.0).max(1.0);
    count((rate / magnitude).round() * magnitude)
}

/// The verdict on each server in paragraphs: its capacities with their limits and checkpoints, then each capacity that is unknown. Of several
/// servers each is named.
pub fn capacity_sentences(capacities: &[&Capacity]) -> Vec<String> {
    let servers: Vec<&[&Capacity]> = capacities.chunk_by(|one, other| one.server == other.server).collect();
    let has_several = servers.len() > 1;
    let of_server = |of_server: &[&Capacity]| {
        let paragraphs = server_sentences(of_server);
        let name = of_server.first().map_or("", |one| one.server.as_str());
        let named = move |text: String| if has_several { format!("{name}: {text}") } else { text };
        paragraphs.into_iter().map(named).collect::<Vec<_>>()
    };
    servers.into_iter().flat_map(of_server).collect()
}

fn server_sentences(capacities: &[&Capacity]) -> Vec<String> {
    let held: Vec<&Capacity> = capacities.iter().copied().filter(|one| one.rate_per_s.is_some()).collect();
    let mut paragraphs = Vec::new();
    if let Some(first) = held.first() {
        let mut words = carried(first, &held);
        words.extend(held.iter().filter_map(|one| checkpoint_sentence(one)));
        if held.iter().any(|one| one.is_counted_by_process) {
            words.push("The device is not on this host; the server's own reads were counted.".to_owned());
        }
        paragraphs.push(words.join(" "));
    }
    for one in capacities {
        if let Some(withheld) = &one.withheld {
            paragraphs
                .push(format!("The capacity for {} cannot be determined. {withheld}", one.load.words()));
        } else if one.rate_per_s.is_none() {
            let tried =
                one.broken_per_s.map_or_else(String::new, |rate| format!(", even {} a second", about(rate)));
            paragraphs.push(format!(
                "No rate of {} holds {}{tried}. {}",
                one.load.words(),
                objective(one),
                one.limit_reason
            ));
        }
    }
    paragraphs
}

/// The capacity in words: the rate that held, or both it and the next rate tried, if that is far above it.
pub(crate) fn stated(capacity: &Capacity) -> Option<String> {
    let (lower, upper) = capacity.stated_per_s()?;
    Some(match capacity.broken_per_s {
        Some(_) if upper > lower => format!("between {} and {}", about(lower), about(upper)),
        Some(_) => format!("about {}", about(lower)),
        None => format!("at least {}", about(lower)),
    })
}

/// The rates in one sentence, and the limits of these.
fn carried(first: &Capacity, held: &[&Capacity]) -> Vec<String> {
    let rates: Vec<String> = held
        .iter()
        .enumerate()
        .filter_map(|(number, one)| {
            let rate = stated(one)?;
            // One "about" covers all rates.
            let rate = if number > 0 { rate.trim_start_matches("about ") } else { &rate };
            Some(format!("{rate} {}", one.load.words()))
        })
        .collect();
    let is_storage = held.iter().any(|one| one.limit.is_storage());
    let subject = if is_storage { "This disk" } else { "This host" };
    let mut sentences =
        vec![format!("{subject} carries {} a second at {}.", rates.join(", or "), objective(first))];
    let mut limits: Vec<(CapacityLimit, Vec<CapacityLoad>)> = Vec::new();
    for one in held {
        match limits.iter_mut().find(|(limit, _)| *limit == one.limit) {
            Some((_, loads)) => loads.push(one.load),
            None => limits.push((one.limit, vec![one.load])),
        }
    }
    match limits.as_slice() {
        [(CapacityLimit::Processors, _)] => sentences.push(
            "Beyond that the processors, which the server and the load share, are the limit: the disk carries more.".to_owned(),
        ),
        [(CapacityLimit::Unknown, _)] => {
            sentences.push(format!("What limits it is unknown. {}", first.limit_reason));
        }
        [(limit, _)] => sentences.push(format!("Beyond that {} is the limit.", limit.words())),
        several => {
            let words: Vec<String> = several
                .iter()
                .map(|(limit, loads)| {
                    let loads: Vec<String> = loads.iter().map(|load| short(*load).to_owned()).collect();
                    match limit {
                        CapacityLimit::Unknown => format!("something unknown ({})", listed(&loads)),
                        limit => format!("{} ({})", limit.words(), listed(&loads)),
                    }
                })
                .collect();
            sentences.push(format!("Beyond that the limits are {}.", listed(&words)));
        }
    }
    // A cap is named with its figures, and so are the processors.
    let mut reasons: Vec<&str> = Vec::new();
    let processors = held.iter().find(|one| one.limit == CapacityLimit::Processors);
    for one in held.iter().filter(|one| one.limit == CapacityLimit::Cap).chain(processors) {
        if !reasons.contains(&one.limit_reason.as_str()) {
            reasons.push(&one.limit_reason);
        }
    }
    sentences.extend(reasons.into_iter().map(|reason| format!("{}.", reason.trim_end_matches('.'))));
    sentences
}

fn short(load: CapacityLoad) -> &'static str {
    match load {
        CapacityLoad::Reads => "reads",
        CapacityLoad::JournaledWrites => "writes",
        CapacityLoad::Mix => "the mix",
    }
}

fn checkpoint_sentence(capacity: &Capacity) -> Option<String> {
    let cost = capacity.checkpoints.as_ref().filter(|_| capacity.load == CapacityLoad::Mix)?;
    let time = capacity.quantile_ns.map(|ns| Nanos(ns).to_string())?;
    Some(format!(
        "A checkpoint of {} took {} s; {} over whole checkpoint cycles was {time}.",
        Bytes(cost.bytes as u64),
        decimal(cost.seconds),
        quantile(capacity)
    ))
}

/// `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::capacity::CheckpointCost;

    use super::*;

    fn capacity(load: CapacityLoad, rate_per_s: f64, limit: CapacityLimit) -> Capacity {
        Capacity {
            server: "Server on WiredTiger".to_owned(),
            load,
            objective: "p99<10ms".to_owned(),
            rate_per_s: Some(rate_per_s),
            broken_per_s: Some(rate_per_s * 1.05),
            quantile_ns: Some(7_900_000),
            device_reads_per_operation: (load == CapacityLoad::Reads).then_some(0.75),
            device_reads_per_page: Some(1.0),
            is_counted_by_process: false,
            limit,
            limit_reason: "Operations wait for it during 80 % of their time in the server.".to_owned(),
            saturation: None,
            checkpoints: None,
            withheld: None,
        }
    }

    #[test]
    fn rates_limits_and_checkpoints_are_one_paragraph() {
        let reads = capacity(CapacityLoad::Reads, 9312.0, CapacityLimit::Disk);
        let writes = capacity(CapacityLoad::JournaledWrites, 2149.0, CapacityLimit::JournalSync);
        let mut mix = capacity(CapacityLoad::Mix, 1840.0, CapacityLimit::Disk);
        mix.checkpoints = Some(CheckpointCost { count: 2, bytes: f64::from(48 << 20), seconds: 0.61 });
        let [sentences] = capacity_sentences(&[&reads, &writes, &mix]).try_into().unwrap();
        assert_eq!(
            sentences,
            "This disk carries about 7,000 point reads past memory, or 2,100 journaled writes, or 1,800 mixed operations \
             (half reads, half writes) a second at p99 below 10 ms. Beyond that the limits are the disk (reads and the mix) and the journal's \
             sync (writes). A checkpoint of 48 MiB took 0.61 s; p99 over whole checkpoint cycles was 7.90 ms."
        );
        let rows =
            [&reads, &writes, &mix].map(|one| capacity_lines(one, one.load == CapacityLoad::Reads, 80));
        assert_eq!(
            rows.concat().join("\n"),
            "\n\
             Server on WiredTiger    ops/s  reads/s  breaks at      p99  limit\n\
             \x20 reads past memory     9,312    6,984      9,778  7.90 ms  the disk\n\
             \x20 journaled writes      2,149        -      2,256  7.90 ms  the journal's sync\n\
             \x20 reads and writes      1,840        -      1,932  7.90 ms  the disk"
        );
    }

    #[test]
    fn a_host_that_is_busy_before_its_disk_is_said_to_be() {
        let reads = capacity(CapacityLoad::Reads, 12_400.0, CapacityLimit::Processors);
        let [sentence] = capacity_sentences(&[&reads]).try_into().unwrap();
        assert!(sentence.starts_with("This host carries about 9,300 point reads"), "{sentence}");
        assert!(sentence.contains("the disk carries more. Operations wait"), "{sentence}");
    }

    #[test]
    fn reads_that_the_process_counted_are_said_to_be() {
        let mut reads = capacity(CapacityLoad::Reads, 400.0, CapacityLimit::Disk);
        reads.is_counted_by_process = true;
        let [sentence] = capacity_sentences(&[&reads]).try_into().unwrap();
        assert!(
            sentence.ends_with("The device is not on this host; the server's own reads were counted."),
            "{sentence}"
        );
    }

    #[test]
    fn a_wide_bracket_is_stated_whole() {
        let mut reads = capacity(CapacityLoad::Reads, 8000.0, CapacityLimit::Disk);
        let mut writes = capacity(CapacityLoad::JournaledWrites, 2000.0, CapacityLimit::Disk);
        (reads.broken_per_s, writes.broken_per_s) = (Some(10_600.0), None);
        let [sentence] = capacity_sentences(&[&reads, &writes]).try_into().unwrap();
        let claim = "This disk carries between 6,000 and 8,000 point reads past memory, or at least 2,000 journaled writes a second";
        assert!(sentence.starts_with(claim), "{sentence}");
    }

    #[test]
    fn no_rate_and_no_answer_are_told_apart() {
        let mut none = capacity(CapacityLoad::Reads, 0.0, CapacityLimit::Cap);
        (none.rate_per_s, none.broken_per_s) = (None, Some(88.0));
        let [sentence] = capacity_sentences(&[&none]).try_into().unwrap();
        assert!(sentence.starts_with("No rate of point reads past memory holds p99 below 10 ms, even 88"));
        none.withheld = Some("Other programs take the processors.".to_owned());
        let [sentence] = capacity_sentences(&[&none]).try_into().unwrap();
        assert!(sentence.contains("cannot be determined. Other programs"), "{sentence}");
        let row = capacity_lines(&none, false, 80).join("\n");
        assert!(row.contains("cannot tell") && row.contains("Other programs"), "{row}");
    }

    #[test]
    fn a_rate_has_two_figures() {
        assert_eq!([7.2, 88.4, 191.0, 9312.0, 12_400.0].map(about), ["7", "88", "190", "9,300", "12,000"]);
    }
}
