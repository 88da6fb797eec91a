//! The server's figures on its event loops, and the means to move connections to them.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_server::Server;

use super::{connect, run};

/// The limit of a wait for an event, which only a server that hangs reaches.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

/// The executor's figures in `serverStatus`, read on a connection that no loop ever serves.
pub(crate) fn figures(server: &Server) -> Document {
    let status = run(&mut connect(server), "admin", &doc! { "serverStatus": 1 });
    let network = status.get_document("network").unwrap();
    network.get_document("serviceExecutorTaskStats").unwrap().clone()
}

pub(crate) fn figure(server: &Server, name: &str) -> i64 {
    figures(server).get_i64(name).unwrap()
}

pub(crate) fn in_loops(server: &Server) -> i64 {
    figure(server, "connectionsInEventLoops")
}

/// Makes connections send brief queries until loops serve all of them.
pub(crate) fn brought(server: &Server, connections: &mut [Connection]) {
    let until = Instant::now() + TIMEOUT;
    while in_loops(server) < i64::try_from(connections.len()).unwrap() {
        assert!(Instant::now() < until, "loops did not take the connections: {:?}", figures(server));
        for connection in connections.iter_mut() {
            (0..4).for_each(|id| read(connection, id));
        }
    }
}

pub(crate) fn read(connection: &mut Connection, id: i32) {
    let reply = run(connection, "test", &doc! { "find": "c", "filter": { "_id": id }, "limit": 1 });
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch, &bson::Array::from([doc! { "_id": id, "square": id * id }.into()]), "{reply}");
}
