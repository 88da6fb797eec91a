"""Users: the first one, both mechanisms, who may do what."""

from pymongo import MongoClient

from harness import check, equal, fails


def client(c, user, password, **options):
    return MongoClient(
        c.uri, username=user, password=password, authSource=options.pop("authSource", "admin"), **options
    )


@check("auth-required")
def auth_required(c):
    equal(c.client.admin.command("ping")["ok"], 1.0)
    fails(13, c.db.things.insert_one, {})


@check("auth-first-user")
def auth_first_user(c):
    c.client.admin.command("createUser", "admin", pwd="secret", roles=["root"])
    # The way in for whom there is no user yet is closed now.
    fails(13, c.client.admin.command, "createUser", "second", pwd="x", roles=["root"])


@check("auth-scram")
def auth_scram(c):
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-1", "DEFAULT"]:
        with client(c, "admin", "secret", authMechanism=mechanism) as admin:
            admin["python"].things.insert_one({"by": mechanism})
            status = admin.admin.command("connectionStatus")["authInfo"]
            equal(status["authenticatedUsers"], [{"user": "admin", "db": "admin"}])
            equal(status["authenticatedUserRoles"], [{"role": "root", "db": "admin"}])


@check("auth-wrong-password")
def auth_wrong_password(c):
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-1"]:
        for user, password in [("admin", "wrong"), ("nobody", "secret")]:
            with client(c, user, password, authMechanism=mechanism) as stranger:
                fails(18, stranger.admin.command, "ping")


@check("auth-roles")
def auth_roles(c):
    with client(c, "admin", "secret") as admin:
        db = admin["python"]
        db.command("createUser", "reader", pwd="read", roles=["read"])
        db.command("createUser", "writer", pwd="write", roles=[{"role": "readWrite", "db": "python"}])
        listed = db.command("usersInfo")["users"]
        equal(sorted(one["user"] for one in listed), ["reader", "writer"])
        equal(sorted(listed[0]["mechanisms"]), ["SCRAM-SHA-1", "SCRAM-SHA-256"])
    with client(c, "writer", "write", authSource="python") as writer:
        writer["python"].shared.insert_one({"_id": 1})
        fails(13, writer["other"].shared.insert_one, {})
        fails(13, writer.admin.command, "serverStatus")
    with client(c, "reader", "read", authSource="python") as reader:
        equal(list(reader["python"].shared.find()), [{"_id": 1}])
        fails(13, reader["python"].shared.insert_one, {})
        fails(13, reader["python"].shared.drop)


@check("auth-prepared-password")
def auth_prepared_password(c):
    with client(c, "admin", "secret") as admin:
        # SASLprep makes one of both: the soft hyphen goes, the Roman nine becomes two letters.
        admin.admin.command(
            "createUser", "prepared", pwd="I\u00adX", roles=["readAnyDatabase"], mechanisms=["SCRAM-SHA-256"]
        )
    with client(c, "prepared", "\u2168", authMechanism="SCRAM-SHA-256") as prepared:
        equal(prepared["python"].shared.count_documents({}), 1)
    with client(c, "prepared", "IX", authMechanism="SCRAM-SHA-1") as other:
        fails(18, other.admin.command, "ping")


@check("auth-user-changes")
def auth_user_changes(c):
    with client(c, "admin", "secret") as admin:
        admin["python"].command("updateUser", "reader", pwd="changed")
        with client(c, "reader", "read", authSource="python") as reader:
            fails(18, reader.admin.command, "ping")
        with client(c, "reader", "changed", authSource="python") as reader:
            equal(reader["python"].shared.count_documents({}), 1)
            admin["python"].command("revokeRolesFromUser", "reader", roles=["read"])
            fails(13, reader["python"].shared.find_one)
            admin["python"].command("grantRolesToUser", "reader", roles=["read"])
            equal(reader["python"].shared.count_documents({}), 1)
        admin["python"].command("dropUser", "reader")
        with client(c, "reader", "changed", authSource="python") as reader:
            fails(18, reader.admin.command, "ping")
