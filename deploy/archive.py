#!/usr/bin/env python3
"""archive.py DIRECTORY FILE.tar.gz|FILE.zip: packs a directory, under its name, so that the bytes depend on what is in the files and on
SOURCE_DATE_EPOCH only: neither on the order of a directory, nor on times, owners, the umask or the machine.
archive.py --sums FILE...: prints their SHA-256 sums as sha256sum does. Standard library only."""

import gzip
import hashlib
import os
import pathlib
import sys
import tarfile
import time
import zipfile


def mode(path):
    """0755 for what is run, 0644 for what is read."""
    return 0o755 if path.name in ("dragoman", "dragoman.exe") else 0o644


def tar(files, out, epoch):
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=epoch) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, path in files:
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = path.stat().st_size, mode(path), epoch
                with open(path, "rb") as data:
                    archive.addfile(info, data)


def zipped(files, out, epoch):
    when = time.gmtime(max(epoch, 315532800))[:6]  # the format begins in 1980
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in files:
            info = zipfile.ZipInfo(name, when)
            info.create_system, info.external_attr, info.compress_type = 3, (0o100000 | mode(path)) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes(), compresslevel=9)


def main(args):
    if args[:1] == ["--sums"] and len(args) > 1:
        for name in sorted(args[1:]):
            print(hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest(), "", name)
        return 0
    if len(args) != 2 or not args[1].endswith((".tar.gz", ".zip")):
        print(__doc__, file=sys.stderr)
        return 2
    top = pathlib.Path(args[0])
    files = sorted((f"{top.name}/{p.relative_to(top).as_posix()}", p) for p in top.rglob("*") if p.is_file())
    pack = tar if args[1].endswith(".tar.gz") else zipped
    pack(files, args[1], int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    return 0


sys.exit(main(sys.argv[1:]))
