//! A cache that is far smaller than the data.

use fathom_testkit::{Bytes, Filesystem, RealDisk};

use crate::study::{NO_CACHE, Study, alone};

#[test]
fn a_small_cache_shows_as_reads_of_pages_and_eviction() {
    let _alone = alone();
    let Some(disk) = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30)).unwrap() else { return };
    let study = Study::start("wiredTiger", disk.path(), &NO_CACHE, 60_000);
    let words = [
        "-threads",
        "8",
        "-target",
        "1000",
        "-p",
        "requestdistribution=uniform",
        "-p",
        "readproportion=1",
        "-p",
        "updateproportion=0",
    ];
    let judged = study.watched(study.server.port(), 30, &words);
    if judged.is_disturbed() {
        return;
    }
    let share = |layer: &str| {
        let budget = judged.budget("reads");
        let layers = budget["layers"].as_array().unwrap();
        layers.iter().find(|one| one["name"] == layer).map_or(0.0, |one| one["share"].as_f64().unwrap())
    };
    println!("page_read {:.2} evict {:.2}", share("page_read"), share("evict"));
    assert!(share("page_read") > 0.2, "{:#?}", judged.document);
    assert!(judged.finding("cache-misses-on-path").is_some(), "{:#?}", judged.document["findings"]);
    study.stop();
    disk.undo().unwrap();
}
