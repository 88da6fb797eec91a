"""Updates with all their operators, and find-and-modify."""

from pymongo import ReturnDocument

from harness import check, equal


def after(c, before, update, **options):
    """The document as an update leaves it."""
    c.db.updates.replace_one({"_id": 1}, {"_id": 1, **before}, upsert=True)
    result = c.db.updates.update_one({"_id": 1}, update, **options)
    equal(result.matched_count, 1)
    document = c.db.updates.find_one({"_id": 1})
    del document["_id"]
    return document


@check("update-operators")
def update_operators(c):
    equal(after(c, {"a": 1}, {"$set": {"b.c": 2, "a": 5}}), {"a": 5, "b": {"c": 2}})
    equal(after(c, {"a": 1, "b": 2}, {"$unset": {"b": ""}}), {"a": 1})
    equal(after(c, {"a": 1}, {"$inc": {"a": 2, "new": -1}, "$mul": {"times": 3}}), {"a": 3, "new": -1, "times": 0})
    equal(after(c, {"a": 5, "b": 5}, {"$min": {"a": 3}, "$max": {"b": 3}}), {"a": 3, "b": 5})
    equal(after(c, {"old": 1}, {"$rename": {"old": "new"}}), {"new": 1})
    equal(after(c, {"bits": 13}, {"$bit": {"bits": {"and": 10}}}), {"bits": 8})
    dated = after(c, {}, {"$currentDate": {"date": True, "stamp": {"$type": "timestamp"}}})
    assert dated["date"].year > 2000 and dated["stamp"].time > 0, dated
    equal(c.db.updates.update_one({"_id": 1}, {"$set": {"a": 1}}).modified_count, 1)
    equal(c.db.updates.update_one({"_id": 1}, {"$set": {"a": 1}}).modified_count, 0)


@check("update-arrays")
def update_arrays(c):
    push = {"$push": {"a": {"$each": [5, 1], "$sort": -1, "$slice": 3}}}
    equal(after(c, {"a": [3, 4]}, push), {"a": [5, 4, 3]})
    equal(after(c, {"a": [1]}, {"$push": {"a": {"$each": [0], "$position": 0}}}), {"a": [0, 1]})
    equal(after(c, {"a": [1]}, {"$addToSet": {"a": {"$each": [1, 2]}}}), {"a": [1, 2]})
    equal(after(c, {"a": [1, 2, 3]}, {"$pop": {"a": -1}}), {"a": [2, 3]})
    equal(after(c, {"a": [1, 2, 3, 4]}, {"$pull": {"a": {"$gte": 3}}}), {"a": [1, 2]})
    equal(after(c, {"a": [1, 2, 1]}, {"$pullAll": {"a": [1]}}), {"a": [2]})
    equal(after(c, {"a": [1, 2]}, {"$inc": {"a.$[]": 10}}), {"a": [11, 12]})
    filters = [{"e.k": {"$gte": 2}}]
    before = {"a": [{"k": 1, "v": 0}, {"k": 2, "v": 0}]}
    wanted = {"a": [{"k": 1, "v": 0}, {"k": 2, "v": 9}]}
    equal(after(c, before, {"$set": {"a.$[e].v": 9}}, array_filters=filters), wanted)
    c.db.updates.replace_one({"_id": 1}, {"a": [4, 5, 6]})
    c.db.updates.update_one({"_id": 1, "a": 5}, {"$set": {"a.$": 0}})
    equal(c.db.updates.find_one({"_id": 1})["a"], [4, 0, 6])


@check("update-many")
def update_many(c):
    c.db.many_updates.insert_many([{"_id": n, "odd": n % 2} for n in range(10)])
    result = c.db.many_updates.update_many({"odd": 1}, {"$set": {"seen": True}})
    equal((result.matched_count, result.modified_count), (5, 5))
    equal(c.db.many_updates.count_documents({"seen": True}), 5)


@check("update-upsert")
def update_upsert(c):
    update = {"$set": {"a": 1}, "$setOnInsert": {"new": True}}
    result = c.db.upserts.update_one({"_id": "key", "kind": "x"}, update, upsert=True)
    equal(result.upserted_id, "key")
    equal(c.db.upserts.find_one({"_id": "key"}), {"_id": "key", "kind": "x", "a": 1, "new": True})
    again = c.db.upserts.update_one({"_id": "key"}, {"$setOnInsert": {"new": False}}, upsert=True)
    equal((again.matched_count, again.modified_count, again.upserted_id), (1, 0, None))
    assert c.db.upserts.update_one({"by": 1}, {"$inc": {"n": 1}}, upsert=True).upserted_id is not None


@check("update-pipeline")
def update_pipeline(c):
    pipeline = [{"$set": {"sum": {"$add": ["$a", "$b"]}}}, {"$unset": "b"}]
    equal(after(c, {"a": 1, "b": 2}, pipeline), {"a": 1, "sum": 3})


@check("replace")
def replace(c):
    equal(c.db.replaced.replace_one({"_id": 1}, {"a": 1}, upsert=True).upserted_id, 1)
    equal(c.db.replaced.replace_one({"a": 1}, {"b": 2}).modified_count, 1)
    equal(list(c.db.replaced.find()), [{"_id": 1, "b": 2}])


@check("find-and-modify")
def find_and_modify(c):
    jobs = c.db.jobs
    jobs.insert_many([{"_id": n, "rank": -n, "state": "new"} for n in range(3)])
    taken = jobs.find_one_and_update({"state": "new"}, {"$set": {"state": "old"}}, sort=[("rank", 1)])
    equal(taken, {"_id": 2, "rank": -2, "state": "new"})
    found = jobs.find_one_and_update({"_id": 2}, {"$inc": {"n": 1}}, {"n": 1}, return_document=ReturnDocument.AFTER)
    equal(found, {"_id": 2, "n": 1})
    new = jobs.find_one_and_update(
        {"_id": 9}, {"$set": {"a": 1}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    equal(new, {"_id": 9, "a": 1})
    equal(jobs.find_one_and_replace({"_id": 9}, {"b": 1}), {"_id": 9, "a": 1})
    equal(jobs.find_one_and_delete({"_id": 9}), {"_id": 9, "b": 1})
    equal(jobs.find_one_and_delete({"_id": 9}), None)
