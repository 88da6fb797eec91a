"""Aggregation."""

from bson import Int64

from harness import check, equal


def orders(c):
    if c.db.orders.estimated_document_count() == 0:
        c.db.orders.insert_many(
            [
                {"_id": 1, "by": "ann", "items": [{"what": "pen", "n": 2}, {"what": "ink", "n": 1}], "price": 5},
                {"_id": 2, "by": "bob", "items": [{"what": "pen", "n": 1}], "price": 2.5},
                {"_id": 3, "by": "ann", "items": [], "price": 4},
            ]
        )
        c.db.stock.insert_many([{"_id": "pen", "left": 7}, {"_id": "cup", "left": 1}])
    return c.db.orders


@check("aggregate-group")
def aggregate_group(c):
    pipeline = [
        {"$match": {"price": {"$gt": 1}}},
        {
            "$group": {
                "_id": "$by",
                "sum": {"$sum": "$price"},
                "mean": {"$avg": "$price"},
                "n": {"$sum": 1},
                "most": {"$max": "$price"},
                "all": {"$push": "$_id"},
                "first": {"$first": "$_id"},
            }
        },
        {"$sort": {"_id": 1}},
    ]
    equal(
        list(orders(c).aggregate(pipeline)),
        [
            {"_id": "ann", "sum": 9, "mean": 4.5, "n": 2, "most": 5, "all": [1, 3], "first": 1},
            {"_id": "bob", "sum": 2.5, "mean": 2.5, "n": 1, "most": 2.5, "all": [2], "first": 2},
        ],
    )


@check("aggregate-lookup-unwind")
def aggregate_lookup_unwind(c):
    pipeline = [
        {"$unwind": {"path": "$items", "includeArrayIndex": "at"}},
        {"$lookup": {"from": "stock", "localField": "items.what", "foreignField": "_id", "as": "stock"}},
        {"$project": {"what": "$items.what", "at": 1, "left": {"$arrayElemAt": ["$stock.left", 0]}}},
        {"$sort": {"_id": 1, "at": 1}},
    ]
    equal(
        list(orders(c).aggregate(pipeline)),
        [
            {"_id": 1, "at": 0, "what": "pen", "left": 7},
            {"_id": 1, "at": 1, "what": "ink"},
            {"_id": 2, "at": 0, "what": "pen", "left": 7},
        ],
    )


@check("aggregate-lookup-pipeline")
def aggregate_lookup_pipeline(c):
    inner = [{"$match": {"$expr": {"$eq": ["$by", "$$who"]}}}, {"$count": "n"}]
    pipeline = [
        {"$match": {"_id": 1}},
        {"$lookup": {"from": "orders", "let": {"who": "$by"}, "pipeline": inner, "as": "mine"}},
        {"$project": {"mine": 1}},
    ]
    equal(list(orders(c).aggregate(pipeline)), [{"_id": 1, "mine": [{"n": 2}]}])


@check("aggregate-facet")
def aggregate_facet(c):
    pipeline = [
        {
            "$facet": {
                "count": [{"$count": "n"}],
                "who": [{"$sortByCount": "$by"}],
                "prices": [{"$bucket": {"groupBy": "$price", "boundaries": [0, 3, 6]}}],
            }
        }
    ]
    wanted = {
        "count": [{"n": 3}],
        "who": [{"_id": "ann", "count": 2}, {"_id": "bob", "count": 1}],
        "prices": [{"_id": 0, "count": 1}, {"_id": 3, "count": 2}],
    }
    equal(list(orders(c).aggregate(pipeline)), [wanted])


@check("aggregate-expressions")
def aggregate_expressions(c):
    pipeline = [
        {"$match": {"_id": 1}},
        {
            "$project": {
                "_id": 0,
                "upper": {"$toUpper": "$by"},
                "joined": {"$concat": ["$by", "-", {"$toString": "$price"}]},
                "kind": {"$cond": [{"$gt": ["$price", 4]}, "dear", "cheap"]},
                "total": {"$sum": "$items.n"},
                "names": {"$map": {"input": "$items", "as": "i", "in": "$$i.what"}},
                "many": {"$filter": {"input": "$items", "cond": {"$gt": ["$$this.n", 1]}}},
                "missing": {"$ifNull": ["$nothing", "none"]},
                "date": {"$dateToString": {"date": {"$toDate": Int64(0)}, "format": "%Y-%m-%d"}},
                "folded": {"$reduce": {"input": [1, 2, 3], "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
            }
        },
    ]
    wanted = {
        "upper": "ANN",
        "joined": "ann-5",
        "kind": "dear",
        "total": 3,
        "names": ["pen", "ink"],
        "many": [{"what": "pen", "n": 2}],
        "missing": "none",
        "date": "1970-01-01",
        "folded": 6,
    }
    equal(list(orders(c).aggregate(pipeline)), [wanted])


@check("aggregate-out")
def aggregate_out(c):
    orders(c).aggregate([{"$project": {"by": 1}}, {"$out": "written"}])
    equal(c.db.written.count_documents({}), 3)
    orders(c).aggregate([{"$match": {"_id": 1}}, {"$project": {"by": 1}}, {"$out": "written"}])
    equal(list(c.db.written.find()), [{"_id": 1, "by": "ann"}])


@check("aggregate-merge")
def aggregate_merge(c):
    c.db.merged.insert_one({"_id": "ann", "kept": True})
    group = {"$group": {"_id": "$by", "sum": {"$sum": "$price"}}}
    into = {"$merge": {"into": "merged", "whenMatched": "merge", "whenNotMatched": "insert"}}
    orders(c).aggregate([group, into])
    equal(
        list(c.db.merged.find().sort("_id")), [{"_id": "ann", "kept": True, "sum": 9}, {"_id": "bob", "sum": 2.5}]
    )


@check("aggregate-batches")
def aggregate_batches(c):
    cursor = c.db.many.aggregate([{"$match": {"group": 1}}, {"$sort": {"_id": -1}}], batchSize=50)
    equal([one["_id"] for one in cursor], list(range(2491, 0, -10)))
    equal(len(list(c.db.many.aggregate([{"$sample": {"size": 7}}]))), 7)
    equal(list(c.db.many.aggregate([{"$skip": 10}, {"$limit": 5}, {"$count": "n"}])), [{"n": 5}])


@check("aggregate-statistics")
def aggregate_statistics(c):
    figures = list(c.db.many.aggregate([{"$collStats": {"storageStats": {}, "count": {}}}]))
    equal((figures[0]["count"], figures[0]["storageStats"]["count"]), (2500, 2500))
    equal([one["name"] for one in c.db.many.aggregate([{"$indexStats": {}}])], ["_id_"])
