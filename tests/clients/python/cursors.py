"""Cursors over several batches, their end, and their loss."""

import threading
import time

from bson import Int64
from pymongo import CursorType, MongoClient, monitoring
from pymongo.errors import CursorNotFound

from harness import check, equal, fails


class Names(monitoring.CommandListener):
    """The names of the commands that went out."""

    def __init__(self):
        self.names = []

    def started(self, event):
        self.names.append(event.command_name)

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


@check("cursor-batches")
def cursor_batches(c):
    names = Names()
    with MongoClient(c.uri, event_listeners=[names]) as client:
        found = [one["_id"] for one in client["python"].many.find({}, {"_id": 1}).sort("_id").batch_size(600)]
    equal(found, list(range(2500)))
    equal((names.names.count("find"), names.names.count("getMore")), (1, 4))


@check("cursor-default-batch")
def cursor_default_batch(c):
    reply = c.db.command("find", "many")
    equal(len(reply["cursor"]["firstBatch"]), 101)
    more = c.db.command("getMore", Int64(reply["cursor"]["id"]), collection="many")
    equal(len(more["cursor"]["nextBatch"]), 2399)
    equal(more["cursor"]["id"], 0)


@check("cursor-kill")
def cursor_kill(c):
    cursor = c.db.many.find().batch_size(10)
    next(cursor)
    reply = c.db.command("killCursors", "many", cursors=[Int64(cursor.cursor_id), Int64(12345)])
    equal((reply["cursorsKilled"], reply["cursorsNotFound"]), ([cursor.cursor_id], [12345]))
    error = fails(43, list, cursor)
    assert isinstance(error, CursorNotFound)
    closed = c.db.many.find().batch_size(10)
    next(closed)
    number = closed.cursor_id
    closed.close()
    fails(43, c.db.command, "getMore", Int64(number), collection="many")


@check("cursor-single-batch")
def cursor_single_batch(c):
    reply = c.db.command("find", "many", batchSize=5, singleBatch=True)
    equal((len(reply["cursor"]["firstBatch"]), reply["cursor"]["id"]), (5, 0))
    reply = c.db.command("find", "many", batchSize=0)
    equal(len(reply["cursor"]["firstBatch"]), 0)
    assert reply["cursor"]["id"] != 0
    c.db.command("killCursors", "many", cursors=[Int64(reply["cursor"]["id"])])


@check("cursor-under-writes")
def cursor_under_writes(c):
    c.db.moving.insert_many([{"_id": n} for n in range(1000)])
    cursor = c.db.moving.find().sort("_id").batch_size(100)
    seen = [next(cursor)["_id"]]
    c.db.moving.delete_many({"_id": {"$gte": 500}})
    c.db.moving.insert_one({"_id": 2000})
    seen.extend(one["_id"] for one in cursor)
    equal(seen[:500], list(range(500)))


@check("capped-tailable")
def capped_tailable(c):
    c.db.create_collection("capped", capped=True, size=1 << 20, max=5)
    c.db.capped.insert_many([{"_id": n} for n in range(8)])
    equal([one["_id"] for one in c.db.capped.find()], [3, 4, 5, 6, 7])
    equal([one["_id"] for one in c.db.capped.find().sort("$natural", -1).limit(2)], [7, 6])
    cursor = c.db.capped.find({"_id": {"$gte": 7}}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(5000)
    equal(next(cursor)["_id"], 7)
    writer = threading.Thread(target=lambda: (time.sleep(0.2), c.db.capped.insert_one({"_id": 8})))
    writer.start()
    start = time.monotonic()
    equal(next(cursor)["_id"], 8)
    assert time.monotonic() - start < 4, "the cursor slept over the insert"
    writer.join()
    cursor.close()
    fails(2, list, c.db.many.find(cursor_type=CursorType.TAILABLE))


@check("sessions")
def sessions(c):
    with c.client.start_session() as session:
        c.db.sessions.insert_one({"_id": 1}, session=session)
        equal(c.db.sessions.find_one({}, session=session), {"_id": 1})
        cursor = c.db.many.find({}, session=session).batch_size(1000)
        equal(len(list(cursor)), 2500)
    names = Names()
    with MongoClient(c.uri, event_listeners=[names]) as client:
        client["python"].command("ping")
    equal(names.names, ["ping", "endSessions"])
    started = c.client.admin.command("startSession")
    equal(set(started) & {"id", "timeoutMinutes"}, {"id", "timeoutMinutes"})
    c.client.admin.command("killSessions", [started["id"]])


@check("transactions-refused")
def transactions_refused(c):
    with c.client.start_session() as session:
        session.start_transaction()
        fails(20, c.db.sessions.insert_one, {"_id": 2}, session=session)
    equal(c.db.sessions.count_documents({"_id": 2}), 0)
