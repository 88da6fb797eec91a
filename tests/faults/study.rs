//! A study of one fault: how its runs are recorded, and what must be said of them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_testkit::{DisturbanceLimit, Fathom, Scratch, assert, undisturbed};

use super::diagnosis::Diagnosis;
use super::recorder::Recorder;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");

/// The disturbance up to which the figures of a watched load count: operations come at a few hundred a second and wait for
/// milliseconds.
const LIMIT: DisturbanceLimit = DisturbanceLimit { standstill: Duration::from_millis(200), wait_share: 0.6 };
/// For each server that a run watched.
const MAX_BUNDLE_BYTES: u64 = 200 << 10;

pub(crate) struct FaultStudy {
    pub(crate) name: &'static str,
    /// Makes the fault and keeps the run folders.
    pub(crate) record: fn(&mut Recorder),
    /// Fails where the fault is not named, or something else is.
    pub(crate) check: fn(&Recording),
}

/// The run folders of one study by their names.
pub(crate) struct Recording {
    pub(crate) runs: BTreeMap<String, PathBuf>,
    /// The folder that holds them.
    pub(crate) _scratch: Scratch,
}

impl Recording {
    pub(crate) fn folder(&self, name: &str) -> &Path {
        self.runs.get(name).unwrap_or_else(|| panic!("no run {name} in {:?}", self.runs.keys()))
    }

    pub(crate) fn diagnosis(&self, name: &str) -> Diagnosis {
        Diagnosis::of_run(self.folder(name))
    }
}

impl FaultStudy {
    /// Checks what is said of the bundles that this repository holds.
    pub(crate) fn check_bundles(&self) {
        let scratch = Scratch::new().unwrap();
        let prefix = format!("{}.", self.name);
        let mut runs = BTreeMap::new();
        for entry in fs::read_dir(bundles()).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            let Some(name) = file.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".tar.zst")) else {
                continue;
            };
            runs.insert(name.to_owned(), import_bundle(&path, &scratch.path().join(name)));
        }
        assert!(!runs.is_empty(), "no bundle of {} in {}", self.name, bundles().display());
        (self.check)(&Recording { runs, _scratch: scratch });
    }

    /// Records new runs on this machine's devices and checks them; with `RECORD=1` the bundles are written too.
    pub(crate) fn prove(&self) {
        let recording = undisturbed(LIMIT, || {
            let mut recorder = Recorder::new();
            (self.record)(&mut recorder);
            recorder.finish()
        });
        (self.check)(&recording);
        if env::var_os("RECORD").is_some_and(|word| word == "1") {
            self.write_bundles(&recording);
        }
    }

    fn write_bundles(&self, recording: &Recording) {
        fs::create_dir_all(bundles()).unwrap();
        for (name, folder) in &recording.runs {
            let bundle = bundles().join(format!("{}.{name}.tar.zst", self.name));
            let _ = fs::remove_file(&bundle);
            // Latency logs are half of a long run, and no check reads them.
            let _ = fs::remove_dir_all(folder.join("latency"));
            Fathom::new(PROGRAM)
                .args(["runs", "export"])
                .arg(folder)
                .arg("--output")
                .arg(&bundle)
                .run()
                .expect_code(0);
            let bytes = fs::metadata(&bundle).unwrap().len();
            println!("{}: {bytes} bytes", bundle.display());
            let servers = Diagnosis::of_run(folder).document["members"].as_array().map_or(1, Vec::len) as u64;
            assert!(bytes <= servers.max(1) * MAX_BUNDLE_BYTES, "{bytes} bytes are too many to keep");
        }
    }
}

/// Unpacks a bundle below `into`, and returns its run folder.
pub(crate) fn import_bundle(bundle: &Path, into: &Path) -> PathBuf {
    let import = Fathom::new(PROGRAM).args(["runs", "import"]).arg(bundle).arg("--runs").arg(into);
    import.run().expect_code(0);
    only_entry(into)
}

/// Where the bundles are.
fn bundles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/faults/bundles")
}

/// The one entry of a folder.
pub(crate) fn only_entry(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder).unwrap();
    let entry = entries.next().unwrap_or_else(|| panic!("{} is empty", folder.display())).unwrap().path();
    assert!(entries.next().is_none(), "{} has several entries", folder.display());
    entry
}
