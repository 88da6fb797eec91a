"""pymongo against a server: main.py plain|auth|tls|compression|sharding|set PORT [CA file | folder of the cluster]."""

import importlib
import sys

from pymongo import MongoClient

import harness

# The modules register their checks in the order of import.
MODULES = {
    "plain": ["connection", "documents", "updates", "bulks", "indexes", "cursors", "pipelines", "collections_", "errors"],
    "auth": ["authentication"],
    "tls": ["encryption"],
    "compression": ["compression"],
    "sharding": ["sharding"],
    "set": ["sets"],
}


class Context:
    """What a check works with: a client, and a database that is empty at the start."""

    def __init__(self, port, extra):
        self.port = port
        self.extra = extra
        self.uri = f"mongodb://localhost:{port}/"
        self.client = MongoClient(self.uri, serverSelectionTimeoutMS=10_000)
        self.db = self.client["python"]


def main():
    mode, port = sys.argv[1], int(sys.argv[2])
    for module in MODULES[mode]:
        importlib.import_module(module)
    passed = harness.run(Context(port, sys.argv[3] if len(sys.argv) > 3 else None))
    sys.exit(0 if passed else 1)


main()
