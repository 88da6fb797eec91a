//! Tests that recordings in folders and archives of any kind are found, that each sample counts once, and that other inputs are refused
//! in a sentence.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use fathom_errors::Kind;
use fathom_ftdc::{
    ChunkBuffer, Gap, RecordingEvent, SampleEvent, SampleFilter, SearchEvent, ServerInventory,
    read_recording, search_companions, take_inventory, visit_recordings, visit_samples, visit_servers,
};
use fathom_testkit::{
    RECORDING_BEGIN_MS, RECORDING_SAMPLES, REPEATED_SAMPLES, RecordedProcess, RecordingWriter, Scratch,
    write_recording,
};

const ARCHIVE_FILE: &str = "metrics.2025-07-10T19-28-00Z-00000";

/// A folder with a recording, and the contents of its two files.
fn recording() -> (Scratch, PathBuf, Vec<(String, Vec<u8>)>) {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().join("db1/diagnostic.data");
    write_recording(&folder).unwrap();
    let files = [ARCHIVE_FILE, "metrics.interim"];
    let files = files.map(|name| (name.to_owned(), fs::read(folder.join(name)).unwrap())).to_vec();
    (scratch, folder, files)
}

fn inventory(input: &Path) -> Vec<ServerInventory> {
    let (servers, problems) = take_inventory(&[input.to_owned()]).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    servers
}

fn assert_whole(server: &ServerInventory) {
    assert_eq!((server.timeline.len(), server.repeated_samples), (RECORDING_SAMPLES, REPEATED_SAMPLES));
    assert_eq!(server.files.len(), 2);
}

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, contents) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_mode(0o600);
        builder.append_data(&mut header, format!("./diagnostic.data/{name}"), contents.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(contents: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(contents).unwrap();
    encoder.finish().unwrap()
}

fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, contents) in files {
        writer.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(contents).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn what_a_folder_holds_is_told() {
    let (scratch, folder, _) = recording();
    let servers = inventory(&folder);
    let [server] = servers.as_slice() else { panic!("{servers:?}") };
    assert_whole(server);
    let facts = &server.facts;
    assert_eq!((facts.process.as_deref(), facts.replica_set.as_deref()), (Some("mongod"), Some("rs0")));
    assert_eq!(
        (facts.versions.as_slice(), facts.hosts.as_slice()),
        (&["7.0.12".to_owned()][..], &["db1.example.net:27017".to_owned()][..])
    );
    assert_eq!((facts.processors, facts.memory_mib), (Some(4), Some(7963)));
    assert_eq!(facts.system.as_deref(), Some("Ubuntu 22.04"));
    let gap = Gap { from_ms: RECORDING_BEGIN_MS + 199_000, to_ms: RECORDING_BEGIN_MS + 205_000 };
    assert_eq!(server.timeline.gaps(), [gap]);
    assert_eq!(server.timeline.restarts_ms(), [RECORDING_BEGIN_MS + 405_000]);
    let periods: Vec<i64> = server.timeline.periods().iter().map(|period| period.period_ms).collect();
    assert_eq!(periods, [1000, 100]);
    // The folder above it, and one of its files.
    assert_whole(&inventory(&scratch.path())[0]);
    assert_eq!(inventory(&folder.join(ARCHIVE_FILE))[0].timeline.len(), 660);
}

#[test]
fn archives_hold_what_the_folder_holds_however_nested() {
    let (scratch, _, files) = recording();
    let plain = tar(&files);
    let zipped = zip(&files);
    let nested = zip(&[
        ("case/node.tar.gz".to_owned(), gzip(&plain)),
        ("case/notes.txt".to_owned(), b"hello".to_vec()),
    ]);
    let zip_in_tar = tar(&[("node.zip".to_owned(), zipped.clone())]);
    let compressed: Vec<(String, Vec<u8>)> =
        files.iter().map(|(name, contents)| (format!("{name}.gz"), gzip(contents))).collect();
    for (name, contents) in [
        ("plain.tar", plain.clone()),
        ("node.tgz", gzip(&plain)),
        ("node.tar.zst", zstd::encode_all(plain.as_slice(), 1).unwrap()),
        ("node.zip", zipped),
        ("case.zip", nested),
        ("case.tar.gz", gzip(&zip_in_tar)),
        ("files.tar", tar(&compressed)),
        // The contents show the type, not the name.
        ("upload", gzip(&plain)),
    ] {
        let path = scratch.path().join(name);
        fs::write(&path, contents).unwrap();
        let servers = inventory(&path);
        assert_eq!(servers.len(), 1, "{name}: {servers:?}");
        assert_whole(&servers[0]);
    }
}

#[test]
fn an_archive_in_a_format_that_is_not_read_is_named_with_it() {
    let (scratch, folder, files) = recording();
    for (name, mark, format) in [
        ("db1.tar.xz", &b"\xfd7zXZ\0"[..], "xz"),
        ("metrics.2025-07-10T19-28-00Z-00000.bz2", &b"BZh9"[..], "bzip2"),
        ("db1.7z", &b"7z\xbc\xaf\x27\x1c"[..], "7-Zip"),
        ("db1.rar", &b"Rar!\x1a\x07\0"[..], "RAR"),
        ("upload", &b"\x04\x22\x4d\x18"[..], "LZ4"),
    ] {
        let contents = [mark, &[0x5a; 600][..]].concat();
        let path = scratch.path().join(name);
        fs::write(&path, &contents).unwrap();
        let refused = take_inventory(&[path]).unwrap_err();
        let message = refused.to_string();
        assert!(
            message.contains(&format!("{name} is in the format {format}, which is not read")),
            "{message}"
        );
        // In a folder and in another archive it is a problem next to what can be read; a file of another name is passed over.
        let inner = [files.clone(), vec![(name.to_owned(), contents.clone())]].concat();
        let archive = scratch.path().join("all.tar");
        fs::write(&archive, tar(&inner)).unwrap();
        fs::write(folder.join(name), &contents).unwrap();
        for input in [&folder, &archive] {
            let (servers, problems) = take_inventory(std::slice::from_ref(input)).unwrap();
            assert_whole(&servers[0]);
            assert_eq!(problems.len(), usize::from(name != "upload"), "{name}: {problems:?}");
        }
        fs::remove_file(folder.join(name)).unwrap();
    }
}

#[test]
fn two_servers_in_one_archive_are_two() {
    let (scratch, _, files) = recording();
    let both: Vec<(String, Vec<u8>)> = ["db1", "db2"]
        .iter()
        .flat_map(|host| {
            files.iter().map(move |(name, contents)| (format!("{host}/{name}"), contents.clone()))
        })
        .collect();
    let path = scratch.path().join("both.zip");
    fs::write(&path, zip(&both)).unwrap();
    let servers = inventory(&path);
    assert_eq!(servers.len(), 2);
    servers.iter().for_each(assert_whole);
}

/// The companions in an input, and the directories with recordings.
fn companions(input: &Path) -> (Vec<String>, usize) {
    let (mut found, mut directories) = (Vec::new(), Vec::new());
    search_companions(&[input.to_owned()], &mut |event| {
        match event {
            SearchEvent::Companion(kind, file) => {
                let mut text = String::new();
                std::io::Read::read_to_string(file.contents, &mut text).unwrap();
                found.push(format!("{kind:?} {}/{} {text}", file.directory, file.name));
            }
            SearchEvent::File(file) => directories.push(file.directory.to_owned()),
            SearchEvent::End { .. } => {}
        }
        Ok(())
    })
    .unwrap();
    directories.dedup();
    (found, directories.len())
}

#[test]
fn logs_and_dumps_in_archives_are_found_however_nested() {
    let (scratch, _, mut files) = recording();
    let named = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    files.push(named("../mongod.log", "one"));
    files.push(("mongod.log.2025-07-10T00-00-00.gz".to_owned(), gzip(b"two")));
    files.push(named("status.json", "three"));
    files.push(named("collection-0.wt", "none"));
    let zipped = zip(&files);
    let in_tar: Vec<(String, Vec<u8>)> =
        files.iter().map(|(name, contents)| (name.replace("../", ""), contents.clone())).collect();
    let nested = zip(&[("node.tar.gz".to_owned(), gzip(&tar(&in_tar)))]);
    for (name, contents, folder) in [
        ("node.zip", zipped, "node.zip"),
        ("node.tar.zst", zstd::encode_all(tar(&in_tar).as_slice(), 1).unwrap(), "node.tar/diagnostic.data"),
        ("case.zip", nested, "case.zip/node.tar/diagnostic.data"),
    ] {
        let path = scratch.path().join(name);
        fs::write(&path, contents).unwrap();
        let (found, directories) = companions(&path);
        let prefix = format!("{}/", scratch.path().join(folder).display());
        let found: Vec<String> =
            found.iter().map(|one| one.replace(&prefix, "").replace("../", "")).collect();
        let expected =
            ["Log mongod.log one", "Log mongod.log.2025-07-10T00-00-00 two", "Dump status.json three"];
        assert_eq!((found.as_slice(), directories), (&expected.map(str::to_owned)[..], 1), "{name}");
        // They are no part of the recording, and nothing was written.
        assert_whole(&inventory(&path)[0]);
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 4);
}

#[test]
fn what_is_no_recording_is_refused() {
    let scratch = Scratch::new().unwrap();
    let refused = |name: &str, contents: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, contents).unwrap();
        let error = take_inventory(&[path]).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        error.kind()
    };
    assert_eq!(refused("notes.txt", b"a text of some length"), Kind::Malformed);
    assert_eq!(refused("zeros", &[0; 4096]), Kind::Malformed);
    assert_eq!(refused("empty", b""), Kind::Malformed);
    assert_eq!(refused("empty.zip", &zip(&[])), Kind::NotFound);
    assert_eq!(
        refused("cut.zip", &zip(&[("metrics.interim".to_owned(), vec![1; 99])])[..60]),
        Kind::Malformed
    );
    assert_eq!(refused("other.tar", &tar(&[("notes.txt".to_owned(), vec![1; 99])])), Kind::NotFound);
    let folder = scratch.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("collection-0.wt"), [0; 64]).unwrap();
    assert_eq!(take_inventory(&[folder]).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(take_inventory(&[scratch.path().join("missing")]).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn what_follows_damage_is_read() {
    let (scratch, folder, files) = recording();
    // A chunk whose zlib stream is damaged: the chunks around it are read.
    let mut contents = files[0].1.clone();
    let second = contents.len() / 2;
    contents[second] ^= 0xff;
    fs::write(folder.join(ARCHIVE_FILE), &contents).unwrap();
    let server = &inventory(&folder)[0];
    assert!(server.timeline.len() >= RECORDING_SAMPLES - 300 && server.timeline.len() < RECORDING_SAMPLES);
    assert_eq!(server.files[0].damages.len(), 1, "{:?}", server.files);
    // A crash truncates the last document.
    fs::write(folder.join(ARCHIVE_FILE), &files[0].1[..files[0].1.len() - 7]).unwrap();
    let server = &inventory(&folder)[0];
    assert!(server.files[0].cut_off_bytes > 0 && server.timeline.len() >= 600);
    // An archive truncated by a copy.
    let archive = gzip(&tar(&files));
    let path = scratch.path().join("cut.tar.gz");
    fs::write(&path, &archive[..archive.len() - archive.len() / 4]).unwrap();
    match take_inventory(&[path]) {
        Ok((servers, problems)) => {
            let damages = servers.iter().flat_map(|server| &server.files).map(|file| file.damages.len());
            assert!(damages.sum::<usize>() + problems.len() > 0, "{servers:?}");
        }
        Err(error) => assert_eq!(error.kind(), Kind::Malformed),
    }
}

/// A file of other documents may have millions of them. Each error has some hundred bytes.
#[test]
fn a_file_of_other_documents_is_not_read_to_its_end() {
    let documents = [5_u8, 0, 0, 0, 0].repeat(200_000);
    let mut rest = documents.as_slice();
    let end = read_recording(&mut rest, &mut ChunkBuffer::default(), &mut |_| Ok(())).unwrap();
    assert_eq!((end.damages.len(), end.bytes), (1001, 5000));
    assert!(end.damages[1000].to_string().contains("the rest was not read"), "{}", end.damages[1000]);
    // Long zeros are counted no further than they need to be.
    let mut zeros = std::io::repeat(0);
    let end = read_recording(&mut zeros, &mut ChunkBuffer::default(), &mut |_| Ok(())).unwrap();
    assert_eq!(end.damages.len(), 1);
    assert_eq!(end.damages[0].to_string(), "the bytes from byte 0 on are not documents");
}

#[test]
fn values_of_chosen_metrics_come_once() {
    let (_scratch, folder, _) = recording();
    let range = RECORDING_BEGIN_MS + 604_000..=RECORDING_BEGIN_MS + 606_000;
    let (mut starts, mut values) = (Vec::new(), Vec::new());
    let problems = visit_samples(
        &[folder],
        SampleFilter::new(range.clone()),
        &|path| path.ends_with("opcounters.insert"),
        &mut |block| {
            starts.extend_from_slice(block.starts_ms);
            assert_eq!(block.metrics.len(), 1);
            values.extend_from_slice(&block.columns[0]);
            Ok(())
        },
    )
    .unwrap();
    assert!(problems.is_empty());
    // One at 604 s, and one every 0.1 s from 605 s to 606 s.
    assert_eq!((starts.len(), starts[0], starts[11]), (12, *range.start(), *range.end()));
    assert_eq!((values[0], values[1], values[11]), (60_400, 60_500, 60_600));
}

/// Samples of two processes in one chunk, as after a crash, and metrics that come and go.
#[test]
fn a_chunk_of_two_processes_has_a_restart() {
    let scratch = Scratch::new().unwrap();
    let mut writer = RecordingWriter::default();
    let begin = RECORDING_BEGIN_MS;
    for (process, from, to) in [
        (RecordedProcess { pid: 1, started_ms: begin - 9000 }, 0, 50),
        (RecordedProcess { pid: 2, started_ms: begin + 49_500 }, 50, 90),
    ] {
        for second in from..to {
            let more = if second % 40 == 39 {
                bson::doc! { "repl": { "lag": second } }
            } else {
                bson::Document::new()
            };
            let start_ms = begin + second * 1000;
            writer.sample(start_ms, &process.sample(start_ms, &more)).unwrap();
        }
    }
    writer.end_chunk().unwrap();
    let path = scratch.path().join("metrics.interim.temp");
    File::create(&path).unwrap().write_all(&writer.into_bytes()).unwrap();
    let server = &inventory(&path)[0];
    assert_eq!((server.timeline.len(), server.timeline.restarts_ms()), (90, vec![begin + 50_000]));
    let (least, most) = server.metrics.unwrap();
    assert_eq!(most, least + 1);
}

/// A file with one sample a second.
fn file_of(seconds: std::ops::Range<i64>) -> Vec<u8> {
    let process = RecordedProcess { pid: 1, started_ms: RECORDING_BEGIN_MS };
    let mut writer = RecordingWriter::default();
    // A shorter file would be at its end when its type is read.
    writer.metadata(RECORDING_BEGIN_MS);
    for second in seconds {
        let start_ms = RECORDING_BEGIN_MS + second * 1000;
        writer.sample(start_ms, &process.sample(start_ms, &bson::Document::new())).unwrap();
    }
    writer.end_chunk().unwrap();
    let bytes = writer.into_bytes();
    assert!(bytes.len() > 512, "{}", bytes.len());
    bytes
}

/// The time at which mongod moves samples while a reader is at its first archive file.
#[derive(Clone, Copy, PartialEq)]
enum MoveTime {
    WithinFile,
    AtEndOfFile,
}

/// The seconds of samples that a reader sees, in their order. A folder has 300 samples in its archive file and 100 in the interim file, and mongod
/// moves samples at a time.
fn seconds_seen(time: MoveTime, move_samples: &dyn Fn(&Path)) -> Vec<i64> {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().join("diagnostic.data");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(ARCHIVE_FILE), file_of(0..300)).unwrap();
    fs::write(folder.join("metrics.interim"), file_of(300..400)).unwrap();
    let (mut seen, mut buffer, mut moves) = (Vec::new(), ChunkBuffer::default(), 0);
    let problems = visit_recordings(std::slice::from_ref(&folder), &mut |file| {
        let mut move_once = |now: MoveTime| {
            if now == time && moves == 0 && file.name == ARCHIVE_FILE {
                moves += 1;
                move_samples(&folder);
            }
        };
        read_recording(file.contents, &mut buffer, &mut |event| {
            let RecordingEvent::Chunk { chunk, .. } = event else { return Ok(()) };
            let start = chunk.metrics().iter().position(|metric| metric.path == "start");
            chunk.columns(
                |number| Some(number) == start,
                |_, starts_ms| {
                    seen.extend(starts_ms.iter().map(|ms| (ms - RECORDING_BEGIN_MS) / 1000));
                },
            )?;
            move_once(MoveTime::WithinFile);
            Ok(())
        })?;
        move_once(MoveTime::AtEndOfFile);
        Ok(())
    })
    .unwrap();
    assert!(problems.is_empty() && moves == 1, "{problems:?}");
    seen
}

#[test]
fn samples_that_move_while_a_folder_is_read_are_seen_in_their_order() {
    // The chunk is full: it moves to the archive file, and the interim file begins again.
    let fill = |folder: &Path| {
        let mut archive = OpenOptions::new().append(true).open(folder.join(ARCHIVE_FILE)).unwrap();
        archive.write_all(&file_of(300..600)).unwrap();
        fs::write(folder.join("metrics.interim"), file_of(600..610)).unwrap();
    };
    // The server starts again, so another archive file takes the samples.
    let start_again = |folder: &Path| {
        fs::write(folder.join("metrics.2025-07-10T19-38-00Z-00000"), file_of(300..600)).unwrap();
        fs::write(folder.join("metrics.interim"), file_of(600..610)).unwrap();
    };
    let moves: [&dyn Fn(&Path); 2] = [&fill, &start_again];
    for move_samples in moves {
        let seen = seconds_seen(MoveTime::WithinFile, move_samples);
        assert_eq!(seen, (0..610).collect::<Vec<i64>>());
        let mut seen = seconds_seen(MoveTime::AtEndOfFile, move_samples);
        // The samples of the interim file as it was may be in an archive file too by then.
        seen.sort_unstable();
        seen.dedup();
        let last = *seen.last().unwrap();
        assert!(last >= 399, "{last}");
        assert_eq!(seen, (0..=last).collect::<Vec<i64>>());
    }
}

#[test]
fn a_folder_that_was_read_has_an_end_and_is_not_read_again() {
    let (scratch, _, files) = recording();
    let second = scratch.path().join("db2/diagnostic.data");
    fs::create_dir_all(&second).unwrap();
    for (name, contents) in &files {
        fs::write(second.join(name), contents).unwrap();
    }
    let root = scratch.path();
    let (mut samples, mut ended) = (0, Vec::new());
    visit_servers(
        &[root.clone(), root.join("db2")],
        SampleFilter::new(i64::MIN..=i64::MAX),
        &|_| false,
        &mut |event| {
            match event {
                SampleEvent::Block(block) => {
                    samples += block.starts_ms.len();
                    assert!(!ended.contains(&block.directory.to_owned()), "{ended:?}");
                }
                SampleEvent::End { directory } => ended.push(directory.to_owned()),
            }
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(samples, 2 * RECORDING_SAMPLES);
    for folder in [root.join("db1/diagnostic.data"), second] {
        assert!(ended.contains(&folder.display().to_string()), "{ended:?}");
    }
}

/// A case has an archive for each server, and one server at a time is kept in memory.
#[test]
fn directories_in_an_archive_end_with_it() {
    let (scratch, _, files) = recording();
    let node = gzip(&tar(&files));
    let case = tar(&[("n1.tar.gz".to_owned(), node.clone()), ("n2.tar.gz".to_owned(), node)]);
    let path = scratch.path().join("case.tar");
    fs::write(&path, case).unwrap();
    let mut seen: Vec<String> = Vec::new();
    let filter = SampleFilter::new(i64::MIN..=i64::MAX);
    let problems = visit_servers(&[path], filter, &|_| false, &mut |event| {
        let (directory, what) = match event {
            SampleEvent::Block(block) => (block.directory, "samples"),
            SampleEvent::End { directory } => (directory, "end"),
        };
        let name = directory.split('/').rev().find(|name| name.starts_with('n')).unwrap_or_default();
        seen.push(format!("{name} {what}"));
        Ok(())
    });
    assert!(problems.unwrap().is_empty());
    seen.dedup();
    assert_eq!(seen, ["n1.tar samples", "n1.tar end", "n2.tar samples", "n2.tar end"]);
}

/// The same of an archive that has the directories of several servers, one after another or not.
#[test]
fn directories_in_one_archive_end_after_their_last_files() {
    let (scratch, _, files) = recording();
    let [archive_file, interim] = files.as_slice() else { panic!("{}", files.len()) };
    let of = |host: &str, (name, contents): &(String, Vec<u8>)| (format!("{host}/{name}"), contents.clone());
    let apart = [of("n1", archive_file), of("n1", interim), of("n2", interim), of("n2", archive_file)];
    let mixed = [of("n1", interim), of("n2", archive_file), of("n1", archive_file), of("n2", interim)];
    let of_apart = ["n1 samples", "n1 end", "n2 samples", "n2 end"];
    let of_mixed = ["n1 samples", "n2 samples", "n1 samples", "n1 end", "n2 samples", "n2 end"];
    for (files, expected) in [(apart, &of_apart[..]), (mixed, &of_mixed[..])] {
        let plain = tar(&files);
        let compressed = zstd::encode_all(plain.as_slice(), 1).unwrap();
        for (name, contents) in [("a.tgz", gzip(&plain)), ("a.tar.zst", compressed), ("a.tar", plain)] {
            let path = scratch.path().join(name);
            fs::write(&path, contents).unwrap();
            let (mut seen, mut samples) = (Vec::new(), 0);
            let filter = SampleFilter::new(i64::MIN..=i64::MAX);
            let problems = visit_servers(&[path], filter, &|_| false, &mut |event| {
                let (directory, what) = match event {
                    SampleEvent::Block(block) => {
                        samples += block.starts_ms.len();
                        (block.directory, "samples")
                    }
                    SampleEvent::End { directory } => (directory, "end"),
                };
                let name = directory.split('/').rev().find(|name| name.starts_with('n'));
                seen.push(format!("{} {what}", name.unwrap_or_default()));
                Ok(())
            });
            assert!(problems.unwrap().is_empty());
            seen.dedup();
            assert_eq!(seen, expected, "{name}");
            assert_eq!(samples, 2 * RECORDING_SAMPLES, "{name}");
        }
    }
}

#[test]
fn parameters_that_change_while_a_server_runs_are_known() {
    for roles in [false, true] {
        let document = |parameters: bson::Document| {
            let reply = bson::doc! { "getParameter": parameters };
            if roles {
                bson::doc! { "common": {}, "shard": reply }
            } else {
                reply
            }
        };
        let scratch = Scratch::new().unwrap();
        let mut writer = RecordingWriter::default();
        let begin = RECORDING_BEGIN_MS;
        writer.parameters(
            begin,
            0,
            &document(bson::doc! { "slowms": 100, "sampleRate": 1.0, "port": 27017 }),
        );
        let process = RecordedProcess { pid: 1, started_ms: begin };
        writer.sample(begin, &process.sample(begin, &bson::Document::new())).unwrap();
        writer.end_chunk().unwrap();
        writer.parameters(begin + 300_000, 1, &document(bson::doc! { "slowms": 20 }));
        writer.parameters(begin + 600_000, 2, &document(bson::doc! { "sampleRate": 0.5 }));
        let path = scratch.path().join("metrics.interim");
        fs::write(&path, writer.into_bytes()).unwrap();
        let facts = &inventory(&path)[0].facts;
        assert_eq!((facts.slow_ms, facts.slow_sample_rate), (Some(20), Some(0.5)));
        assert!(!facts.is_disaggregated);
    }
}
