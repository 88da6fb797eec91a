"""TLS."""

from pymongo import MongoClient
from pymongo.errors import ServerSelectionTimeoutError

from harness import check, equal


@check("tls")
def tls(c):
    with MongoClient(c.uri, tls=True, tlsCAFile=c.extra) as client:
        client["python"].secret.insert_many([{"_id": n, "text": "x" * 10_000} for n in range(500)])
        equal(client["python"].secret.count_documents({}), 500)
        equal(len(list(client["python"].secret.find().batch_size(100))), 500)


@check("tls-required")
def tls_required(c):
    refused(MongoClient(c.uri, serverSelectionTimeoutMS=500))


@check("tls-unknown-authority")
def tls_unknown_authority(c):
    refused(MongoClient(c.uri, tls=True, serverSelectionTimeoutMS=500))


def refused(client):
    try:
        client.admin.command("ping")
        raise AssertionError("taken, and should have been refused")
    except ServerSelectionTimeoutError:
        client.close()
