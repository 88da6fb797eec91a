//! Imports recordings: copies their files to a run folder, and reads the run from the copies, as every later reader of the folder does.

use std::fs::File;
use std::io::{BufReader, Cursor, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_ftdc::{
    ChunkBuffer, RecordingEvent, RecordingFile, SampleFilter, may_begin_recording, read_recording,
    visit_recordings,
};
use fathom_record::{Manifest, RecordingCopy, RunWriter, State};

use crate::recorded_companions::RecordingCompanions;
use crate::recorded_run::{MAX_RECORDED_S, RecordedRun, too_long};
use crate::recording::no_sample;
use crate::run_folders;

/// A recording that was imported.
#[derive(Debug)]
pub struct RecordingImport {
    pub folder: PathBuf,
    /// The contents of the folder.
    pub run: RecordedRun,
}

impl RecordingImport {
    /// Imports the samples of a time range, in milliseconds since 1970, into a new run folder below `parent`. The folder keeps the files
    /// that have such samples, whole.
    ///
    /// # Errors
    /// If an input holds no recording, no sample is in the range, they are more than six hours apart, or the folder cannot be written.
    pub fn write(
        inputs: &[PathBuf],
        range_ms: RangeInclusive<i64>,
        parent: Option<&Path>,
        command_line: Vec<String>,
    ) -> Result<RecordingImport> {
        let parent = run_folders::parent(parent)?;
        // First, since standard input can be read once.
        let found = RecordingCompanions::find_names(inputs);
        let mut progress = ImportProgress {
            copy: RecordingCopy::begin(&parent)?,
            range_ms: range_ms.clone(),
            span_ms: None,
            buffer: ChunkBuffer::default(),
            problems: Vec::new(),
        };
        let unread = visit_recordings(inputs, &mut |file| progress.add(file))?;
        let ImportProgress { copy, mut problems, .. } = progress;
        problems.splice(0..0, unread);
        let copies = copy.paths();
        if copies.is_empty() {
            return Err(no_sample(problems));
        }
        let paths: Vec<PathBuf> = copies.iter().map(|(_, path)| path.clone()).collect();
        let mut run = RecordedRun::read(&paths, SampleFilter::new(range_ms), &found.dumps)?;
        // Those of the copies are the same, under other names.
        run.problems = problems;
        for (directory, path) in &copies {
            let copied = path.parent().map(|parent| parent.display().to_string()).unwrap_or_default();
            run.rename_directory(&copied, directory);
        }
        let left = found.names();
        if !left.is_empty() {
            run.add_note(left_out_note(&left));
        }
        let folder = written(&run, copy, &parent, command_line)?;
        Ok(RecordingImport { folder, run })
    }
}

/// The bytes of a file that show its first document's length.
const HEAD_BYTES: u64 = 4;
/// The most files that a note names.
const MAX_NAMED: usize = 5;

/// `Not copied, since a run folder has only the recording: the log or dump db1/mongod.log. 'fathom explain' reads them with the recording itself.`
fn left_out_note(names: &[String]) -> String {
    let named = names.get(..MAX_NAMED.min(names.len())).unwrap_or_default().join(", ");
    let more = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "Not copied, since a run folder of an import has only the recording: the logs and dumps {named}{more}. 'fathom explain' reads them together with the recording itself."
    )
}

/// Writes the run folder.
fn written(
    run: &RecordedRun,
    copy: RecordingCopy,
    parent: &Path,
    command_line: Vec<String>,
) -> Result<PathBuf> {
    let time = |ms: i64| jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
    let (begin_ms, end_ms) = run.span_ms();
    let mut manifest = Manifest::new("import", env!("CARGO_PKG_VERSION"), command_line);
    manifest.started = time(begin_ms).unwrap_or(manifest.started);
    manifest.finished = time(end_ms).ok();
    manifest.environment = run.environment().clone();
    run.notes().iter().for_each(|note| manifest.add_note(note));
    let mut writer = RunWriter::create(parent, manifest)?;
    writer.keep_recording(copy, (begin_ms, end_ms))?;
    writer.finish(State::Complete, None)
}

/// The state while files are copied.
struct ImportProgress {
    copy: RecordingCopy,
    range_ms: RangeInclusive<i64>,
    /// The first and the last sample so far.
    span_ms: Option<(i64, i64)>,
    buffer: ChunkBuffer,
    problems: Vec<Error>,
}

impl ImportProgress {
    /// Copies a file, and keeps the copy if it has a sample in the range.
    fn add(&mut self, file: RecordingFile<'_>) -> Result<()> {
        let called = format!("{}/{}", file.directory, file.name);
        let mut head = Vec::new();
        // The copy meets the same error.
        let _ = (&mut *file.contents).take(HEAD_BYTES).read_to_end(&mut head);
        if head.first_chunk().is_some_and(|head| !may_begin_recording(*head)) {
            let what = format!("{called} does not begin with a document of a recording");
            self.problems.push(Error::new(Kind::Malformed, what));
            return Ok(());
        }
        let mut contents = Cursor::new(head).chain(file.contents);
        let (path, unread) = self.copy.add(file.directory, file.name, &mut contents)?;
        let found = self.samples_of(&path, &called)?;
        self.problems.extend(
            unread.map(|e| Error::new(Kind::Malformed, format!("cannot read {called} whole")).because(e)),
        );
        let Some((first_ms, last_ms)) = found else { return self.copy.remove_last() };
        let (begin_ms, end_ms) = self.span_ms.unwrap_or((first_ms, last_ms));
        let (begin_ms, end_ms) = (begin_ms.min(first_ms), end_ms.max(last_ms));
        self.span_ms = Some((begin_ms, end_ms));
        if end_ms.abs_diff(begin_ms) > MAX_RECORDED_S * 1000 {
            return Err(too_long());
        }
        Ok(())
    }

    /// The first and the last sample of a copy within the range; damage is noted under the name of its original.
    fn samples_of(&mut self, path: &Path, called: &str) -> Result<Option<(i64, i64)>> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let mut filter = SampleFilter::new(self.range_ms.clone());
        let mut found: Option<(i64, i64)> = None;
        let end = read_recording(&mut BufReader::new(file), &mut self.buffer, &mut |event| {
            let RecordingEvent::Chunk { chunk, .. } = event else { return Ok(()) };
            for at_ms in filter.rows("", chunk)?.starts_ms {
                let (first, last) = found.unwrap_or((at_ms, at_ms));
                found = Some((first.min(at_ms), last.max(at_ms)));
            }
            Ok(())
        })?;
        let named = |damage: &Error| Error::new(damage.kind(), format!("{called}: {damage}"));
        self.problems.extend(end.damages.iter().map(named));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fathom_testkit::{RecordingTrap, Scratch, write_trap};

    use super::*;
    use crate::recorded_series::open_run;

    /// A recording that begins in the middle has no document of the server's options, so only a dump says which file system has the data.
    #[test]
    fn an_import_uses_the_facts_of_a_dump_and_so_do_readers_of_the_run() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.path().join("db/diagnostic.data");
        write_trap(&folder, RecordingTrap::FullFileSystem).unwrap();
        let path = folder.join("metrics.2025-07-10T19-28-00Z-00000");
        let whole = fs::read(&path).unwrap();
        let first = u32::from_le_bytes(whole[..4].try_into().unwrap()) as usize;
        fs::write(&path, &whole[first..]).unwrap();
        let imported = |name: &str| {
            let inputs = [scratch.path().join("db")];
            let parent = scratch.path().join(name);
            let import =
                RecordingImport::write(&inputs, i64::MIN..=i64::MAX, Some(&parent), Vec::new()).unwrap();
            let run = open_run(import.folder).unwrap();
            let free = |name: &String| name == "server.0.volume.available_bytes";
            let readings = run.readings().unwrap();
            assert_eq!(readings.len(), import.run.readings_count());
            readings.iter().any(|reading| free(&reading.name))
        };
        let options = |path: &str| {
            let parsed = format!("{{ argv: ['mongod'], parsed: {{ storage: {{ dbPath: '{path}' }} }} }}");
            fs::write(scratch.path().join("db/options.json"), parsed).unwrap();
        };
        options("/srv/mongodb");
        assert!(!imported("elsewhere"));
        options("/data/db");
        assert!(imported("here"));
    }
}
