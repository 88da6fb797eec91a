"""Insert, find and delete."""

import datetime
import re
import uuid

from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import ASCENDING, DESCENDING

from harness import check, equal


@check("insert-one")
def insert_one(c):
    result = c.db.insert.insert_one({"a": 1})
    assert isinstance(result.inserted_id, ObjectId)
    equal(c.db.insert.find_one({"_id": result.inserted_id}), {"_id": result.inserted_id, "a": 1})
    equal(c.db.insert.insert_one({"_id": {"of": ["any", "type"]}}).inserted_id, {"of": ["any", "type"]})


@check("insert-many")
def insert_many(c):
    documents = [{"_id": n, "group": n % 10, "text": f"text {n}"} for n in range(2500)]
    equal(len(c.db.many.insert_many(documents).inserted_ids), 2500)
    equal(c.db.many.count_documents({}), 2500)


@check("insert-large")
def insert_large(c):
    large = "x" * (15 * 1024 * 1024)
    c.db.large.insert_one({"_id": 0, "large": large})
    assert c.db.large.find_one({"_id": 0})["large"] == large
    # More bytes than one message holds: the driver splits.
    c.db.large.insert_many([{"_id": n, "large": "y" * 3_000_000} for n in range(1, 21)])
    equal(c.db.large.count_documents({}), 21)
    equal(sum(len(one["large"]) for one in c.db.large.find({"_id": {"$gt": 0}})), 60_000_000)
    c.db.large.drop()


@check("bson-types")
def bson_types(c):
    document = {
        "_id": "types",
        "int": 7,
        "long": Int64(1 << 40),
        "double": -1.5,
        "decimal": Decimal128("1.10"),
        "string": "ünïcode \U0001f600",
        "date": datetime.datetime(2020, 2, 29, 12, 30, 15, 123000),
        "binary": b"\x00\x01\xff",
        "uuid": Binary.from_uuid(uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")),
        "id": ObjectId("0123456789abcdef01234567"),
        "regex": Regex("^a.*b$", "im"),
        "timestamp": Timestamp(1_600_000_000, 7),
        "code": Code("function () {}"),
        "min": MinKey(),
        "max": MaxKey(),
        "null": None,
        "true": True,
        "nested": {"array": [1, [2, {"three": 3}], None], "empty": {}},
        "dotted": {"b": 1},
    }
    c.db.types.insert_one(document)
    found = c.db.types.find_one({"_id": "types"})
    equal(found, document)
    equal(list(found), list(document))
    for field in document:
        if field not in ("null", "regex"):
            equal(c.db.types.count_documents({field: document[field]}), 1)


@check("find-filters")
def find_filters(c):
    c.db.filters.insert_many(
        [
            {"_id": 1, "n": 1, "tags": ["a", "b"], "s": "apple", "sub": [{"k": 1, "v": 2}, {"k": 2, "v": 1}]},
            {"_id": 2, "n": 2.5, "tags": ["b"], "s": "Banana", "sub": [{"k": 1, "v": 1}]},
            {"_id": 3, "n": Int64(3), "tags": [], "s": None, "deep": {"er": {"x": 5}}},
            {"_id": 4, "tags": "a", "flags": 6},
        ]
    )
    for query, ids in [
        ({"n": {"$gt": 1, "$lte": 3}}, [2, 3]),
        ({"n": {"$in": [1, 3]}}, [1, 3]),
        ({"n": {"$nin": [1, 3]}}, [2, 4]),
        ({"n": {"$ne": 1}}, [2, 3, 4]),
        ({"$or": [{"n": 1}, {"tags": []}]}, [1, 3]),
        ({"$and": [{"tags": "b"}, {"s": re.compile("^b", re.I)}]}, [2]),
        ({"$nor": [{"n": {"$exists": True}}]}, [4]),
        ({"n": {"$not": {"$gte": 2}}}, [1, 4]),
        ({"n": {"$exists": False}}, [4]),
        ({"n": {"$type": "double"}}, [2]),
        ({"n": {"$type": "number"}}, [1, 2, 3]),
        ({"tags": "a"}, [1, 4]),
        ({"tags": ["a", "b"]}, [1]),
        ({"tags": {"$all": ["b", "a"]}}, [1]),
        ({"tags": {"$size": 1}}, [2]),
        ({"tags.0": "b"}, [2]),
        ({"sub": {"$elemMatch": {"k": 1, "v": 1}}}, [2]),
        ({"sub.k": 1, "sub.v": 1}, [1, 2]),
        ({"deep.er.x": 5}, [3]),
        ({"s": None}, [3, 4]),
        ({"s": {"$regex": "an", "$options": "i"}}, [2]),
        ({"flags": {"$bitsAllSet": 2}}, [4]),
        ({"n": {"$mod": [2, 1]}}, [1, 3]),
        ({"$expr": {"$gt": ["$n", 2]}}, [2, 3]),
        ({"n": {"$gte": 2}, "$comment": "why"}, [2, 3]),
    ]:
        found = [one["_id"] for one in c.db.filters.find(query).sort("_id")]
        assert found == ids, f"{query}: found {found}, wanted {ids}"


@check("find-sort-skip-limit")
def find_sort_skip_limit(c):
    find = c.db.many.find({}, {"_id": 1}).sort([("group", DESCENDING), ("_id", ASCENDING)]).skip(3).limit(4)
    equal([one["_id"] for one in find], [39, 49, 59, 69])
    equal([one["_id"] for one in c.db.many.find({"_id": {"$gte": 2490}}).sort("_id", -1).limit(2)], [2499, 2498])
    equal(len(list(c.db.many.find().limit(-5))), 5)


@check("find-projection")
def find_projection(c):
    find = c.db.filters.find_one
    equal(find({"_id": 1}, {"n": 1}), {"_id": 1, "n": 1})
    equal(find({"_id": 1}, {"_id": 0, "sub.k": 1}), {"sub": [{"k": 1}, {"k": 2}]})
    equal(find({"_id": 2}, {"tags": 0, "sub": 0, "s": 0}), {"_id": 2, "n": 2.5})
    equal(find({"_id": 1}, {"tags": {"$slice": -1}, "sub": 0, "s": 0, "n": 0}), {"_id": 1, "tags": ["b"]})
    equal(find({"_id": 1}, {"sub": {"$elemMatch": {"k": 2}}}), {"_id": 1, "sub": [{"k": 2, "v": 1}]})
    equal(find({"tags": "b", "_id": 1}, {"_id": 0, "tags.$": 1}), {"tags": ["b"]})


@check("find-hint-comment")
def find_hint_comment(c):
    equal(len(list(c.db.many.find({"_id": {"$lt": 5}}).hint([("_id", 1)]).comment("a comment"))), 5)
    equal(len(list(c.db.many.find({"_id": {"$lt": 5}}).hint([("$natural", 1)]))), 5)


@check("count-distinct")
def count_distinct(c):
    equal(c.db.many.estimated_document_count(), 2500)
    equal(c.db.many.count_documents({"group": 3}), 250)
    equal(c.db.many.count_documents({"group": 3}, skip=100, limit=20), 20)
    equal(sorted(c.db.many.distinct("group", {"_id": {"$lt": 5}})), [0, 1, 2, 3, 4])
    equal(sorted(c.db.filters.distinct("tags")), ["a", "b"])
    equal(c.db.absent.count_documents({}), 0)


@check("delete")
def delete(c):
    c.db.deleted.insert_many([{"_id": n, "odd": n % 2} for n in range(10)])
    equal(c.db.deleted.delete_one({"odd": 1}).deleted_count, 1)
    equal(c.db.deleted.delete_many({"odd": 1}).deleted_count, 4)
    equal(c.db.deleted.delete_one({"_id": "nobody"}).deleted_count, 0)
    equal(c.db.deleted.delete_many({}).deleted_count, 5)
