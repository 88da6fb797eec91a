//! A write that stays open before its commit is shown as an idle transaction, and ends as mongod's do.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_client::{Connection, Target};
use fathom_testkit::TIMEOUT;

use super::support::{ENGINES, Lab, at, found, number, run, run_on, status, text};

/// A server on which an update of the application `checkout` stays open.
struct HeldUpdate {
    lab: Lab,
    watcher: Connection,
    update: JoinHandle<Result<(), i32>>,
}

fn shown(connection: &mut Connection, options: &Document) -> Vec<Document> {
    let stages =
        [doc! { "$currentOp": options.clone() }, doc! { "$match": { "desc": "inactive transaction" } }];
    let command = doc! { "aggregate": 1, "pipeline": stages.to_vec(), "cursor": {} };
    let reply = run_on(connection, "admin", &command);
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|one| one.as_document().unwrap().clone()).collect()
}

impl HeldUpdate {
    fn start() -> HeldUpdate {
        let lab = Lab::start_with(ENGINES[2], |config| {
            config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
        });
        let mut watcher = lab.connect();
        run(&mut watcher, &doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }] });
        let hold = doc! { "configureFailPoint": "holdTransaction", "mode": "alwaysOn", "data": { "appName": "checkout" } };
        run_on(&mut watcher, "admin", &hold);
        let target = Target { app_name: Some("checkout".to_owned()), ..lab.target() };
        let update = std::thread::spawn(move || {
            let updates = [doc! { "q": { "_id": 1 }, "u": { "$set": { "a": 2 } } }];
            let command =
                doc! { "update": "c", "updates": updates.to_vec(), "lsid": { "id": bson::Uuid::new() } };
            let mut connection = Connection::connect(&target).unwrap();
            let ended = connection.run("test", &command).map(drop);
            ended.map_err(|error| error.failure().unwrap().code().0)
        });
        HeldUpdate { lab, watcher, update }
    }

    fn idle(&mut self) -> Document {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let [one] =
                shown(&mut self.watcher, &doc! { "allUsers": true, "idleSessions": true }).as_slice()
            {
                return one.clone();
            }
            assert!(Instant::now() < until, "no session is idle");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn open_transactions(connection: &mut Connection) -> [i64; 3] {
    let status = status(connection);
    ["currentOpen", "currentInactive", "totalStarted"]
        .map(|name| number(&status, &format!("transactions.{name}")))
}

#[test]
fn a_session_with_an_idle_transaction_is_shown_as_mongod_shows_it_until_it_is_killed() {
    let mut held = HeldUpdate::start();
    let one = held.idle();
    assert_eq!((text(&one, "type"), text(&one, "appName")), ("idleSession", "checkout"));
    assert_eq!((at(&one, "active"), at(&one, "waitingForLock")), (&Bson::from(false), &Bson::from(false)));
    assert_eq!(at(&one, "locks"), &Bson::from(doc! { "Global": "w", "Collection": "w" }));
    let time = |name: &str| number(&one, &format!("transaction.{name}"));
    assert_eq!(time("timeOpenMicros"), time("timeActiveMicros") + time("timeInactiveMicros"));
    assert_eq!(text(&one, "transaction.parameters.readConcern.level"), "snapshot");
    // It runs nothing, so it has neither a number nor a namespace.
    assert!(["opid", "ns", "command", "secs_running"].iter().all(|name| !one.contains_key(name)), "{one}");
    assert_eq!(open_transactions(&mut held.watcher), [1, 1, 1]);
    let others = shown(&mut held.watcher, &doc! { "allUsers": true, "idleSessions": false });
    assert_eq!(others, [] as [Document; 0]);
    // The session as it is shown, with the digest of its owner.
    let pattern = doc! { "lsid": one.get_document("lsid").unwrap().clone() };
    run_on(&mut held.watcher, "admin", &doc! { "killAllSessionsByPattern": [pattern] });
    assert_eq!(held.update.join().unwrap(), Err(11601));
    assert_eq!(open_transactions(&mut held.watcher), [0, 0, 1]);
    assert_eq!(number(&found(&mut held.watcher, &doc! { "find": "c" })[0], "a"), 1, "it was rolled back");
    drop(held.lab);
}

#[test]
fn it_commits_once_it_is_released() {
    let mut held = HeldUpdate::start();
    held.idle();
    run_on(&mut held.watcher, "admin", &doc! { "configureFailPoint": "holdTransaction", "mode": "off" });
    assert_eq!(held.update.join().unwrap(), Ok(()));
    assert_eq!(number(&found(&mut held.watcher, &doc! { "find": "c" })[0], "a"), 2);
    drop(held.lab);
}
