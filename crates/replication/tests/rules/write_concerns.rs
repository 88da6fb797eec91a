//! When a write concern is satisfied, by docs/methods.md#write-concern.

use bson::{Document, doc};
use fathom_replication::commit_point::majority_optime;
use fathom_replication::write_concern::{SetProgress, Waits};
use fathom_replication::{OpTime, Progress, ReplicaSetConfig, WriteConcern};
use fathom_wire::Code;

use crate::desk::{at, both, config};

fn concern(document: Document) -> WriteConcern {
    WriteConcern::parse(&document).unwrap()
}

/// Whether the write concern is satisfied for the entry at second 100 of term 2.
fn satisfied(config: &ReplicaSetConfig, document: Document, progress: &[Progress], snapshot: OpTime) -> bool {
    let standing = SetProgress { config, progress, own: progress[0], majority_snapshot: snapshot };
    concern(document).is_satisfied(at(100, 2), &standing).unwrap()
}

fn progress(applied: OpTime, durable: OpTime) -> Progress {
    Progress { applied, durable }
}

#[test]
fn it_is_read_as_mongod_reads_it() {
    assert_eq!(concern(doc! {}), WriteConcern::default());
    let full = concern(doc! { "w": "majority", "j": true, "wtimeout": 500 });
    assert_eq!((full.waits.clone(), full.journal), (Waits::Majority, Some(true)));
    assert_eq!(full.to_document(), doc! { "w": "majority", "j": true, "wtimeout": 500 });
    assert_eq!(concern(doc! { "w": 2.0 }).waits, Waits::Members(2));
    assert_eq!(concern(doc! { "w": "dc", "fsync": true }).journal, Some(true));
    assert_eq!(concern(doc! { "wtimeout": 0 }).timeout, None);
    for document in [
        doc! { "w": 51 },
        doc! { "w": -1 },
        doc! { "w": true },
        doc! { "j": "x" },
        doc! { "wtimeout": "x" },
        doc! { "x": 1 },
        doc! { "fsync": true, "j": true },
    ] {
        assert_eq!(WriteConcern::parse(&document).unwrap_err().code(), Code::FailedToParse, "{document}");
    }
}

#[test]
fn what_no_members_could_fulfil_is_refused_at_once() {
    let tagged = |dc: &str| doc! { "tags": { "dc": dc } };
    let modes = doc! { "getLastErrorModes": { "two": { "dc": 2 }, "three": { "dc": 3 } } };
    let set = config(&[tagged("a"), tagged("b"), tagged("b"), doc! { "arbiterOnly": true }], modes);
    for (document, code) in [
        (doc! { "w": 3 }, None),
        // The arbiter holds no data.
        (doc! { "w": 4 }, Some(Code(100))),
        (doc! { "w": "majority" }, None),
        (doc! { "w": "two" }, None),
        (doc! { "w": "three" }, Some(Code(100))),
        (doc! { "w": "none" }, Some(Code(79))),
    ] {
        let checked = concern(document.clone()).check_satisfiable(&set).err();
        assert_eq!(checked.map(|failure| failure.code()), code, "{document}");
    }
}

#[test]
fn numbers_count_members_with_data_and_this_one() {
    let set = config(
        &[Document::new(), doc! { "votes": 0, "priority": 0 }, doc! { "arbiterOnly": true }],
        Document::new(),
    );
    let (have, lack) = (both(at(100, 2)), both(at(99, 2)));
    let null = OpTime::NULL;
    assert!(satisfied(&set, doc! { "w": 2 }, &[have, have, lack], null));
    assert!(!satisfied(&set, doc! { "w": 2 }, &[have, lack, have], null), "an arbiter does not count");
    assert!(!satisfied(&set, doc! { "w": 1 }, &[lack, have, have], null), "nor does it without this one");
    // j requires journaled entries on all members.
    let applied = progress(at(100, 2), at(99, 2));
    assert!(satisfied(&set, doc! { "w": 2 }, &[have, applied, lack], null));
    assert!(!satisfied(&set, doc! { "w": 2, "j": true }, &[have, applied, lack], null));
    assert!(!satisfied(&set, doc! { "w": 1, "j": true }, &[applied, have, lack], null));
    // A member in a later term may have another history.
    assert!(!satisfied(&set, doc! { "w": 2 }, &[have, both(at(200, 3)), lack], null));
}

#[test]
fn a_majority_is_of_voters_with_data_and_visible_here() {
    let set = config(
        &[Document::new(), Document::new(), Document::new(), doc! { "votes": 0, "priority": 0 }],
        Document::new(),
    );
    let (have, lack) = (both(at(100, 2)), both(at(99, 2)));
    let applied = progress(at(100, 2), at(99, 2));
    let seen = at(100, 2);
    assert!(satisfied(&set, doc! { "w": "majority" }, &[have, have, lack, lack], seen));
    assert!(
        !satisfied(&set, doc! { "w": "majority" }, &[have, have, lack, lack], at(99, 2)),
        "not visible yet"
    );
    assert!(!satisfied(&set, doc! { "w": "majority" }, &[have, lack, lack, have], seen), "no voter");
    // The set's default implies the journal, unless j is false.
    assert!(!satisfied(&set, doc! { "w": "majority" }, &[have, applied, lack, lack], seen));
    assert!(satisfied(&set, doc! { "w": "majority", "j": false }, &[have, applied, lack, lack], seen));
    let mut relaxed = set;
    relaxed.majority_journals = false;
    assert!(satisfied(&relaxed, doc! { "w": "majority" }, &[have, applied, lack, lack], seen));
    assert!(!satisfied(&relaxed, doc! { "w": "majority", "j": true }, &[have, applied, lack, lack], seen));
}

#[test]
fn tags_count_different_values() {
    let tagged = |dc: &str, rack: &str| doc! { "tags": { "dc": dc, "rack": rack } };
    let modes = doc! { "getLastErrorModes": { "far": { "dc": 2 }, "both": { "dc": 2, "rack": 3 } } };
    let set = config(&[tagged("a", "1"), tagged("a", "2"), tagged("b", "3")], modes);
    let (have, lack) = (both(at(100, 2)), both(at(99, 2)));
    let null = OpTime::NULL;
    assert!(!satisfied(&set, doc! { "w": "far" }, &[have, have, lack], null), "one data centre twice");
    assert!(satisfied(&set, doc! { "w": "far" }, &[have, lack, have], null));
    assert!(!satisfied(&set, doc! { "w": "both" }, &[have, lack, have], null));
    assert!(satisfied(&set, doc! { "w": "both" }, &[have, have, have], null));
}

#[test]
fn the_commit_point_is_what_a_majority_has_of_the_own_term() {
    let set = config(&vec![Document::new(); 5], Document::new());
    let all = |optimes: [OpTime; 5]| majority_optime(&set, &optimes.map(both), 2);
    assert_eq!(all([at(9, 2), at(7, 2), at(8, 2), at(5, 2), at(6, 2)]), Some(at(7, 2)));
    assert_eq!(all([at(9, 2), at(7, 2), at(8, 1), at(5, 1), at(6, 1)]), None, "an earlier term");
    // MongoDB would sort these above all of ours, and rely on having stepped down.
    assert_eq!(all([at(9, 2), at(7, 2), at(8, 3), at(5, 3), at(6, 3)]), None, "a later term");
    // Applied entries count if the set does not require journals.
    let late = [progress(at(9, 2), at(3, 2)); 5];
    assert_eq!(majority_optime(&set, &late, 2), Some(at(3, 2)));
    let mut relaxed = set;
    relaxed.majority_journals = false;
    assert_eq!(majority_optime(&relaxed, &late, 2), Some(at(9, 2)));
    // With many arbiters, the majority is all data-bearing voters.
    let arbiter = doc! { "arbiterOnly": true };
    let arbiters = config(
        &[Document::new(), Document::new(), arbiter.clone(), arbiter.clone(), arbiter],
        Document::new(),
    );
    let two = [both(at(9, 2)), both(at(7, 2)), Progress::default(), Progress::default(), Progress::default()];
    assert_eq!(majority_optime(&arbiters, &two, 2), Some(at(7, 2)));
}
