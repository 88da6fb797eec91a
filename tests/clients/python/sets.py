"""A replica set of three, found from one of its members. Members 2 and 3 have the tag `dc: west`, the third is on RocksDB; the mode
`dcs` wants both places. Faults are made by `fathom cluster` (the program is in the variable FATHOM)."""

import os
import subprocess
import threading
import time

from pymongo import DeleteOne, InsertOne, MongoClient, ReadPreference, UpdateOne, WriteConcern, monitoring
from pymongo.errors import AutoReconnect, ConfigurationError, NotPrimaryError, PyMongoError, ServerSelectionTimeoutError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Nearest, PrimaryPreferred, Secondary, SecondaryPreferred

from harness import check, equal, fails

PATIENCE = 60


class Watcher(monitoring.CommandListener, monitoring.ServerListener):
    """What was sent to whom, and how the driver's view of the set changed."""

    def __init__(self):
        self.sent = []
        self.changes = []

    def started(self, event):
        self.sent.append((event.command_name, event.connection_id, event.command))

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass

    def opened(self, event):
        pass

    def closed(self, event):
        pass

    def description_changed(self, event):
        kinds = (event.previous_description.server_type_name, event.new_description.server_type_name)
        if kinds[0] != kinds[1]:
            self.changes.append((event.server_address, *kinds))

    def asked(self, name):
        """The members that the command went to, and forgets them."""
        found = [address for command, address, _ in self.sent if command == name]
        self.sent.clear()
        return found

    def numbers(self, name):
        """The transaction numbers with which the command was sent, and forgets them."""
        found = [body.get("txnNumber") for command, _, body in self.sent if command == name]
        self.sent.clear()
        return found


def cluster(c, action, *arguments):
    """`fathom cluster`, which must succeed."""
    command = [os.environ["FATHOM"], "cluster", action, "--dir", c.extra, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def until(what, look):
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.02)
    return found


def connect(c, **options):
    """A client that knows one member of the set, and what it saw."""
    watcher = Watcher()
    options = {"replicaSet": "replset", "heartbeatFrequencyMS": 500, "serverSelectionTimeoutMS": PATIENCE * 1000} | options
    return MongoClient(f"mongodb://localhost:{c.port}/", event_listeners=[watcher], **options), watcher


def whole(client):
    """Waits until the driver knows the primary and two secondaries; their addresses."""
    until("a primary and two secondaries", lambda: client.primary and len(client.secondaries) == 2)
    return client.primary, client.secondaries


def failpoint(client, name, mode, **data):
    client.admin.command("configureFailPoint", name, mode=mode, data=data)


def not_primary(function, *arguments):
    """Calls what only a primary does; the driver has an error of its own for the code."""
    try:
        function(*arguments)
    except NotPrimaryError as error:
        equal((error.details["code"], error.details["codeName"]), (10107, "NotWritablePrimary"))
        return
    raise AssertionError("a secondary did it")


@check("set-topology")
def topology(c):
    c.set, c.watcher = connect(c)
    c.things = c.set.python.things
    primary, secondaries = whole(c.set)
    equal(len({primary, *secondaries}), 3)
    seen = c.set.topology_description
    equal((seen.topology_type_name, seen.replica_set_name), ("ReplicaSetWithPrimary", "replset"))
    conf = c.set.admin.command("replSetGetConfig")["config"]
    equal(seen.max_set_version, conf["version"])
    for server in seen.server_descriptions().values():
        member = next(m for m in conf["members"] if m["host"] == "%s:%d" % server.address)
        equal((dict(server.tags), server.set_version), (dict(member["tags"]), conf["version"]))
        equal((server.address, server.primary), (server.me, primary))
        assert server.last_write_date and server.logical_session_timeout_minutes == 30, server
    assert seen.max_election_id is not None
    # Events come from a thread of their own.
    until("events of all", lambda: {"RSPrimary", "RSSecondary"} == {kind for _, _, kind in c.watcher.changes})


@check("set-read-preferences")
def read_preferences(c):
    primary, secondaries = whole(c.set)
    c.things.with_options(write_concern=WriteConcern(w=3)).insert_many([{"_id": n} for n in range(300)])
    for preference, wanted in [
        (ReadPreference.PRIMARY, {primary}),
        (PrimaryPreferred(), {primary}),
        (Secondary(), secondaries),
        (SecondaryPreferred(), secondaries),
        (Nearest(), {primary, *secondaries}),
    ]:
        things = c.things.with_options(read_preference=preference)
        c.watcher.sent.clear()
        equal(things.find_one({"_id": 7}), {"_id": 7})
        equal(things.count_documents({}), 300)
        equal(len(things.distinct("_id")), 300)
        for name in ["find", "aggregate", "distinct"]:
            asked = [address for command, address, _ in c.watcher.sent if command == name]
            assert asked and set(asked) <= wanted, (preference, name, asked, wanted)
        cursor = things.find({}, batch_size=100)
        equal(len(list(cursor)), 300)
        equal(set(c.watcher.asked("getMore")), {cursor.address})
    # Reads spread over both secondaries.
    some = c.things.with_options(read_preference=Secondary())
    until("both secondaries are read", lambda: some.find_one() and {a for n, a, _ in c.watcher.sent if n == "find"} == secondaries)


@check("set-tag-sets")
def tag_sets(c):
    rocks = int(c.set.admin.command("replSetGetConfig")["config"]["members"][2]["host"].split(":")[1])
    for preference, wanted in [
        (Secondary(tag_sets=[{"dc": "west", "engine": "rocksdb"}]), {rocks}),
        (Nearest(tag_sets=[{"dc": "nowhere"}, {"engine": "rocksdb"}]), {rocks}),
        (SecondaryPreferred(tag_sets=[{"dc": "nowhere"}]), {c.set.primary[1]}),
    ]:
        c.watcher.sent.clear()
        equal(c.things.with_options(read_preference=preference).find_one({"_id": 1}), {"_id": 1})
        equal({address[1] for address in c.watcher.asked("find")}, wanted)
    other, _ = connect(c, serverSelectionTimeoutMS=300)
    with other:
        nowhere = other.python.things.with_options(read_preference=Secondary(tag_sets=[{"dc": "nowhere"}]))
        try:
            nowhere.find_one()
            raise AssertionError("read from nowhere")
        except ServerSelectionTimeoutError:
            pass


@check("set-max-staleness")
def max_staleness(c):
    _, secondaries = whole(c.set)
    things = c.things.with_options(read_preference=Secondary(max_staleness=90))
    c.watcher.sent.clear()
    equal(things.find_one({"_id": 1}), {"_id": 1})
    assert set(c.watcher.asked("find")) <= secondaries
    try:
        c.things.with_options(read_preference=Secondary(max_staleness=5)).find_one()
        raise AssertionError("5 seconds were taken")
    except ConfigurationError:
        pass


@check("set-read-concern")
def read_concern(c):
    c.things.with_options(write_concern=WriteConcern("majority")).insert_one({"_id": "majority"})
    for level in ["local", "available", "majority", "linearizable"]:
        equal(c.things.with_options(read_concern=ReadConcern(level)).find_one({"_id": "majority"}), {"_id": "majority"})
    away = c.things.with_options(read_preference=Secondary(), read_concern=ReadConcern("majority"))
    until("a secondary knows what a majority has", lambda: away.find_one({"_id": "majority"}))
    not_primary(c.things.with_options(read_preference=Secondary(), read_concern=ReadConcern("linearizable")).find_one)


@check("set-causal")
def causal(c):
    with c.set.start_session(causal_consistency=True) as session:
        away = c.things.with_options(read_preference=Secondary())
        for n in range(50):
            before = session.operation_time
            c.things.insert_one({"_id": f"causal-{n}"}, session=session)
            assert before is None or session.operation_time > before
            equal(away.find_one({"_id": f"causal-{n}"}, session=session), {"_id": f"causal-{n}"})
        assert session.cluster_time["clusterTime"] >= session.operation_time
    # Another session goes on from there, on a majority.
    with c.set.start_session() as other:
        other.advance_operation_time(session.operation_time)
        other.advance_cluster_time(session.cluster_time)
        sure = away.with_options(read_concern=ReadConcern("majority"))
        equal(sure.count_documents({"_id": {"$regex": "^causal-"}}, session=other), 50)


@check("set-write-concern")
def write_concern(c):
    for n, concern in enumerate([{"w": 1}, {"w": 2}, {"w": 3}, {"w": "majority"}, {"w": "dcs"}, {"w": 1, "j": True}, {"w": 3, "j": True}]):
        written = c.things.with_options(write_concern=WriteConcern(wtimeout=PATIENCE * 1000, **concern)).insert_one({"_id": f"w-{n}"})
        assert written.acknowledged
    for address in [c.set.primary, *c.set.secondaries]:
        with MongoClient(*address, directConnection=True) as direct:
            equal(direct.python.things.count_documents({"_id": "w-6"}), 1)


@check("set-write-concern-unsatisfiable")
def unsatisfiable(c):
    for concern, code, name in [(4, 100, "UnsatisfiableWriteConcern"), ("nowhere", 79, "UnknownReplWriteConcern")]:
        some = c.things.with_options(write_concern=WriteConcern(w=concern))
        error = fails(code, some.insert_one, {"_id": f"unsatisfiable-{concern}"})
        equal(error.details["codeName"], name)
        fails(code, some.update_one, {"_id": 1}, {"$inc": {"n": 1}})
        fails(code, c.set.python.create_collection, f"made-{concern}", write_concern=WriteConcern(w=concern))
        # The write stays.
        equal(c.things.count_documents({"_id": f"unsatisfiable-{concern}"}), 1)
    equal(c.things.find_one({"_id": 1}), {"_id": 1, "n": 2})


@check("set-write-concern-timeout")
def timeout(c):
    cluster(c, "pause", "secondary", "1")
    try:
        late = c.things.with_options(write_concern=WriteConcern(w=3, wtimeout=300))
        error = fails(64, late.insert_one, {"_id": "late"})
        equal(error.details["errInfo"]["wtimeout"], True)
        wanted = error.details["errInfo"]["writeConcern"]
        equal((wanted["w"], wanted["wtimeout"]), (3, 300))
        fails(64, late.update_one, {"_id": "late"}, {"$inc": {"n": 1}})
        # The write stays, and a majority can still be had.
        majority = c.things.with_options(write_concern=WriteConcern("majority", wtimeout=PATIENCE * 1000))
        equal(majority.find_one_and_update({"_id": "late"}, {"$inc": {"n": 1}}, return_document=True), {"_id": "late", "n": 2})
    finally:
        cluster(c, "resume", "all")
    c.things.with_options(write_concern=WriteConcern(w=3, wtimeout=PATIENCE * 1000)).delete_one({"_id": "late"})
    whole(c.set)


@check("set-direct")
def direct(c):
    _, secondaries = whole(c.set)
    with MongoClient(*next(iter(secondaries)), directConnection=True) as client:
        equal((client.topology_description.topology_type_name, client.is_primary), ("Single", False))
        hello = client.admin.command("hello")
        equal((hello["secondary"], hello["isWritablePrimary"], hello["setName"]), (True, False, "replset"))
        not_primary(client.python.things.insert_one, {"_id": "direct"})
        not_primary(client.python.create_collection, "direct")
        equal(client.python.things.find_one({"_id": 2}), {"_id": 2})
    with MongoClient(*next(iter(secondaries)), replicaSet="other", serverSelectionTimeoutMS=300) as client:
        try:
            client.admin.command("ping")
            raise AssertionError("a set of another name was taken")
        except ServerSelectionTimeoutError:
            pass


@check("set-transactions-refused")
def transactions_refused(c):
    with c.set.start_session() as session:
        session.start_transaction()
        error = fails(263, c.things.insert_one, {"_id": "transaction"}, session=session)
        assert "no multi-document transactions" in str(error), error
    equal(c.things.count_documents({"_id": "transaction"}), 0)


@check("set-change-streams-refused")
def change_streams_refused(c):
    error = fails(40573, c.things.watch)
    assert "no change streams" in str(error), error


def written(collection, n):
    """Every kind of write that a driver sends again, each by itself; what it must leave behind."""
    yield "insert", lambda: collection.insert_one({"_id": n, "n": 0})
    yield "insert", lambda: collection.insert_many([{"_id": f"{n}-{m}"} for m in range(5)])
    yield "update", lambda: collection.update_one({"_id": n}, {"$inc": {"n": 1}})
    yield "findAndModify", lambda: collection.find_one_and_update({"_id": n}, {"$inc": {"n": 1}})
    yield "update", lambda: collection.update_one({"_id": f"up-{n}"}, {"$inc": {"n": 1}}, upsert=True)
    yield "delete", lambda: collection.delete_one({"_id": f"{n}-0"})
    yield "insert", lambda: collection.bulk_write([InsertOne({"_id": f"bulk-{n}"})])
    yield "update", lambda: collection.bulk_write([UpdateOne({"_id": n}, {"$inc": {"n": 1}}), DeleteOne({"_id": f"{n}-1"})])


def once_only(c, n, name, data):
    """Each kind of write, hit once by the fail point: sent twice under one number, done once."""
    kinds = c.set.python.kinds
    kinds.insert_one({"_id": f"before-{n}"})
    for command, write in written(kinds, n):
        own = {"failCommands": [command]} if name == "failCommand" else {}
        failpoint(c.set, name, {"times": 1}, **own, **data)
        c.watcher.sent.clear()
        write()
        numbers = c.watcher.numbers(command)
        assert len(numbers) == 2 and numbers[0] == numbers[1], (command, numbers)
    equal(kinds.find_one({"_id": n}), {"_id": n, "n": 3})
    equal(kinds.find_one({"_id": f"up-{n}"}), {"_id": f"up-{n}", "n": 1})
    equal(kinds.count_documents({"_id": {"$in": [f"{n}-{m}" for m in range(5)] + [f"bulk-{n}"]}}), 4)


@check("set-retryable-before")
def retryable_before(c):
    once_only(c, 1, "failCommand", {"closeConnection": True})
    once_only(c, 2, "failCommand", {"errorCode": 91, "errorLabels": ["RetryableWriteError"]})
    failpoint(c.set, "failCommand", {"times": 1}, failCommands=["insert"], closeConnection=True)
    other, _ = connect(c, retryWrites=False)
    with other:
        try:
            other.python.things.insert_one({"_id": "not sent again"})
            raise AssertionError("it was sent again")
        except AutoReconnect:
            pass
    equal(c.things.count_documents({"_id": "not sent again"}), 0)


@check("set-retryable-after")
def retryable_after(c):
    once_only(c, 3, "onPrimaryTransactionalWrite", {})
    error = {"code": 91, "codeName": "ShutdownInProgress", "errmsg": "made up"}
    once_only(c, 4, "failCommand", {"writeConcernError": error, "errorLabels": ["RetryableWriteError"]})


@check("set-retryable-reads")
def retryable_reads(c):
    whole(c.set)
    for name, read in [("find", lambda: c.things.find_one({"_id": 2})), ("distinct", lambda: c.things.distinct("_id")), ("aggregate", lambda: c.things.count_documents({}))]:
        failpoint(c.set, "failCommand", {"times": 1}, failCommands=[name], closeConnection=True)
        c.watcher.sent.clear()
        assert read()
        equal(len(c.watcher.asked(name)), 2)


class Writer(threading.Thread):
    """Writes one thing after the other until it is told to stop, and keeps what was acknowledged."""

    def __init__(self, collection, name):
        super().__init__()
        self.collection = collection.with_options(write_concern=WriteConcern("majority"))
        self.name_of_round = name
        self.tried, self.acknowledged, self.failed = 0, [], []
        self.counted, self.done = 0, False

    def run(self):
        while not self.done:
            name = f"{self.name_of_round}-{self.tried}"
            self.tried += 1
            try:
                self.collection.insert_one({"_id": name, "round": self.name_of_round})
                self.acknowledged.append(name)
                self.collection.update_one({"_id": self.name_of_round}, {"$inc": {"n": 1}}, upsert=True)
                self.counted += 1
            except PyMongoError as error:
                self.failed.append(error)

    def wait_for_more(self):
        goal = self.counted + 20
        until("20 more writes", lambda: self.counted >= goal or not self.is_alive())
        assert self.is_alive()

    def end(self):
        self.done = True
        self.join()
        there = {d["_id"] for d in self.collection.find({"round": self.name_of_round})}
        lost = set(self.acknowledged) - there
        assert not lost, f"{len(lost)} acknowledged inserts are lost"
        assert len(there) <= len(self.acknowledged) + len(self.failed)
        n = self.collection.find_one({"_id": self.name_of_round})["n"]
        assert self.counted <= n <= self.counted + len(self.failed), (n, self.counted, self.failed)


def failover(c, name, fault):
    """Writes go on while the primary goes; the driver follows, and each write is there once."""
    primary, _ = whole(c.set)
    writer = Writer(c.set.python.rounds, name)
    writer.start()
    try:
        writer.wait_for_more()
        c.watcher.changes.clear()
        fault()
        until("another primary", lambda: c.set.primary not in (None, primary))
        writer.wait_for_more()
        now = c.set.primary
        until("an event of the new primary", lambda: any(a == now and kind == "RSPrimary" for a, _, kind in c.watcher.changes))
        until("an event of the old primary", lambda: any(a == primary and kind == "RSPrimary" for a, kind, _ in c.watcher.changes))
    finally:
        writer.end()


@check("set-step-down")
def step_down(c):
    def fault():
        try:
            c.set.admin.command("replSetStepDown", 20, secondaryCatchUpPeriodSecs=10)
        except AutoReconnect:
            pass

    failover(c, "stepped-down", fault)


@check("set-kill")
def kill(c):
    failover(c, "killed", lambda: cluster(c, "kill", "--signal", "KILL", "primary"))
    cluster(c, "start")
    whole(c.set)
    c.things.with_options(write_concern=WriteConcern(w=3, wtimeout=PATIENCE * 1000)).insert_one({"_id": "all are back"})
