"""Who the server says it is, and several threads at once."""

from concurrent.futures import ThreadPoolExecutor

from harness import check, equal


@check("connect")
def connect(c):
    hello = c.client.admin.command("hello")
    assert hello["isWritablePrimary"] and hello["maxWireVersion"] >= 9 and hello["minWireVersion"] == 0, hello
    equal(hello["maxBsonObjectSize"], 16 * 1024 * 1024)
    equal(c.client.admin.command("ping")["ok"], 1.0)


@check("server-version")
def server_version(c):
    info = c.client.server_info()
    equal(".".join(str(part) for part in info["versionArray"][:3]), info["version"])
    assert info["versionArray"] >= [4, 4], info


@check("server-status")
def server_status(c):
    before = c.client.admin.command("serverStatus")
    c.db.status.insert_one({})
    after = c.client.admin.command("serverStatus")
    equal(after["opcounters"]["insert"] - before["opcounters"]["insert"], 1)
    assert after["connections"]["current"] >= 1 and after["uptime"] >= before["uptime"], after["connections"]


@check("threads")
def threads(c):
    def work(worker):
        for n in range(100):
            c.db.threads.insert_one({"_id": worker * 1000 + n, "worker": worker})
            c.db.threads.update_one({"_id": "sum"}, {"$inc": {"n": 1}}, upsert=True)
        return c.db.threads.count_documents({"worker": worker})

    with ThreadPoolExecutor(8) as pool:
        equal(list(pool.map(work, range(8))), [100] * 8)
    equal(c.db.threads.find_one({"_id": "sum"})["n"], 800)
