"""A cluster of several shards behind a router; what a driver sees of it. The shards are there already."""

from pymongo import ASCENDING, DESCENDING, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError

from harness import check, equal, fails


@check("sharding-topology")
def topology(c):
    c.client.admin.command("ping")
    equal(c.client.is_mongos, True)
    equal(c.client.admin.command("enableSharding", "python")["ok"], 1.0)
    c.client.admin.command("shardCollection", "python.things", key={"_id": "hashed"})


@check("sharding-crud")
def crud(c):
    things = c.db.things
    things.insert_many([{"_id": n, "x": n % 7} for n in range(500)])
    equal(things.count_documents({}), 500)
    equal(things.estimated_document_count(), 500)
    equal(things.find_one({"_id": 77})["x"], 0)
    equal([d["_id"] for d in things.find({"x": 3}).sort("_id", DESCENDING).skip(2).limit(3)], [479, 472, 465])
    equal(things.update_many({"x": 1}, {"$inc": {"y": 1}}).modified_count, 72)
    equal(things.update_one({"_id": 1}, {"$set": {"z": 1}}).modified_count, 1)
    equal(things.replace_one({"_id": 900}, {"x": 9}, upsert=True).upserted_id, 900)
    equal(things.find_one_and_update({"_id": 900}, {"$inc": {"x": 1}}, return_document=True)["x"], 10)
    equal(things.delete_many({"x": 6}).deleted_count, 71)
    equal(sorted(things.distinct("x")), [0, 1, 2, 3, 4, 5, 10])
    fails(72, lambda: things.update_one({"x": 1}, {"$set": {"w": 1}}))
    fails(11000, things.insert_one, {"_id": 1})


@check("sharding-bulks")
def bulks(c):
    bulk = c.db.bulk
    c.client.admin.command("shardCollection", "python.bulk", key={"_id": "hashed"})
    result = bulk.bulk_write(
        [InsertOne({"_id": n}) for n in range(50)]
        + [UpdateOne({"_id": 3}, {"$set": {"a": 1}}), UpdateMany({}, {"$set": {"b": 1}})]
        + [ReplaceOne({"_id": 99}, {"c": 1}, upsert=True), DeleteOne({"_id": 4})]
    )
    equal((result.inserted_count, result.modified_count, result.deleted_count), (50, 51, 1))
    equal(result.upserted_ids, {52: 99})
    try:
        bulk.insert_many([{"_id": n} for n in range(48, 55)], ordered=False)
        raise AssertionError("duplicates were inserted")
    except BulkWriteError as error:
        equal(sorted(e["index"] for e in error.details["writeErrors"]), [0, 1])
        equal(error.details["nInserted"], 5)
    bulk.with_options(write_concern=WriteConcern(w=0)).insert_one({"_id": 1000})
    equal(bulk.count_documents({"_id": {"$gte": 1000}}), 1)


@check("sharding-cursors")
def cursors(c):
    found = list(c.db.things.find({}, {"x": 1}).sort([("x", ASCENDING), ("_id", ASCENDING)]).batch_size(20))
    equal(len(found), 430)
    equal(found, sorted(found, key=lambda d: (d["x"], d["_id"])))
    with c.db.things.find({}, batch_size=5) as cursor:
        next(cursor)


@check("sharding-pipelines")
def pipelines(c):
    groups = c.db.things.aggregate([{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    equal([d["n"] for d in groups], [72, 72, 72, 71, 71, 71, 1])
    fails(115, lambda: list(c.db.things.aggregate([{"$out": "other"}])))


@check("sharding-indexes")
def indexes(c):
    equal(c.db.things.create_index("x"), "x_1")
    equal(sorted(c.db.things.index_information()), ["_id_", "_id_hashed", "x_1"])
    equal(sorted(c.db.list_collection_names()), ["bulk", "things"])
    equal(c.db.command("collStats", "things")["count"], 430)


@check("sharding-drop")
def drop(c):
    c.db.things.drop()
    equal(list(c.client.config.chunks.find({"ns": "python.things"})), [])
    c.client.drop_database("python")
    equal("python" in c.client.list_database_names(), False)
