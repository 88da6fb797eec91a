"""What is refused, and with which code."""

from pymongo.errors import ExecutionTimeout, OperationFailure

from harness import check, equal, fails


@check("error-unknown-command")
def error_unknown_command(c):
    error = fails(59, c.db.command, "noSuchCommand")
    equal(error.details["codeName"], "CommandNotFound")


@check("error-update")
def error_update(c):
    update = c.db.errors.update_one
    c.db.errors.insert_one({"_id": 1, "text": "t", "n": 1})
    fails(9, update, {"_id": 1}, {"$nothing": {"a": 1}})
    fails(14, update, {"_id": 1}, {"$inc": {"text": 1}})
    fails(40, update, {"_id": 1}, {"$set": {"a": 1}, "$inc": {"a": 1}})
    fails(66, update, {"_id": 1}, {"$set": {"_id": 2}})
    fails(28, update, {"_id": 1}, {"$set": {"n.x": 1}})
    fails(2, update, {"_id": 1}, {"$push": {"n": 1}})
    equal(c.db.errors.find_one(), {"_id": 1, "text": "t", "n": 1})


@check("error-query")
def error_query(c):
    fails(2, c.db.errors.find_one, {"a": {"$nothing": 1}})
    fails(2, c.db.errors.find_one, {"$or": []})
    fails(2, lambda: list(c.db.many.find().hint("nothing_1")))
    fails(40324, lambda: list(c.db.many.aggregate([{"$nothing": {}}])))
    fails(73, c.db.command, "find", "")


@check("error-refused-by-name")
def error_refused_by_name(c):
    for query in [
        lambda: c.db.errors.create_index([("a", "text")]),
        lambda: c.db.errors.create_index([("a", "2dsphere")]),
        lambda: list(c.db.errors.find({"$text": {"$search": "x"}})),
        lambda: list(c.db.errors.find({"$where": "true"})),
        lambda: list(c.db.errors.find().collation({"locale": "de"})),
        lambda: list(c.db.errors.aggregate([{"$geoNear": {}}])),
    ]:
        try:
            query()
        except OperationFailure as error:
            assert error.code and len(str(error)) > 10, error.details
        else:
            raise AssertionError("taken, and should have been refused")


@check("error-max-time")
def error_max_time(c):
    # Each of the 2500 looks at all 2500: far more than 50 ms of work.
    match = {"$match": {"$expr": {"$eq": ["$text", "$$mine"]}}}
    inner = {"from": "many", "let": {"mine": "$group"}, "pipeline": [match], "as": "none"}
    error = fails(50, lambda: list(c.db.many.aggregate([{"$lookup": inner}], maxTimeMS=50)))
    assert isinstance(error, ExecutionTimeout)
    equal(c.db.many.count_documents({"group": 1}, maxTimeMS=60_000), 250)


@check("fail-point")
def fail_point(c):
    data = {"failCommands": ["count"], "errorCode": 11, "closeConnection": False}
    c.client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    fails(11, c.db.command, "count", "many")
    equal(c.db.command("count", "many")["n"], 2500)
    c.client.admin.command("configureFailPoint", "failCommand", mode="off")
