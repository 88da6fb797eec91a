//! Tests of document workloads against the lab server: every kind of operation, and inserts that continue after existing documents.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_load::binding::Binding;
use fathom_load::document_workload::{DocumentShared, DocumentWorkload, Part};
use fathom_load::driving::{Arrivals, DrivingPlan, End, LoadResult, Observer, SecondMeasurements, run};
use fathom_load::measurements::{OperationMeasurements, Status};
use fathom_load::properties::Properties;
use fathom_server::config::EngineName;
use fathom_server::{Config, Server};

struct SilentObserver;

impl Observer for SilentObserver {
    fn second(&mut self, _interval: &SecondMeasurements<'_>) {}

    fn stop_asked(&mut self) -> bool {
        false
    }
}

struct ServedBinding {
    server: Server,
    binding: Binding,
}

impl ServedBinding {
    fn start() -> ServedBinding {
        let mut config = Config::default();
        config.net.port = 0;
        config.storage.db_path = Path::new("/nonexistent").to_owned();
        config.storage.engine = EngineName::Ephemeral;
        let server = Server::start_quiet(config).unwrap();
        let mut properties = Properties::default();
        properties.set("mongodb.url", &format!("mongodb://127.0.0.1:{}/shop?w=1", server.port()), "-p");
        let (binding, _) = Binding::from_properties(&properties).unwrap();
        ServedBinding { server, binding }
    }

    fn connect(&self) -> Connection {
        Connection::connect(&Target::at(Address::new("127.0.0.1", self.server.port()))).unwrap()
    }

    fn prepare(&self, workload: &DocumentWorkload, load_follows: bool) -> Arc<DocumentShared> {
        workload.prepare(&mut self.connect(), self.binding.clone(), load_follows).unwrap()
    }

    fn drive(&self, shared: &Arc<DocumentShared>, part: Part, plan: &DrivingPlan) -> LoadResult {
        let address = Address::new("127.0.0.1", self.server.port());
        let opener = move |_| Ok(Connection::connect(&Target::at(address.clone()))?.into_parts()?);
        let source = |number: usize| shared.source(part, plan.seed, number as u64);
        let ended = run(plan, opener, source, &mut SilentObserver).unwrap();
        assert_eq!(ended.end, End::Done, "{ended:?}");
        ended
    }

    fn load(&self, shared: &Arc<DocumentShared>) -> LoadResult {
        let plan = shared.workload().load().plan(shared.documents_to_load(), &plan());
        self.drive(shared, Part::Load, &plan)
    }

    fn phase(&self, shared: &Arc<DocumentShared>, place: usize, operations: u64) -> LoadResult {
        let phase = shared.workload().phases()[place].clone();
        let plan = DrivingPlan {
            operations: Some(operations),
            time: None,
            warmup: Duration::ZERO,
            ..phase.plan(&plan())
        };
        self.drive(shared, Part::Phase(place), &plan)
    }

    fn ask(&self, command: &Document) -> Document {
        let reply = self.connect().run("shop", command).unwrap();
        Document::try_from(&*reply).unwrap()
    }
}

fn plan() -> DrivingPlan {
    DrivingPlan {
        connections: 4,
        loops: 2,
        depth: 1,
        operations: None,
        time: None,
        warmup: Duration::ZERO,
        arrivals: Arrivals::Closed,
        deadline: Some(Duration::from_secs(30)),
        no_progress: Some(Duration::from_secs(30)),
        batch: 1,
        seed: 11,
        points: false,
    }
}

fn measured(ended: &LoadResult) -> BTreeMap<&str, &OperationMeasurements> {
    ended.metrics.iter().map(|(name, measured)| (name.as_str(), measured)).collect()
}

#[test]
fn every_operation_of_the_shop_is_carried_out() {
    let served = ServedBinding::start();
    let text =
        include_str!("../../../workloads/nested-orders.yaml").replace("documents: 200000", "documents: 2000");
    let text = text.replace("documents: 20000", "documents: 200");
    let workload = DocumentWorkload::parse(&text).unwrap();
    let shared = served.prepare(&workload, true);
    let documents = shared.documents_to_load();
    let ended = served.load(&shared);
    assert_eq!((ended.operations, ended.failures.len()), (documents, 0), "{:?}", ended.failures);
    assert_eq!(measured(&ended)["LOAD"].failures(), 0);
    let orders = served.ask(&doc! { "count": "orders" }).get_i32("n").unwrap();
    let indexes = served.ask(&doc! { "listIndexes": "orders" });
    assert_eq!(indexes.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 4);

    for place in 0..2 {
        let ended = served.phase(&shared, place, 2000);
        assert!(ended.failures.is_empty(), "{:?}", ended.failures);
        let all = measured(&ended);
        for (name, measured) in &all {
            assert_eq!(measured.failures(), 0, "{name}");
        }
        let wanted: &[&str] = match place {
            0 => &[
                "order_by_number",
                "customer_by_email",
                "newest_of_customer",
                "paid_last_day",
                "sales_by_product",
            ],
            _ => &["place_order", "ship_oldest", "add_item", "recount", "recount.find", "recount.update"],
        };
        assert!(wanted.iter().all(|name| all.contains_key(name)), "{:?}", all.keys());
        if place == 1 {
            let placed = all["place_order"].returned(Status::Ok);
            let now = served.ask(&doc! { "count": "orders" }).get_i32("n").unwrap();
            assert_eq!(i64::from(now - orders), placed as i64);
        }
    }
}

#[test]
fn a_second_run_goes_on_behind_the_first() {
    for id in ["!sequence ", "!key ", "!join [k, !sequence ]", "!objectid ", "!objectid , n: !sequence "] {
        let served = ServedBinding::start();
        let text = format!(
            "collections: {{c: {{documents: 1500, indexes: [{{key: {{n: 1}}, sparse: true}}], document: {{_id: {id}}}}}}}\n\
             load: {{batch: 100}}\noperations: {{add: {{insert: {{collection: c, documents: 10}}}}}}"
        );
        let workload = DocumentWorkload::parse(&text).unwrap();
        let first = served.prepare(&workload, true);
        served.load(&first);
        for round in 1..=2 {
            // Nothing of the shared state is left but what the server has.
            let shared = served.prepare(&workload, false);
            assert_eq!(shared.documents_to_load(), 0, "{id}");
            let ended = served.phase(&shared, 0, 500);
            assert_eq!((ended.operations, ended.failures.len()), (500, 0), "{id}: {:?}", ended.failures);
            let n = served.ask(&doc! { "count": "c" }).get_i32("n").unwrap();
            assert_eq!(n, 1500 + 500 * round, "{id}");
        }
    }
}

#[test]
fn growth_and_transfers_run_too() {
    let served = ServedBinding::start();
    let text = include_str!("../../../workloads/insert-index-growth.yaml").replace("100000", "2000");
    let shared = served.prepare(&DocumentWorkload::parse(&text).unwrap(), true);
    served.load(&shared);
    let grown = served.phase(&shared, 0, 5000);
    assert_eq!((grown.operations, measured(&grown)["insert"].returned(Status::BatchedOk)), (5000, 4950));
    served.phase(&shared, 1, 500);

    let text = include_str!("../../../workloads/bank-transfer.yaml").replace("100000", "1000");
    let shared = served.prepare(&DocumentWorkload::parse(&text).unwrap(), true);
    served.load(&shared);
    // The lab server is not a replica set: transfers are refused, and this is reported by name once.
    let ended = served.phase(&shared, 0, 400);
    let all = measured(&ended);
    assert_eq!(all["transfer"].returned(Status::NotImplemented), all["transfer"].failures());
    assert!(all["transfer"].failures() > 100 && all["balance"].failures() == 0);
    assert_eq!(ended.failures.values().map(|failures| failures.count).collect::<Vec<_>>(), [1]);
    let ended = served.phase(&shared, 1, 400);
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    // Money moves between accounts.
    let sum = doc! { "aggregate": "accounts", "pipeline": [{ "$group": { "_id": null, "money": { "$sum": "$balance" } } }], "cursor": {} };
    let sum = served.ask(&sum);
    let money =
        sum.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].as_document().unwrap();
    assert_eq!(money.get_i64("money").unwrap(), 1_000_000);
}

#[test]
fn every_other_command_is_carried_out() {
    let served = ServedBinding::start();
    let text = "collections: {c: {documents: 500, options: {capped: false}, document: {_id: !sequence , g: !int [1, 5]}}}
operations:
  count: {count: {collection: c, filter: {g: 3}}}
  distinct: {distinct: {collection: c, key: g}}
  all: {find: {collection: c, batchSize: 50}}
  part: {aggregate: {collection: c, pipeline: [{$sort: {g: 1}}], batchSize: 20, limit: 70}}
  many: {update: {collection: c, filter: {g: !int [1, 5]}, update: {$inc: {n: 1}}, multi: true}}
  remove: {delete: {collection: c, filter: {_id: !existing {collection: c, by: sequential}}}}
  take: {findAndModify: {collection: c, filter: {g: !int [1, 5]}, sort: {_id: 1}, remove: true}}
phases: [{name: p, mix: {count: 1, distinct: 1, all: 1, part: 1, many: 1, remove: 1, take: 1}}]";
    let shared = served.prepare(&DocumentWorkload::parse(text).unwrap(), true);
    served.load(&shared);
    let ended = served.phase(&shared, 0, 500);
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    let all = measured(&ended);
    for (name, measured) in &all {
        // A document that one client deletes is missing for another.
        let missing = measured.returned(Status::NotFound);
        assert!(*name == "remove" || missing == 0, "{name}");
        assert_eq!(measured.failures(), missing, "{name}");
        assert!(measured.returned(Status::Ok) > 10, "{name}");
    }
    // Cursors that were not read to their end are closed.
    let status = served.ask(&doc! { "serverStatus": 1 });
    let open =
        status.get_document("metrics").unwrap().get_document("cursor").unwrap().get_document("open").unwrap();
    assert_eq!(open.get_i32("total").unwrap(), 0);
}

#[test]
fn the_example_of_the_page_runs() {
    let page = include_str!("../../../docs/workloads.md");
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let example = example.replace("documents: 50000", "documents: 1000").replace("rate: 2000", "rate: 500");
    let served = ServedBinding::start();
    let shared = served.prepare(&DocumentWorkload::parse(&example).unwrap(), true);
    served.load(&shared);
    for place in 0..2 {
        let ended = served.phase(&shared, place, 300);
        assert!(ended.failures.is_empty(), "{:?}", ended.failures);
        assert!(measured(&ended).values().all(|measured| measured.failures() == 0));
    }
}
