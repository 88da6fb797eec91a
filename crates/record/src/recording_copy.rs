//! Copies the files of a recording for a run folder, and computes their checksums on the way.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use crate::checksum_stream::ChecksumStream;
use crate::source_recording::{MAX_SERVERS, RECORDING, SourceFile, is_file_name, server_folder};
use crate::staging_folder::StagingFolder;

/// The largest file that is copied. mongod begins a new one after 10 MiB.
const MAX_COPIED_BYTES: u64 = 1 << 30;

/// Copies of a recording's files that no run folder has yet. They are deleted if no run takes them.
#[derive(Debug)]
pub struct RecordingCopy {
    staging: StagingFolder,
    /// The directory that each copied file came from, the number of its server, and the file.
    files: Vec<(String, usize, SourceFile)>,
}

impl RecordingCopy {
    /// Copies for a run below `parent`, which is created if it does not exist.
    ///
    /// # Errors
    /// When the folder of the copies cannot be made.
    pub fn begin(parent: &Path) -> Result<RecordingCopy> {
        let staging = StagingFolder::new(parent);
        staging.make(parent)?;
        Ok(RecordingCopy { staging, files: Vec::new() })
    }

    /// Copies a file of a server's directory up to its end, or up to the first byte that cannot be read, and returns that error with the copy's path.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn add(
        &mut self,
        directory: &str,
        name: &str,
        contents: &mut dyn Read,
    ) -> Result<(PathBuf, Option<io::Error>)> {
        let known = self.files.iter().find(|(from, ..)| from == directory).map(|(_, server, _)| *server);
        let next = || self.files.iter().map(|(_, server, _)| server + 1).max().unwrap_or(0);
        let server = known.unwrap_or_else(next);
        if server >= MAX_SERVERS {
            let what = format!("a run has the recordings of {MAX_SERVERS} servers at most");
            return Err(Error::new(Kind::Unsupported, what).advise("import fewer of them at a time"));
        }
        let own = self.free_name(server, name);
        let path = self.staging.folder.join(&own);
        let mut copy = ChecksumStream::new(self.staging.create(&own)?);
        let mut buffer = vec![0; 128 << 10];
        let mut left = MAX_COPIED_BYTES;
        let problem = loop {
            match contents.read(&mut buffer) {
                Ok(0) => break None,
                Ok(count) if count as u64 > left => {
                    let what =
                        format!("{directory}/{name} has more than 1 GiB, and a run keeps its files whole");
                    let advice =
                        "judge it with 'fathom explain', which takes --from and --to and copies nothing";
                    return Err(Error::new(Kind::Unsupported, what).advise(advice));
                }
                Ok(count) => {
                    left -= count as u64;
                    let part = buffer.get(..count).unwrap_or_default();
                    copy.write_all(part).map_err(|e| Error::io("write", &path, e))?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Some(e),
            }
        };
        let (bytes, sha256) = copy.done();
        self.files.push((directory.to_owned(), server, SourceFile { name: own, bytes, sha256 }));
        Ok((path, problem))
    }

    /// The name of a new copy: the file's own, unless that is not plain or is taken.
    fn free_name(&self, server: usize, name: &str) -> String {
        let folder = server_folder(server);
        let own = if is_file_name(name) { name } else { "metrics.file" };
        let is_taken = |name: &String| self.files.iter().any(|(.., file)| file.name == *name);
        let mut free = format!("{folder}/{own}");
        let mut number = 2;
        while is_taken(&free) {
            free = format!("{folder}/{own}.{number}");
            number += 1;
        }
        free
    }

    /// Deletes the last copy.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn remove_last(&mut self) -> Result<()> {
        let Some((_, server, file)) = self.files.pop() else { return Ok(()) };
        let path = self.staging.folder.join(file.name);
        fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
        if !self.files.iter().any(|(_, other, _)| *other == server) {
            let folder = self.staging.folder.join(server_folder(server));
            fs::remove_dir(&folder).map_err(|e| Error::io("remove", &folder, e))?;
        }
        Ok(())
    }

    /// The copies and the directories that they came from, in the order in which they came.
    pub fn paths(&self) -> Vec<(&str, PathBuf)> {
        let path = |name: &str| self.staging.folder.join(name);
        self.files.iter().map(|(directory, _, file)| (directory.as_str(), path(&file.name))).collect()
    }

    /// Moves the copies to a run folder.
    pub(crate) fn move_to(self, folder: &Path) -> Result<Vec<SourceFile>> {
        let (from, to) = (self.staging.folder.join(RECORDING), folder.join(RECORDING));
        fs::rename(&from, &to).map_err(|e| Error::io("rename", &from, e))?;
        Ok(self.files.into_iter().map(|(.., file)| file).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::{Manifest, Run, RunWriter, SourceRecording, State, bundle, folders};

    fn copied(parent: &Path) -> RecordingCopy {
        let mut copy = RecordingCopy::begin(parent).unwrap();
        for (directory, name, text) in [
            ("/db1", "metrics.2026-11-24T20-20-28Z-00000", "one"),
            ("/db2", "metrics.of another time", "elsewhere"),
            ("/db2", "-", "two"),
            ("/db1", "metrics.interim", "three"),
            ("/db1", "metrics.interim", "four"),
        ] {
            copy.add(directory, name, &mut Cursor::new(text)).unwrap();
            if text == "elsewhere" {
                copy.remove_last().unwrap();
            }
        }
        copy
    }

    fn imported(parent: &Path) -> PathBuf {
        let copy = copied(parent);
        let mut writer = RunWriter::create(parent, Manifest::new("import", "0.0.0", [])).unwrap();
        writer.keep_recording(copy, (1000, 5000)).unwrap();
        writer.finish(State::Complete, None).unwrap()
    }

    fn kept(folder: &Path) -> SourceRecording {
        Run::open(folder).unwrap().manifest.recording.unwrap()
    }

    #[test]
    fn a_run_keeps_the_files_by_server_and_has_no_parquet() {
        let parent = tempfile::tempdir().unwrap();
        let folder = imported(parent.path());
        let kept = kept(&folder);
        let names: Vec<&str> = kept.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "recording/000/metrics.2026-11-24T20-20-28Z-00000",
                "recording/001/metrics.file",
                "recording/000/metrics.interim",
                "recording/000/metrics.interim.2"
            ]
        );
        assert_eq!((kept.begin_ms, kept.end_ms, kept.files[0].bytes), (1000, 5000, 3));
        // printf one | sha256sum
        assert!(kept.files[0].sha256.starts_with("7692c3ad3540bb80"), "{}", kept.files[0].sha256);
        let paths = kept.verified_paths(&folder).unwrap();
        assert_eq!(fs::read(&paths[3]).unwrap(), b"four");
        assert!(!folder.join("series.parquet").exists() && !folder.join("series.jsonl").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "no copy is left");
    }

    #[test]
    fn series_are_read_by_what_reads_recordings_and_by_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let folder = imported(parent.path());
        let error = Run::open(&folder).unwrap().series().unwrap_err();
        assert!(error.to_string().contains("recording"), "{error}");
        let run = Run::open(&folder).unwrap().with_recordings(|folder, kept, take| {
            let count = kept.verified_paths(folder)?.len() as f64;
            take("host.runnable", "1", crate::Point { begin_ns: 0, end_ns: 1, value: count });
            Ok(())
        });
        assert_eq!(run.readings().unwrap()[0].value, 4.0);
    }

    #[test]
    fn a_file_that_is_not_what_was_imported_is_named_with_its_checksum() {
        let parent = tempfile::tempdir().unwrap();
        let folder = imported(parent.path());
        let kept = kept(&folder);
        let path = folder.join(&kept.files[0].name);
        let sum = kept.files[0].sha256.as_str();
        let refused = || kept.verified_paths(&folder).unwrap_err();
        fs::write(&path, "won").unwrap();
        let words = refused().to_string();
        assert!(words.contains(sum) && words.contains("is damaged") && words.contains("-00000"), "{words}");
        fs::remove_file(&path).unwrap();
        let words = refused().to_string();
        assert!(words.contains(sum) && words.contains("is missing"), "{words}");
        assert_eq!(refused().kind(), Kind::Corruption);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(refused().to_string().contains("symbolic link"));
        let mut elsewhere = kept.clone();
        elsewhere.files[0].name = "recording/000/../../../secret".to_owned();
        assert!(
            elsewhere.verified_paths(&folder).unwrap_err().to_string().contains("not a file of a recording")
        );
    }

    #[test]
    fn it_is_packed_unpacked_and_removed_with_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let folder = imported(parent.path());
        let run = folders::look(&folder).unwrap();
        assert_eq!(folders::obstacle(&run), None);
        let bundle = parent.path().join("run.tar.zst");
        let packed = bundle::pack(&run, fs::File::create(&bundle).unwrap()).unwrap();
        assert!(packed.left_out.is_empty(), "{packed:?}");
        let elsewhere = parent.path().join("elsewhere");
        let unpacked = bundle::unpack(&bundle, &elsewhere, bundle::MAX_BYTES).unwrap();
        assert_eq!(kept(&unpacked.folder).verified_paths(&unpacked.folder).unwrap().len(), 4);
        fs::write(folder.join("recording/000/notes.txt"), "mine").unwrap();
        let foreign = folders::obstacle(&folders::look(&folder).unwrap());
        assert_eq!(foreign, Some(folders::Obstacle::Foreign(vec!["recording/000/notes.txt".to_owned()])));
        fs::remove_file(folder.join("recording/000/notes.txt")).unwrap();
        folders::remove(&folders::look(&folder).unwrap()).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn a_copy_that_no_run_takes_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let place = parent.path().join("runs");
        drop(copied(&place));
        assert!(!place.exists());
        let mut copy = RecordingCopy::begin(&place).unwrap();
        struct TornReader;
        impl Read for TornReader {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("torn"))
            }
        }
        let mut source = Cursor::new("half").chain(TornReader);
        let (path, problem) = copy.add("/db1", "metrics.interim", &mut source).unwrap();
        assert_eq!(
            (fs::read(path).unwrap().as_slice(), problem.unwrap().to_string().as_str()),
            (&b"half"[..], "torn")
        );
    }
}
