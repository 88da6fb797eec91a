//! Records a sample of `getDiagnosticData` in `diagnostic.data` once a second, as mongod does.
//!
//! A failed recording must never harm the server: if it cannot be written (a full disk), the log reports that once, and the recorder retries with the
//! next archive after a minute.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};
use fathom_errors::{Error, Kind, Result};
use fathom_service::spawn_thread;
use fathom_wire::DocumentWriter;

use super::diagnostic_file::{DiagnosticFile, DiagnosticLimits, delete_oldest};
use super::{diagnostic_data, host_info};
use crate::config::version;
use crate::instance::Instance;

/// The subfolder of the data directory.
const DIRECTORY: &str = "diagnostic.data";
const MIB: u64 = 1 << 20;
/// The pause after a failure before it tries again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Starts the thread that records.
pub(crate) fn start(instance: &Arc<Instance>) -> Result<std::thread::JoinHandle<()>> {
    spawn_thread("ftdc", instance, record)
}

fn record(instance: &Arc<Instance>) {
    let mut recorder = Recorder::new(instance);
    let mut next = Instant::now();
    loop {
        let heard = instance.bell.rings();
        if instance.is_stopping() {
            recorder.finish();
            return;
        }
        if Instant::now() < next {
            instance.bell.sleep_since(heard, Some(next));
            continue;
        }
        let period_ms = instance.parameters.diagnostic_data_period_ms.load(Ordering::Relaxed);
        // Missed samples are not taken later.
        next = (next + Duration::from_millis(period_ms)).max(Instant::now());
        if !instance.parameters.diagnostic_data_enabled.load(Ordering::Relaxed) {
            recorder.finish();
        } else if let Err(error) = recorder.add_sample(instance) {
            recorder.file = None;
            next = Instant::now() + RETRY_AFTER;
            if !std::mem::replace(&mut recorder.has_failed, true) {
                let what = "the diagnostic data could not be written";
                instance.log.warning("FTDC", 20_631, "ftdc", what, doc! { "error": error.to_string() });
            }
        }
    }
}

struct Recorder {
    directory: PathBuf,
    file: Option<DiagnosticFile>,
    /// Whether a failure was logged.
    has_failed: bool,
}

impl Recorder {
    fn new(instance: &Instance) -> Recorder {
        let directory = instance.config.storage.db_path.join(DIRECTORY);
        Recorder { directory, file: None, has_failed: false }
    }

    fn add_sample(&mut self, instance: &Instance) -> Result<()> {
        let mib = |megabytes: u64| megabytes.saturating_mul(MIB);
        let limits = DiagnosticLimits {
            file_bytes: mib(instance.parameters.diagnostic_data_file_mb.load(Ordering::Relaxed)),
            directory_bytes: mib(instance.parameters.diagnostic_data_directory_mb.load(Ordering::Relaxed)),
        };
        let now_ms = DateTime::now().timestamp_millis();
        if self.file.as_ref().is_some_and(|file| file.is_full(limits)) {
            self.file.take().map_or(Ok(()), DiagnosticFile::finish)?;
        }
        if self.file.is_none() {
            let file = DiagnosticFile::create(&self.directory, now_ms, &metadata(instance))?;
            delete_oldest(&self.directory, limits)?;
            self.file = Some(file);
        }
        let mut bytes = Vec::new();
        {
            let mut writer = DocumentWriter::new(&mut bytes);
            diagnostic_data::write_sample(instance, &mut writer).map_err(|failure| {
                Error::new(Kind::Malformed, "a sample could not be made")
                    .because(failure.message().to_owned())
            })?;
        }
        let sample = RawDocument::from_bytes(&bytes)
            .map_err(|cause| Error::new(Kind::Malformed, "a sample is not a document").because(cause))?;
        self.file.as_mut().map_or(Ok(()), |file| file.add_sample(now_ms, sample))
    }

    /// Writes the samples that no archive holds yet. A failure loses only these samples.
    fn finish(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = file.finish();
        }
    }
}

/// The first document of an archive: the replies of `buildInfo`, `getCmdLineOpts` and `hostInfo`.
fn metadata(instance: &Instance) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    {
        let mut writer = DocumentWriter::new(&mut bytes);
        version::write_build_info(&instance.config.claimed_version, &mut writer.begin_document("buildInfo"));
        let parsed: Document = instance.config.parsed.clone().into_iter().collect();
        writer.begin_document("getCmdLineOpts").bson("parsed", &Bson::Document(parsed));
        host_info::write(instance, &mut writer.begin_document("hostInfo"));
    }
    RawDocumentBuf::from_bytes(bytes).unwrap_or_default()
}
