//! Bundles that are whole, and bundles with every kind of defect.

use std::fs;
use std::path::PathBuf;

use tar::{Builder, EntryType, Header};

use super::*;
use crate::folders::{RunFolder, look};
use crate::{Manifest, Reading, Run, RunWriter, State};

fn run(parent: &Path) -> RunFolder {
    let mut writer = RunWriter::create(parent, Manifest::new("disk", "0.0.0", [])).unwrap();
    let mut histogram = fathom_stats::Histogram::new();
    histogram.record(1000);
    writer.latency("read.service", (0, 1_000_000_000), &histogram).unwrap();
    writer.readings(&[Reading::new("disk.read.per_s", "1/s", (0, 1_000_000_000), 5.0)]).unwrap();
    look(&writer.finish(State::Complete, None).unwrap()).unwrap()
}

fn packed(run: &RunFolder) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(run, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_was_packed_comes_back_and_the_same_run_gives_the_same_bytes() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = run(here.path());
    let first = packed(&run);
    fs::write(run.path.join("report.html"), "made again at will").unwrap();
    fs::write(run.path.join("mine.txt"), "mine").unwrap();
    let mut second = Vec::new();
    let left = pack(&look(&run.path).unwrap(), &mut second).unwrap().left_out;
    assert_eq!((first == second, left), (true, vec!["report.html".to_owned(), "mine.txt".to_owned()]));
    let bundle = here.path().join("b.tar.zst");
    fs::write(&bundle, &first).unwrap();
    let list = check(&bundle, MAX_BYTES).unwrap();
    let names: Vec<&str> = list.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["latency/read.service.hlog", "manifest.json", "results.jsonl", "series.parquet"]);
    let unpacked = unpack(&bundle, there.path(), MAX_BYTES).unwrap();
    let again = Run::open(&unpacked.folder).unwrap();
    assert_eq!(again.manifest, run.manifest);
    assert_eq!(again.latency("read.service").unwrap().len(), 1);
    assert_eq!(packed(&look(&unpacked.folder).unwrap()), first, "and packs to the same again");
    let twice = unpack(&bundle, there.path(), MAX_BYTES).unwrap_err();
    assert!(twice.to_string().contains("already exists"), "{twice}");
    let large = check(&bundle, 10).unwrap_err();
    assert!(large.to_string().contains("of 10 at most"), "{large}");
}

#[test]
fn no_damage_passes_and_nothing_stays_of_it() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = packed(&run(here.path()));
    let bundle = here.path().join("b.tar.zst");
    for cut in [0, 1, 20, whole.len() / 2, whole.len() - 1] {
        fs::write(&bundle, &whole[..cut]).unwrap();
        assert!(unpack(&bundle, there.path(), MAX_BYTES).is_err(), "cut at {cut}");
    }
    for place in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        fs::write(&bundle, &damaged).unwrap();
        // A changed bit in a frame of Zstandard may have no effect; then all checksums are right.
        if let Ok(unpacked) = unpack(&bundle, there.path(), MAX_BYTES) {
            fs::write(&bundle, packed(&look(&unpacked.folder).unwrap())).unwrap();
            assert_eq!(fs::read(&bundle).unwrap(), whole, "damaged at {place}");
            fs::remove_dir_all(unpacked.folder).unwrap();
        }
    }
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);
    // The folders that were made for it do not stay either.
    fs::write(&bundle, damaged_in_its_last_file(&whole)).unwrap();
    unpack(&bundle, &there.path().join("a/b"), MAX_BYTES).unwrap_err();
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);
}

/// The same bundle with one byte of the archive's last file changed.
fn damaged_in_its_last_file(whole: &[u8]) -> Vec<u8> {
    let mut archive = zstd::decode_all(whole).unwrap();
    let place = archive.iter().rposition(|byte| *byte != 0).unwrap();
    archive[place] ^= 1;
    zstd::encode_all(archive.as_slice(), 1).unwrap()
}

/// One entry of a bundle made by hand.
type BundleEntry<'e> = (&'e str, EntryType, &'e [u8]);

/// A bundle of these entries, whatever they are.
fn by_hand(place: &Path, entries: &[BundleEntry<'_>]) -> PathBuf {
    let bundle = place.join("hostile.tar.zst");
    let file = fs::File::create(&bundle).unwrap();
    let mut archive = Builder::new(zstd::stream::write::Encoder::new(file, 1).unwrap());
    for (name, kind, content) in entries {
        let mut header = Header::new_gnu();
        // The library refuses such names, but an attacker can write them.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
    bundle
}

fn list(run: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let sum = |content: &[u8]| Sha256::digest(content).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let files = files.iter().map(|(name, content)| BundleFile {
        name: (*name).to_owned(),
        bytes: content.len() as u64,
        sha256: sum(content),
    });
    serde_json::to_vec(&BundleList { format: 1, run: run.to_owned(), files: files.collect() }).unwrap()
}

#[test]
fn hostile_bundles_are_refused_and_write_nothing() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let manifest = serde_json::to_vec(&Manifest::new("disk", "0", [])).unwrap();
    let good = list("r", &[("manifest.json", &manifest)]);
    let file = EntryType::Regular;
    let of = |run: &str, name: &str| list(run, &[(name, &manifest), ("manifest.json", &manifest)]);
    let heads = [
        of("../r", "findings.json"),
        of("/tmp/r", "findings.json"),
        of(".hidden", "findings.json"),
        of("r", "../../etc/cron.d/x"),
        of("r", "/etc/cron.d/x"),
        of("r", "latency/../../x.hlog"),
        of("r", "latency/.hlog"),
        of("r", "evil.sh"),
        of("r", "manifest.json"),
        list("r", &[("findings.json", b"[]")]),
        b"{}".to_vec(),
    ];
    for head in &heads {
        let shown = String::from_utf8_lossy(head).into_owned();
        let entries: [BundleEntry<'_>; 2] = [(LIST, file, head), ("r/manifest.json", file, &manifest)];
        assert!(unpack(&by_hand(here.path(), &entries), there.path(), MAX_BYTES).is_err(), "{shown}");
    }
    let wrong: [&[BundleEntry<'_>]; 8] = [
        &[],
        &[("r/manifest.json", file, &manifest)],
        &[(LIST, file, &good)],
        &[(LIST, file, &good), ("../manifest.json", file, &manifest)],
        &[(LIST, file, &good), ("r/manifest.json", EntryType::Symlink, b"")],
        &[(LIST, file, &good), ("r/manifest.json", EntryType::Link, &manifest)],
        &[(LIST, file, &good), ("r/manifest.json", file, b"other")],
        &[(LIST, file, &good), ("r/manifest.json", file, &manifest), ("r/findings.json", file, b"[]")],
    ];
    for (number, entries) in wrong.iter().enumerate() {
        let refused = unpack(&by_hand(here.path(), entries), there.path(), MAX_BYTES);
        assert!(refused.is_err(), "number {number}");
    }
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);
    let entries: [BundleEntry<'_>; 2] = [(LIST, file, &good), ("r/manifest.json", file, &manifest)];
    unpack(&by_hand(here.path(), &entries), there.path(), MAX_BYTES).unwrap();
}

#[test]
fn a_manifest_that_no_list_of_runs_can_show_is_not_imported() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut timeless = Manifest::new("disk", "0", []);
    timeless.started = "soon".into();
    let large = format!("{{{}", " ".repeat(5 << 20));
    for (manifest, why) in
        [(serde_json::to_vec(&timeless).unwrap(), "time of its start"), (large.into_bytes(), "manifest of")]
    {
        let head = list("r", &[("manifest.json", &manifest)]);
        let entries: [BundleEntry<'_>; 2] =
            [(LIST, EntryType::Regular, &head), ("r/manifest.json", EntryType::Regular, &manifest)];
        let refused = unpack(&by_hand(here.path(), &entries), there.path(), MAX_BYTES).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);
}

#[test]
fn a_run_whose_name_a_shell_would_take_for_an_option_is_refused() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let manifest = serde_json::to_vec(&Manifest::new("disk", "0", [])).unwrap();
    let head = list("-rf", &[("manifest.json", &manifest)]);
    let entries: [BundleEntry<'_>; 2] =
        [(LIST, EntryType::Regular, &head), ("-rf/manifest.json", EntryType::Regular, &manifest)];
    let refused = unpack(&by_hand(here.path(), &entries), there.path(), MAX_BYTES).unwrap_err();
    assert!(refused.to_string().contains("name of its run"), "{refused}");
}

#[test]
fn names_of_any_length_and_what_lies_behind_the_end_are_refused() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let manifest = serde_json::to_vec(&Manifest::new("disk", "0", [])).unwrap();
    let good = list("r", &[("manifest.json", &manifest)]);
    let file = EntryType::Regular;
    let plain: [BundleEntry<'_>; 2] = [(LIST, file, &good), ("r/manifest.json", file, &manifest)];
    // The library alone would keep it in memory, whatever its size.
    let endless = vec![b'x'; 3 << 20];
    let with_name = [plain[0], ("././@LongLink", EntryType::GNULongName, &endless), plain[1]];
    let refused = unpack(&by_hand(here.path(), &with_name), there.path(), MAX_BYTES).unwrap_err();
    assert!(refused.to_string().contains("a name in it has 3145728 bytes"), "{refused}");
    let other = b"18 path=evil/name\n";
    let with_other = [plain[0], ("x", EntryType::XHeader, other), plain[1]];
    unpack(&by_hand(here.path(), &with_other), there.path(), MAX_BYTES).unwrap_err();
    let mut archive = zstd::decode_all(fs::read(by_hand(here.path(), &plain)).unwrap().as_slice()).unwrap();
    archive.extend(b"and more");
    let bundle = here.path().join("b.tar.zst");
    fs::write(&bundle, zstd::encode_all(archive.as_slice(), 1).unwrap()).unwrap();
    let refused = unpack(&bundle, there.path(), MAX_BYTES).unwrap_err();
    assert!(refused.to_string().contains("more than its list says"), "{refused}");
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);
}

#[test]
fn a_name_longer_than_a_header_holds_comes_back() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = run(here.path());
    let long = format!("latency/{}.hlog", "operation.".repeat(20));
    fs::copy(run.path.join("latency/read.service.hlog"), run.path.join(&long)).unwrap();
    let bundle = here.path().join("b.tar.zst");
    fs::write(&bundle, packed(&look(&run.path).unwrap())).unwrap();
    let unpacked = unpack(&bundle, there.path(), MAX_BYTES).unwrap();
    assert!(unpacked.folder.join(&long).is_file());
}

#[test]
fn a_bundle_may_become_a_folder_of_another_name_and_makes_none_around_it() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = packed(&run(here.path()));
    let called = Path::new("the recording");
    let folder = there.path().join("mine");
    assert_eq!(unpack_as(bytes.as_slice(), called, &folder, MAX_BYTES).unwrap().folder, folder);
    assert!(look(&folder).is_ok());
    let taken = unpack_as(bytes.as_slice(), called, &folder, MAX_BYTES).unwrap_err();
    assert!(taken.to_string().contains("already exists"), "{taken}");
    assert!(unpack_as(bytes.as_slice(), called, &there.path().join("no/such"), MAX_BYTES).is_err());
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 1);
}

#[test]
fn a_link_in_the_place_of_a_file_is_not_packed() {
    let here = tempfile::tempdir().unwrap();
    let run = run(here.path());
    let results = run.path.join("results.jsonl");
    fs::rename(&results, here.path().join("secret")).unwrap();
    std::os::unix::fs::symlink(here.path().join("secret"), &results).unwrap();
    // It was a file when the folder was listed.
    pack(&run, std::io::sink()).unwrap_err();
}

#[test]
fn a_run_that_goes_on_is_not_packed() {
    let here = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(here.path(), Manifest::new("disk", "0.0.0", [])).unwrap();
    let error = pack(&look(writer.folder()).unwrap(), std::io::sink()).unwrap_err();
    assert!(error.to_string().contains("still running"), "{error}");
}
