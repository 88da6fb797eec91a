"""Bulk writes, their errors, and write concerns."""

import time

from pymongo import DeleteMany, InsertOne, ReplaceOne, UpdateMany, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError, DuplicateKeyError, WriteConcernError

from harness import check, equal


@check("bulk-ordered")
def bulk_ordered(c):
    result = c.db.bulk.bulk_write(
        [
            InsertOne({"_id": 1}),
            InsertOne({"_id": 2}),
            UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
            UpdateMany({}, {"$set": {"b": 1}}),
            ReplaceOne({"_id": 3}, {"c": 1}, upsert=True),
            DeleteMany({"_id": 2}),
        ]
    ).bulk_api_result
    wanted = {"nInserted": 2, "nMatched": 3, "nModified": 3, "nRemoved": 1, "nUpserted": 1}
    equal({name: result[name] for name in wanted}, wanted)
    equal(result["upserted"], [{"index": 4, "_id": 3}])
    equal(list(c.db.bulk.find().sort("_id")), [{"_id": 1, "a": 1, "b": 1}, {"_id": 3, "c": 1}])


def bulk_error(c, ordered):
    c.db.bulk_errors.drop()
    try:
        c.db.bulk_errors.insert_many([{"_id": n} for n in (1, 2, 1, 3, 2, 4)], ordered=ordered)
    except BulkWriteError as error:
        return error.details
    raise AssertionError("no error")


@check("bulk-ordered-error")
def bulk_ordered_error(c):
    details = bulk_error(c, True)
    equal((details["nInserted"], [one["index"] for one in details["writeErrors"]]), (2, [2]))
    equal(c.db.bulk_errors.count_documents({}), 2)


@check("bulk-unordered-error")
def bulk_unordered_error(c):
    details = bulk_error(c, False)
    equal((details["nInserted"], [one["index"] for one in details["writeErrors"]]), (4, [2, 4]))
    equal({one["code"] for one in details["writeErrors"]}, {11000})
    equal(c.db.bulk_errors.count_documents({}), 4)


@check("duplicate-key")
def duplicate_key(c):
    c.db.people.create_index([("name", 1), ("born", -1)], unique=True)
    c.db.people.insert_one({"name": "A", "born": 1})
    c.db.people.insert_one({"name": "A", "born": 2})
    try:
        c.db.people.insert_one({"name": "A", "born": 1})
        raise AssertionError("no error")
    except DuplicateKeyError as error:
        equal(error.code, 11000)
        equal(error.details["keyPattern"], {"name": 1, "born": -1})
        equal(error.details["keyValue"], {"name": "A", "born": 1})
        message = error.details["errmsg"]
        wanted = 'E11000 duplicate key error collection: python.people index: name_1_born_-1 dup key: { name: "A", born: 1 }'
        equal(message, wanted)
    try:
        c.db.people.update_one({"born": 2}, {"$set": {"born": 1}})
        raise AssertionError("no error")
    except DuplicateKeyError as error:
        equal(error.code, 11000)


@check("write-concern")
def write_concern(c):
    journaled = c.db.get_collection("concerns", write_concern=WriteConcern(w=1, j=True))
    assert journaled.insert_one({"_id": 1}).acknowledged
    majority = c.db.get_collection("concerns", write_concern=WriteConcern(w="majority", wtimeout=5000))
    equal(majority.update_one({"_id": 1}, {"$set": {"a": 1}}).modified_count, 1)
    silent = c.db.get_collection("concerns", write_concern=WriteConcern(w=0))
    assert not silent.insert_one({"_id": 2}).acknowledged
    silent.insert_one({"_id": 2})  # a duplicate, and nobody hears of it
    silent.update_one({"_id": 2}, {"$set": {"a": 2}})
    silent.delete_one({"_id": 1})
    deadline = time.monotonic() + 10
    while list(journaled.find()) != [{"_id": 2, "a": 2}]:
        assert time.monotonic() < deadline, list(journaled.find())
        time.sleep(0.01)


@check("write-concern-impossible")
def write_concern_impossible(c):
    two = c.db.get_collection("concerns", write_concern=WriteConcern(w=2))
    try:
        two.insert_one({"_id": 3})
        raise AssertionError("no error")
    except WriteConcernError as error:
        equal(error.code, 2)
    except Exception as error:
        equal(getattr(error, "code", None), 2)
