//! The settings of a `CoreWorkload`, read from its properties once, with a sentence for each invalid one.

use std::path::Path;

use fathom_errors::Error;
use fathom_units::count;

use super::values::MAX_BYTES;
use super::{Lengths, Mix, Operation, Values};
use crate::documents::FieldNames;
use crate::generators::{Distribution, Records};
use crate::keys::KeyNames;
use crate::properties::{Properties, default_number};

/// The class names of this workload, as old and new files spell them.
const CLASSES: [&str; 3] =
    ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload", "CoreWorkload"];
/// The most fields of a record; more are taken for a typing error, as the documents would be refused.
const MAX_FIELDS: u64 = 100_000;
/// The size of the key space if `recordcount` is 0, as in YCSB.
const UNBOUNDED_KEYS: u64 = i32::MAX as u64;

/// Whether records are loaded or operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `load`: records are inserted.
    Load,
    /// `run`: operations are drawn from the mix.
    Run,
}

/// The workload of a load or a run.
#[derive(Clone, Debug)]
pub struct CoreWorkload {
    /// The phase: load or run.
    pub phase: Phase,
    /// The collection, from the property `table`.
    pub table: String,
    /// The names of the fields.
    pub fields: FieldNames,
    /// The rule by which numbers become keys.
    pub keys: KeyNames,
    /// The values of the fields.
    pub values: Values,
    /// `readallfields`: whole records are read rather than one field.
    pub read_all_fields: bool,
    /// `readallfieldsbyname`: all fields are named when all are read.
    pub read_by_name: bool,
    /// `writeallfields`: all fields are updated rather than one.
    pub write_all_fields: bool,
    /// The operations of a run.
    pub mix: Mix,
    /// The distribution of the operations over the records.
    pub distribution: Distribution,
    /// `zipfianconstant`, if it is not YCSB's 0.99 over its ten thousand million items.
    pub skew: Option<f64>,
    /// The number of records that a scan asks for.
    pub scan_lengths: Lengths,
    /// The records of this client, and of the table.
    pub records: Records,
}

impl CoreWorkload {
    /// Reads the properties; `operations` is the number of operations of a run, if it is known.
    ///
    /// # Errors
    /// `Kind::Usage` with one sentence for the first invalid property.
    pub fn from_properties(
        properties: &Properties,
        phase: Phase,
        operations: Option<u64>,
    ) -> Result<CoreWorkload, Error> {
        check_class(properties)?;
        let mix = Mix::from_properties(properties)?;
        let records = records(properties, phase, operations)?;
        let distribution = distribution(properties)?;
        if distribution == Distribution::Zipfian && phase == Phase::Run && operations.is_none() {
            let what = "requestdistribution=zipfian needs operationcount, which sets the range it draws from";
            return Err(
                Error::usage(what).advise("give -p operationcount=N (it may be 0 with maxexecutiontime)")
            );
        }
        let skew = properties.number("zipfianconstant")?;
        if let Some(skew) = skew.filter(|skew| !(0.0..1.0).contains(skew) || *skew == 0.0) {
            return Err(Error::usage(format!("zipfianconstant must be above 0 and below 1, not {skew}")));
        }
        Ok(CoreWorkload {
            phase,
            table: properties.text("table").unwrap_or("usertable").to_owned(),
            fields: fields(properties)?,
            keys: keys(properties)?,
            values: values(properties)?,
            read_all_fields: properties.truth("readallfields", true),
            read_by_name: properties.truth("readallfieldsbyname", false),
            write_all_fields: properties.truth("writeallfields", false),
            mix,
            distribution,
            skew,
            scan_lengths: scan_lengths(properties)?,
            records,
        })
    }

    /// Appends the key under which a record is stored.
    pub fn append_key(&self, number: u64, out: &mut Vec<u8>) {
        self.keys.append(self.records.stored(number), out);
    }

    /// The key under which a record is stored.
    pub fn key_name(&self, number: u64) -> String {
        self.keys.name(self.records.stored(number))
    }

    /// A sentence where `zipfian` draws over another range than YCSB, because the forecast of `operationcount` makes no sense.
    pub fn narrowed_range(&self, properties: &Properties) -> Result<Option<String>, Error> {
        let operations = properties.whole("operationcount")?.unwrap_or(0);
        let expected = expected_keys(properties, operations)?;
        let is_drawn = self.phase == Phase::Run && self.distribution == Distribution::Zipfian;
        Ok((is_drawn && self.records.expected != expected).then(|| {
            format!(
                "operationcount={operations} forecasts {} new records, where {} exist: zipfian draws among those that exist, \
                 and its range doubles as they grow, whereas YCSB's has room for all from the start",
                count(expected as f64),
                count(self.records.table as f64)
            )
        }))
    }

    /// Whether the workload sends anything but reads.
    pub fn writes(&self) -> bool {
        let reads = self.mix.share(Operation::Read) + self.mix.share(Operation::Scan);
        self.phase == Phase::Load || reads < 1.0 - 1e-9
    }

    /// The number of records that `load` inserts; `None` if it has no end.
    pub fn load_count(&self, properties: &Properties) -> Result<Option<u64>, Error> {
        let given = properties.whole("insertcount")?;
        let endless = given.is_none() && properties.whole("recordcount")?.unwrap_or(0) == 0;
        Ok((!endless).then(|| given.unwrap_or(self.records.count)))
    }
}

fn check_class(properties: &Properties) -> Result<(), Error> {
    match properties.text("workload") {
        None => Err(Error::usage("no workload is named")
            .with_id("no-workload")
            .advise("give -P workloada, or -p workload=site.ycsb.workloads.CoreWorkload")),
        Some(class) if CLASSES.contains(&class) => Ok(()),
        Some(other) => Err(Error::usage(format!("the workload class {other} is not known"))
            .advise("CoreWorkload is; its old name com.yahoo.ycsb.workloads.CoreWorkload too")),
    }
}

fn bounded(properties: &Properties, name: &str, default: u64, most: u64) -> Result<u64, Error> {
    match properties.whole(name)? {
        Some(value) if value > most => Err(Error::usage(format!("{name}={value} is more than {most}"))),
        value => Ok(value.unwrap_or(default)),
    }
}

fn fields(properties: &Properties) -> Result<FieldNames, Error> {
    let count = bounded(properties, "fieldcount", 10, MAX_FIELDS)?;
    let prefix = properties.get("fieldnameprefix").map_or("field", str::trim);
    if prefix.contains('\0') {
        return Err(Error::usage("fieldnameprefix holds a NUL, which ends a name in BSON"));
    }
    Ok(FieldNames::new(prefix, usize::try_from(count).unwrap_or(usize::MAX)))
}

fn keys(properties: &Properties) -> Result<KeyNames, Error> {
    let digits = bounded(properties, "zeropadding", 1, 1000)?;
    Ok(KeyNames {
        prefix: properties.text("keyprefix").unwrap_or("user").to_owned(),
        digits: usize::try_from(digits).unwrap_or(1),
        // As in YCSB, no word at all is one that is not `hashed`.
        ordered: properties.get("insertorder").is_some_and(|order| order.trim() != "hashed"),
    })
}

fn records(properties: &Properties, phase: Phase, operations: Option<u64>) -> Result<Records, Error> {
    let table = match properties.whole("recordcount")?.unwrap_or(0) {
        0 => UNBOUNDED_KEYS,
        count => count,
    };
    let first = properties.whole("insertstart")?.unwrap_or(0);
    let count = match properties.whole("insertcount")? {
        Some(count) => count,
        None => table.checked_sub(first).ok_or_else(|| beyond(first, 0, table))?,
    };
    if first.checked_add(count).is_none_or(|end| end > table) {
        return Err(beyond(first, count, table));
    }
    let is_apart = phase == Phase::Run && properties.truth("insertresume", true);
    let is_timed = properties.number("maxexecutiontime")?.is_some_and(|seconds| seconds > 0.0);
    let expected = expected_keys(properties, operations.unwrap_or(0))?;
    Ok(Records { first, count, is_apart, ..Records::whole(table) }.expecting(expected, is_timed))
}

/// YCSB's `expectednewkeys`: the product in its order, with the proportion as it is given, cut once, to 32 bits where YCSB takes the
/// number of operations.
fn expected_keys(properties: &Properties, operations: u64) -> Result<u64, Error> {
    const MAX_YCSB_OPERATIONS: u64 = i32::MAX as u64;
    let proportion =
        properties.number("insertproportion")?.unwrap_or_else(|| default_number("insertproportion"));
    let keys = (operations as f64 * proportion * 2.0) as u64;
    Ok(if operations <= MAX_YCSB_OPERATIONS { keys.min(MAX_YCSB_OPERATIONS) } else { keys })
}

fn beyond(first: u64, count: u64, table: u64) -> Error {
    Error::usage(format!("insertstart={first} and insertcount={count} exceed recordcount={table}"))
        .advise("recordcount is the size of the whole table, of which each client loads a part")
}

fn distribution(properties: &Properties) -> Result<Distribution, Error> {
    let number = |name: &str| -> Result<f64, Error> {
        Ok(properties.number(name)?.unwrap_or_else(|| default_number(name)))
    };
    let share = |name: &str| match number(name)? {
        share if share <= 1.0 => Ok(share),
        _ => Err(Error::usage(format!("{name} is a share, from 0 to 1"))),
    };
    let exponential = Distribution::Exponential {
        percentile: number("exponential.percentile")?,
        share: share("exponential.frac")?,
    };
    let words = [
        ("uniform", Distribution::Uniform),
        ("zipfian", Distribution::Zipfian),
        ("latest", Distribution::Latest),
        (
            "hotspot",
            Distribution::Hotspot {
                data: share("hotspotdatafraction")?,
                operations: share("hotspotopnfraction")?,
            },
        ),
        ("exponential", exponential),
        ("sequential", Distribution::Sequential),
    ];
    let chosen = properties.choice("requestdistribution", &words)?.unwrap_or(Distribution::Uniform);
    match chosen {
        Distribution::Exponential { percentile, share }
            if percentile == 0.0 || percentile >= 100.0 || share == 0.0 =>
        {
            Err(Error::usage(
                "exponential.percentile must be between 0 and 100 and exponential.frac above 0; otherwise no key can be drawn",
            ))
        }
        chosen => Ok(chosen),
    }
}

fn values(properties: &Properties) -> Result<Values, Error> {
    let most = bounded(properties, "fieldlength", 100, MAX_BYTES)?;
    let least = bounded(properties, "minfieldlength", 1, MAX_BYTES)?;
    let word = properties.text("fieldlengthdistribution").unwrap_or("constant");
    let ordered = |lengths: Lengths| {
        if least <= most {
            Ok(lengths)
        } else {
            Err(Error::usage(format!("minfieldlength={least} is more than fieldlength={most}")))
        }
    };
    let lengths = match word {
        "constant" => Lengths::Constant(most),
        "uniform" => ordered(Lengths::Uniform { least, most })?,
        "zipfian" if least <= most => Lengths::zipfian(least, most),
        "zipfian" => ordered(Lengths::Constant(most))?,
        "histogram" => {
            Lengths::histogram(Path::new(properties.text("fieldlengthhistogram").unwrap_or("hist.txt")))?
        }
        other => {
            return Err(Error::usage(format!(
                "fieldlengthdistribution takes one of constant, uniform, zipfian, histogram, not '{other}'"
            )));
        }
    };
    let integrity = properties.truth("dataintegrity", false);
    if integrity && word != "constant" {
        return Err(Error::usage("dataintegrity needs fieldlengthdistribution=constant"));
    }
    let compressibility = properties.number("compressibility")?.unwrap_or(1.0);
    if compressibility < 1.0 {
        return Err(Error::usage("compressibility is 1 or more: 2 makes values that shrink to half"));
    }
    let text = properties.choice("datatype", &[("binary", false), ("string", true)])?.unwrap_or(false);
    Ok(Values { lengths, integrity, compressibility, text })
}

fn scan_lengths(properties: &Properties) -> Result<Lengths, Error> {
    let least = properties.whole("minscanlength")?.unwrap_or(1);
    let most = properties.whole("maxscanlength")?.unwrap_or(1000);
    if least > most || most == 0 {
        return Err(Error::usage(format!(
            "minscanlength={least} and maxscanlength={most} leave no length for a scan"
        )));
    }
    let words = [("uniform", false), ("zipfian", true)];
    Ok(match properties.choice("scanlengthdistribution", &words)?.unwrap_or(false) {
        false => Lengths::Uniform { least, most },
        true => Lengths::zipfian(least, most),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(text: &str) -> Properties {
        let mut properties = Properties::default();
        properties.set("workload", "site.ycsb.workloads.CoreWorkload", "-p");
        for pair in text.split_whitespace() {
            properties.add_flag(pair).unwrap();
        }
        properties
    }

    fn refused(text: &str) -> String {
        let operations = properties(text).whole("operationcount").unwrap();
        CoreWorkload::from_properties(&properties(text), Phase::Run, operations).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_those_of_ycsb() {
        let workload =
            CoreWorkload::from_properties(&properties("recordcount=1000"), Phase::Run, Some(10)).unwrap();
        assert_eq!((workload.table.as_str(), workload.fields.names().len()), ("usertable", 10));
        assert_eq!(workload.records, Records { is_apart: true, ..Records::whole(1000) });
        assert_eq!(workload.distribution, Distribution::Uniform);
        assert!(workload.read_all_fields && !workload.write_all_fields && !workload.keys.ordered);
        assert!((workload.mix.share(Operation::Read) - 0.95).abs() < 1e-12);
        let old = properties("workload=com.yahoo.ycsb.workloads.CoreWorkload");
        let old = CoreWorkload::from_properties(&old, Phase::Load, None).unwrap();
        assert_eq!(old.records.count, UNBOUNDED_KEYS);
        assert_eq!(old.load_count(&properties("")).unwrap(), None, "as YCSB, without an end");
        assert_eq!(old.load_count(&properties("insertcount=5")).unwrap(), Some(5));
    }

    /// The first is the case that was reported: 5000 times one less nine tenths, cut before it was doubled, was 998.
    #[test]
    fn new_records_are_expected_as_ycsb_computes_them() {
        for (text, expected) in [
            ("operationcount=5000 readproportion=0.9 insertproportion=0.1", 1000),
            // The share of inserts is 0.0909, and the proportion 0.05.
            ("operationcount=10000 readproportion=0.5 updateproportion=0 insertproportion=0.05", 1000),
            ("operationcount=999 insertproportion=0.0005", 0),
            ("operationcount=1001 insertproportion=0.0005", 1),
            ("operationcount=100 readproportion=50 insertproportion=50", 10_000),
            ("operationcount=3 insertproportion=0.1", 0),
            ("operationcount=15 insertproportion=0.1", 3),
            ("operationcount=0 insertproportion=1", 0),
            ("operationcount=1000", 0),
        ] {
            let given = properties(&format!("recordcount=1000 requestdistribution=zipfian {text}"));
            let operations = given.whole("operationcount").unwrap();
            let workload = CoreWorkload::from_properties(&given, Phase::Run, operations).unwrap();
            assert_eq!(workload.records.expected, expected, "{text}");
            assert_eq!(workload.narrowed_range(&given).unwrap(), None, "{text}");
        }
        let most = properties("insertproportion=1");
        let keys = |operations| expected_keys(&most, operations).unwrap();
        assert_eq!(
            [2_000_000_000, 3_000_000_000].map(keys),
            [2_147_483_647, 6_000_000_000],
            "32 bits where YCSB has them"
        );
    }

    #[test]
    fn a_count_that_is_no_forecast_is_told() {
        let text =
            "recordcount=1000 operationcount=150000000 insertproportion=0.05 requestdistribution=zipfian";
        for (more, is_told) in [
            ("maxexecutiontime=8", true),
            ("maxexecutiontime=8 recordcount=1000000", false),
            ("maxexecutiontime=8 requestdistribution=latest", false),
            ("recordcount=20000", false),
            ("", true),
        ] {
            let given = properties(&format!("{text} {more}"));
            let workload = CoreWorkload::from_properties(&given, Phase::Run, Some(150_000_000)).unwrap();
            let told = workload.narrowed_range(&given).unwrap();
            assert_eq!(told.is_some(), is_told, "{more}: {told:?}");
            if let Some(told) = told {
                assert!(told.contains("forecasts 15,000,000 new records, where 1,000 exist"), "{told}");
            }
        }
        let load = CoreWorkload::from_properties(&properties(text), Phase::Load, None).unwrap();
        assert_eq!(load.narrowed_range(&properties(text)).unwrap(), None);
    }

    #[test]
    fn what_is_given_empty_is_read_as_in_ycsb() {
        let given = properties("recordcount=9 insertorder= fieldnameprefix= fieldcount=2");
        let workload = CoreWorkload::from_properties(&given, Phase::Run, Some(1)).unwrap();
        assert!(workload.keys.ordered);
        assert_eq!(workload.fields.names(), ["0", "1"]);
    }

    #[test]
    fn what_cannot_be_is_refused_in_a_sentence() {
        for (text, word) in [
            ("requestdistribution=zipf", "one of uniform, zipfian"),
            ("requestdistribution=zipfian", "needs operationcount"),
            ("recordcount=10 insertstart=11", "exceed recordcount=10"),
            ("recordcount=10 insertstart=5 insertcount=6", "exceed recordcount=10"),
            ("recordcount=ten", "a whole number of at least 0, not 'ten'"),
            ("readproportion=-1", "a number of at least 0"),
            ("dataintegrity=true fieldlengthdistribution=uniform", "dataintegrity needs"),
            ("fieldlengthdistribution=normal", "one of constant"),
            ("fieldlengthdistribution=zipfian minfieldlength=200", "more than fieldlength"),
            ("fieldlengthdistribution=histogram fieldlengthhistogram=/nonexistent", "/nonexistent"),
            ("maxscanlength=0", "no length for a scan"),
            ("minscanlength=0 maxscanlength=18446744073709551615", "more than"),
            ("recordcount=18446744073709551615", "more than"),
            ("fieldcount=1000000", "more than"),
            ("fieldnameprefix=a\0b", "holds a NUL"),
            ("zipfianconstant=1", "above 0 and below 1, not 1"),
            ("hotspotdatafraction=2", "a share"),
            ("requestdistribution=exponential exponential.percentile=100", "between 0 and 100"),
            ("requestdistribution=exponential exponential.percentile=0", "between 0 and 100"),
            ("workload=site.ycsb.workloads.TimeSeriesWorkload", "not known"),
            ("datatype=json", "one of binary, string"),
        ] {
            let said = refused(text);
            assert!(said.contains(word), "{text}: {said}");
        }
        let none = CoreWorkload::from_properties(&Properties::default(), Phase::Run, None).unwrap_err();
        assert!(none.to_string().contains("no workload"), "{none}");
    }
}
