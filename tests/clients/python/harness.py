"""One line for each check: `ok NAME`, or `FAILED NAME: why`; the exit code says whether any failed."""

import traceback

_checks = []


def check(name):
    """Registers a check under the name that docs/clients.md lists."""

    def register(function):
        _checks.append((name, function))
        return function

    return register


def run(context):
    """Runs every registered check; True if all passed."""
    failed = 0
    for name, function in _checks:
        try:
            function(context)
            print(f"ok {name}", flush=True)
        except Exception as error:  # a check may fail in any way, and the others still run
            failed += 1
            where = traceback.extract_tb(error.__traceback__)
            own = [frame.lineno for frame in where if frame.name == function.__name__][-1:]
            text = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"FAILED {name}: line {own}: {text[:600]}", flush=True)
    return failed == 0


def equal(found, wanted):
    """Compares, and shows both sides."""
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def fails(code, function, *arguments, **named):
    """Calls what must fail with this code; returns the error."""
    try:
        result = function(*arguments, **named)
    except Exception as error:
        found = getattr(error, "code", None)
        assert found == code, f"failed with {found} and not {code}: {error}"
        return error
    raise AssertionError(f"succeeded with {result!r} and should have failed with {code}")
