"""Collections and databases: made, listed, renamed, changed, dropped."""

from harness import check, equal, fails


@check("list-collections")
def list_collections(c):
    db = c.client["python_lists"]
    db.create_collection("made")
    db.filled.insert_one({})
    equal(sorted(db.list_collection_names()), ["filled", "made"])
    listed = {one["name"]: one for one in db.list_collections()}
    equal(listed["made"]["type"], "collection")
    equal(listed["made"]["idIndex"]["name"], "_id_")
    equal(listed["made"]["info"]["readOnly"], False)
    equal(db.list_collection_names(filter={"name": "made"}), ["made"])
    fails(48, db.command, "create", "made", capped=True, size=4096)


@check("list-databases")
def list_databases(c):
    names = c.client.list_database_names()
    assert {"admin", "python", "python_lists"} - set(names) <= {"admin"}, names
    listed = {one["name"]: one for one in c.client.list_databases()}
    equal(listed["python"]["empty"], False)
    c.client.drop_database("python_lists")
    assert "python_lists" not in c.client.list_database_names()


@check("rename")
def rename(c):
    c.db.before.insert_one({"_id": 1})
    c.db.before.create_index("a")
    c.db.before.rename("after")
    equal(list(c.db.after.find()), [{"_id": 1}])
    equal(sorted(c.db.after.index_information()), ["_id_", "a_1"])
    c.db.other.insert_one({"_id": 2})
    fails(48, c.db.other.rename, "after")
    c.db.other.rename("after", dropTarget=True)
    equal(list(c.db.after.find()), [{"_id": 2}])
    fails(26, c.db.absent.rename, "anything")


@check("drop")
def drop(c):
    c.db.dropped.insert_one({})
    c.db.dropped.drop()
    assert "dropped" not in c.db.list_collection_names()
    c.db.dropped.drop()
    equal(c.db.dropped.count_documents({}), 0)


@check("validation")
def validation(c):
    c.db.create_collection("valid", validator={"n": {"$gte": 0}})
    c.db.valid.insert_one({"_id": 1, "n": 1})
    fails(121, c.db.valid.insert_one, {"_id": 2, "n": -1})
    fails(121, c.db.valid.update_one, {"_id": 1}, {"$set": {"n": -1}})
    c.db.command("insert", "valid", documents=[{"_id": 3, "n": -1}], bypassDocumentValidation=True)
    c.db.command("collMod", "valid", validator={})
    c.db.valid.insert_one({"_id": 2, "n": -1})
    equal(c.db.valid.count_documents({}), 3)


@check("views")
def views(c):
    c.db.command("create", "groups", viewOn="many", pipeline=[{"$match": {"group": 4}}, {"$project": {"text": 0}}])
    equal(c.db.groups.find_one({"_id": 14}), {"_id": 14, "group": 4})
    equal(c.db.groups.count_documents({}), 250)
    equal(list(c.db.groups.aggregate([{"$count": "n"}])), [{"n": 250}])
    fails(166, c.db.groups.insert_one, {})
    c.db.groups.drop()


@check("statistics")
def statistics(c):
    figures = c.db.command("collStats", "many")
    equal((figures["ns"], figures["count"], figures["nindexes"], figures["capped"]), ("python.many", 2500, 1, False))
    assert figures["size"] > 2500 * 30 and figures["storageSize"] >= 0, figures
    figures = c.db.command("dbStats")
    assert figures["collections"] > 5 and figures["objects"] > 2500 and figures["dataSize"] > 0, figures
    figures = c.db.command("validate", "many")
    assert figures["valid"], figures
    equal(figures["nrecords"], 2500)
