"""Compressed messages, each compressor alone."""

from pymongo import MongoClient

from harness import check, equal


def traffic(c):
    network = c.client.admin.command("serverStatus")["network"]
    return network["physicalBytesIn"] + network["physicalBytesOut"]


def round_trip(c, name):
    before = traffic(c)
    with MongoClient(c.uri, compressors=name) as client:
        things = client["python"][name]
        things.insert_many([{"_id": n, "text": f"{n} " * 2000} for n in range(500)])
        equal(sorted(one["_id"] for one in things.find().batch_size(50)), list(range(500)))
        equal(things.find_one({"_id": 7})["text"], "7 " * 2000)
        size = 2 * sum(len(f"{n} " * 2000) for n in range(500))
    # Both ways compressed: a fraction of what the documents hold went over the wire.
    sent = traffic(c) - before
    assert sent < size / 4, f"{sent} bytes for {size}"


@check("compression-snappy")
def snappy(c):
    round_trip(c, "snappy")


@check("compression-zlib")
def zlib(c):
    round_trip(c, "zlib")


@check("compression-zstd")
def zstd(c):
    round_trip(c, "zstd")
