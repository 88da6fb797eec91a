"""Packs the program as a Python wheel: setup/wheel.py PROGRAM FOLDER.

`pip install` and `uv tool install` then put `fathom` on the path, as they do with ruff and uv. The wheel holds no Python. The same
program gives the same wheel: entries have the time of SOURCE_DATE_EPOCH, or of the last commit. (Format: PEP 427; the tags: PEP 600, PEP 656.)
"""

import base64
import hashlib
import os
import pathlib
import struct
import subprocess
import sys
import time
import zipfile

# A static program needs neither C library, so that it is of both kinds. Another one (STATIC=0) is for this machine and its like.
STATIC_TAGS = ["py3-none-manylinux_2_17_x86_64", "py3-none-musllinux_1_1_x86_64"]
DYNAMIC_TAGS = ["py3-none-linux_x86_64"]
SUMMARY = "Tells whether storage holds a MongoDB back, proves it, and finds what to change"


def main(program: pathlib.Path, folder: pathlib.Path) -> None:
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    version = said.split()[1]
    about = f"fathom-{version}.dist-info"
    tags = STATIC_TAGS if is_static(program.read_bytes()) else DYNAMIC_TAGS
    tag = "py3-none-" + ".".join(tag.rsplit("-", 1)[1] for tag in tags)
    readme = pathlib.Path("README.md").read_text()
    files = {
        f"fathom-{version}.data/scripts/fathom": program.read_bytes(),
        f"{about}/METADATA": (
            f"Metadata-Version: 2.1\nName: fathom\nVersion: {version}\nSummary: {SUMMARY}\n"
            "License: GPL-3.0-or-later\nRequires-Python: >=3.7\nClassifier: Operating System :: POSIX :: Linux\n"
            f"Description-Content-Type: text/markdown\n\n{readme}"
        ).encode(),
        f"{about}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: fathom\nRoot-Is-Purelib: false\n" + "".join(f"Tag: {tag}\n" for tag in tags)
        ).encode(),
        f"{about}/LICENSE": pathlib.Path("LICENSE").read_bytes(),
    }
    rows = [f"{name},sha256={digest(content)},{len(content)}\n" for name, content in files.items()]
    files[f"{about}/RECORD"] = "".join([*rows, f"{about}/RECORD,,\n"]).encode()
    path = folder / f"fathom-{version}-{tag}.whl"
    with zipfile.ZipFile(path.with_suffix(".new"), "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date())
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.endswith("/scripts/fathom") else 0o100644) << 16
            wheel.writestr(entry, content)
    path.with_suffix(".new").rename(path)
    print(f"package: {path}", file=sys.stderr)


def is_static(program: bytes) -> bool:
    """Whether an ELF program names no dynamic linker (a segment of type PT_INTERP)."""
    PT_INTERP = 3
    (first,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    types = (struct.unpack_from("<I", program, first + number * size)[0] for number in range(count))
    return PT_INTERP not in types


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def date() -> tuple[int, int, int, int, int, int]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        epoch = subprocess.run(["git", "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True).stdout
    # A zip file knows no time before 1980.
    return time.gmtime(max(int(epoch), 315_532_800))[:6]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: setup/wheel.py PROGRAM FOLDER")
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
