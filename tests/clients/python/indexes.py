"""Indexes, the plans that use them, and documents that expire."""

import datetime
import time

from pymongo import IndexModel

from harness import check, equal, fails


@check("indexes")
def indexes(c):
    models = [
        IndexModel([("a", 1), ("b", -1)]),
        IndexModel("c", sparse=True),
        IndexModel("d", partialFilterExpression={"d": {"$gt": 5}}, name="large d"),
        IndexModel([("e", "hashed")]),
        IndexModel("f", unique=True, sparse=True),
        IndexModel("t", expireAfterSeconds=3600),
    ]
    names = ["a_1_b_-1", "c_1", "large d", "e_hashed", "f_1", "t_1"]
    equal(c.db.indexed.create_indexes(models), names)
    equal(c.db.indexed.create_index([("a", 1), ("b", -1)]), "a_1_b_-1")
    listed = c.db.indexed.index_information()
    equal(sorted(listed), sorted([*names, "_id_"]))
    equal(listed["a_1_b_-1"]["key"], [("a", 1), ("b", -1)])
    equal(listed["c_1"]["sparse"], True)
    equal(listed["large d"]["partialFilterExpression"], {"d": {"$gt": 5}})
    equal(listed["t_1"]["expireAfterSeconds"], 3600)
    equal(listed["_id_"]["v"], 2)
    c.db.indexed.drop_index("c_1")
    c.db.indexed.drop_index([("e", "hashed")])
    c.db.indexed.drop_indexes()
    equal(list(c.db.indexed.index_information()), ["_id_"])


@check("index-errors")
def index_errors(c):
    c.db.indexed.create_index("a")
    fails(85, c.db.indexed.create_index, "a", name="other")
    fails(86, c.db.indexed.create_index, "b", name="a_1")
    fails(27, c.db.indexed.drop_index, "nothing_1")
    fails(72, c.db.indexed.drop_index, "_id_")
    c.db.twice.insert_many([{"a": 1}, {"a": 1}])
    fails(11000, c.db.twice.create_index, "a", unique=True)
    equal(list(c.db.twice.index_information()), ["_id_"])


def stages(plan):
    found = [plan["stage"]]
    while "inputStage" in plan:
        plan = plan["inputStage"]
        found.append(plan["stage"])
    return found


@check("explain")
def explain(c):
    c.db.plans.insert_many([{"a": n % 50, "b": n} for n in range(500)])
    c.db.plans.create_index([("a", 1), ("b", 1)])
    plan = c.db.plans.find({"a": 7, "b": {"$gt": 100}}).explain()
    equal(stages(plan["queryPlanner"]["winningPlan"]), ["FETCH", "IXSCAN"])
    figures = plan["executionStats"]
    equal((figures["nReturned"], figures["totalKeysExamined"], figures["totalDocsExamined"]), (8, 8, 8))
    plan = c.db.plans.find({"b": 7}).explain()
    equal(stages(plan["queryPlanner"]["winningPlan"]), ["COLLSCAN"])
    equal(plan["executionStats"]["totalDocsExamined"], 500)
    covered = c.db.plans.find({"a": 7}, {"_id": 0, "a": 1, "b": 1}).explain()
    equal(covered["executionStats"]["totalDocsExamined"], 0)
    explained = c.db.command("explain", {"count": "plans", "query": {"a": 7}}, verbosity="queryPlanner")
    equal(explained["queryPlanner"]["namespace"], "python.plans")


@check("sorted-by-index")
def sorted_by_index(c):
    plan = c.db.plans.find({"a": 7}).sort("b", -1).explain()["queryPlanner"]["winningPlan"]
    assert "SORT" not in stages(plan), plan
    equal([one["b"] for one in c.db.plans.find({"a": 7}).sort("b", -1).limit(3)], [457, 407, 357])


@check("ttl-expiry")
def ttl_expiry(c):
    c.db.expiring.create_index("at", expireAfterSeconds=0)
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    c.db.expiring.insert_many([{"_id": "past", "at": now - day}, {"_id": "future", "at": now + day}, {"_id": "none"}])
    # The server was started with ttlMonitorSleepSecs=1.
    deadline = time.monotonic() + 20
    while c.db.expiring.count_documents({}) > 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    equal(sorted(one["_id"] for one in c.db.expiring.find()), ["future", "none"])
