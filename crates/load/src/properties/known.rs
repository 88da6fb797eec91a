//! Table: the YCSB properties that are known, with their defaults (docs/methods.md#ycsb).
//!
//! A default is YCSB's behaviour without the property. Some properties are read and change nothing; their text says so, so that an
//! old file causes no warning.

/// A property that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Property {
    /// The name in a file.
    pub name: &'static str,
    /// The default; empty if it has none.
    pub default: &'static str,
    pub about: &'static str,
}

const fn property(name: &'static str, default: &'static str, about: &'static str) -> Property {
    Property { name, default, about }
}

/// The number used if a known property is absent; 0 if the table has no default.
pub fn default_number(name: &str) -> f64 {
    let known = KNOWN.iter().find(|known| known.name == name);
    known.and_then(|known| known.default.parse().ok()).unwrap_or(0.0)
}

/// All known properties: those of the client, the workload, the measurements and the binding.
pub const KNOWN: &[Property] = &[
    property("workload", "", "the workload's class; CoreWorkload under site.ycsb or com.yahoo.ycsb"),
    property("db", "", "the binding's class"),
    property("recordcount", "0", "records that are loaded, and the size of the key space of a run"),
    property("operationcount", "0", "operations of a run; 0: until the time is over"),
    property("insertstart", "0", "the first record of this client"),
    property("insertcount", "recordcount - insertstart", "records of this client"),
    property("threadcount", "1", "connections, each with one operation under way"),
    property("target", "0", "operations a second of all threads; 0: as many as go"),
    property("maxexecutiontime", "0", "seconds after which it ends; 0: never"),
    property("dotransactions", "true", "run rather than load"),
    property("status", "false", "status lines"),
    property("status.interval", "10", "seconds between status lines"),
    property("label", "", "the prefix of each status line"),
    property("exporter", "TextMeasurementsExporter", "the form of the report"),
    property("exportfile", "", "the report's file; standard output where absent"),
    property("spin.sleep", "false", "accepted, without effect: nothing sleeps here"),
    property("reportlatencyforeacherror", "false", "failed operations by their status"),
    property("latencytrackederrors", "", "these statuses by themselves"),
    property("table", "usertable", "the collection"),
    property("fieldcount", "10", "fields of a record"),
    property("fieldnameprefix", "field", "what a field's name begins with"),
    property("fieldlength", "100", "bytes of a field, at most"),
    property("minfieldlength", "1", "bytes of a field, at least"),
    property("fieldlengthdistribution", "constant", "constant, uniform, zipfian or histogram"),
    property("fieldlengthhistogram", "hist.txt", "the file of the lengths' histogram"),
    property("readallfields", "true", "read all fields rather than one"),
    property("readallfieldsbyname", "false", "read all fields by naming them"),
    property("writeallfields", "false", "update all fields rather than one"),
    property("dataintegrity", "false", "values that say what they must be, checked when read"),
    property("readproportion", "0.95", "the weight of reads"),
    property("updateproportion", "0.05", "the weight of updates"),
    property("insertproportion", "0", "the weight of inserts"),
    property("deleteproportion", "0", "the weight of deletes (not in YCSB)"),
    property("scanproportion", "0", "the weight of scans"),
    property("readmodifywriteproportion", "0", "the weight of reads with an update behind"),
    property(
        "requestdistribution",
        "uniform",
        "uniform, zipfian, latest, hotspot, exponential or sequential",
    ),
    property("hotspotdatafraction", "0.2", "the share of records that is hot"),
    property("hotspotopnfraction", "0.8", "the share of operations that use it"),
    property("exponential.percentile", "95", "so many of 100 operations go to the newest records"),
    property("exponential.frac", "0.8571428571", "the share of the records that these are"),
    property("minscanlength", "1", "records of a scan, at least"),
    property("maxscanlength", "1000", "records of a scan, at most"),
    property("scanlengthdistribution", "uniform", "uniform or zipfian"),
    property("insertorder", "hashed", "hashed, or the numbers in order"),
    property("zeropadding", "1", "digits of a key, at least"),
    property("core_workload_insertion_retry_limit", "0", "tries of a failed insert of a load"),
    property("core_workload_insertion_retry_interval", "3", "seconds between them"),
    property(
        "core_workload_insertion_keep_going_on_error",
        "false",
        "go on after an insert of a load failed",
    ),
    property("measurementtype", "hdrhistogram", "histogram, hdrhistogram, timeseries, raw, or two of them"),
    property("measurement.interval", "op", "op, intended or both"),
    property("hdrhistogram.percentiles", "50,95,99", "percentiles of the report"),
    property("hdrhistogram.fileoutput", "false", "a histogram log for each metric, in nanoseconds"),
    property(
        "hdrhistogram.output.path",
        "",
        "what these logs' names begin with, the metric and .hdr behind it",
    ),
    property("histogram.buckets", "1000", "buckets of a millisecond"),
    property("measurement.histogram.verbose", "false", "every bucket in the report"),
    property("timeseries.granularity", "1000", "milliseconds of a point: whole seconds"),
    property("measurement.raw.output_file", "", "the file to which the points are added"),
    property("measurement.raw.no_summary", "false", "points without a summary"),
    property("measurement.trackjvm", "false", "accepted, without effect: there is no JVM"),
    property("mongodb.url", "mongodb://localhost:27017/ycsb?w=1", "the connection string"),
    property("mongodb.upsert", "false", "insert by update with upsert"),
    property("mongodb.batchsize", "1", "documents of an insert"),
    property("batchsize", "1", "documents of an insert"),
    property(
        "mongodb.writeConcern",
        "",
        "unacknowledged, acknowledged, journaled, replica_acknowledged or majority",
    ),
    property(
        "mongodb.readPreference",
        "",
        "primary, primary_preferred, secondary, secondary_preferred or nearest",
    ),
    property("mongodb.maxconnections", "", "accepted, without effect: each thread has its connection"),
    property("mongodb.threadsAllowedToBlockForConnectionMultiplier", "", "accepted, without effect"),
    // Ours, where YCSB has nothing.
    property(
        "zipfianconstant",
        "0.99",
        "the skew of zipfian and latest, below 1; zipfian over the table's own size",
    ),
    property("keyprefix", "user", "what a key begins with"),
    property("datatype", "binary", "binary or string values"),
    property("compressibility", "1", "how often smaller a compressor makes the values"),
    property("seed", "", "the seed of all that is drawn; another each time where absent"),
    property("warmup", "0", "seconds at the start that are not measured"),
    property(
        "arrivals",
        "closed",
        "closed, uniform (target evenly spaced) or poisson (target at random times)",
    ),
    property("loops", "", "event loops; one for each processor where absent"),
    property("pipelinedepth", "1", "operations under way on each connection"),
    property(
        "operationdeadline",
        "60",
        "seconds after which an operation without a reply counts as lost; 0: never",
    ),
    property("noprogress", "60", "seconds without any finished operation after which it gives up; 0: never"),
    property(
        "insertresume",
        "true",
        "inserts of a run go on behind those of the run before, each client's in its own part",
    ),
    property("maxscanrate", "", "accepted, without effect, as in YCSB"),
    property("scanoptimelimit", "", "accepted, without effect, as in YCSB"),
    property("discardscannedrecord", "", "accepted, without effect, as in YCSB"),
    property("columnfamily", "", "accepted, without effect, as in YCSB"),
];
