#!/usr/bin/env python3
"""archive.py DIRECTORY FILE.tar.gz|FILE.zip: packs a directory, under its name, so that the bytes depend on what is in the files and on
SOURCE_DATE_EPOCH only: neither on the order of a directory, nor on times, owners, the umask or the machine.
archive.py --sums FILE...: prints their SHA-256 sums as sha256sum does.
archive.py --image FROM TO: copies an archive of an image without what is another in each build (the name of a container that there was
meanwhile), and prints the image's id. Standard library only."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
import time
import zipfile


LEVEL = 7  # of zlib: a binary gets half a percent larger than at 9, in a third of the time


def mode(path):
    """0755 for what is run, 0644 for what is read: completions for bash have the name of the binary, too."""
    return 0o755 if path.name in ("dragoman", "dragoman.exe", "dragoman.js") and path.parent.name != "completions" else 0o644


def tar(files, out, epoch):
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=epoch) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, path in files:
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = path.stat().st_size, mode(path), epoch
                with open(path, "rb") as data:
                    archive.addfile(info, data)


def zipped(files, out, epoch):
    when = time.gmtime(max(epoch, 315532800))[:6]  # the format begins in 1980
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for name, path in files:
            info = zipfile.ZipInfo(name, when)
            info.create_system, info.external_attr, info.compress_type = 3, (0o100000 | mode(path)) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes(), compresslevel=LEVEL)


def write(top, out, prefix):
    """Packs the files below a directory, each under prefix/. SOURCE_DATE_EPOCH is their time."""
    files = sorted((f"{prefix}/{p.relative_to(top).as_posix()}".lstrip("/"), p) for p in top.rglob("*") if p.is_file())
    pack = tar if out.name.endswith((".tar.gz", ".tgz")) else zipped
    pack(files, out, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))


def image(source, out, epoch):
    with tarfile.open(source) as old, tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as new:
        about = json.load(old.extractfile("manifest.json"))[0]
        config = json.load(old.extractfile(about["Config"]))
        for key in ("container", "container_config"):
            config.pop(key, None)
        for key in ("Hostname", "Domainname"):
            config["config"].pop(key, None)
        raw = json.dumps(config, separators=(",", ":"), sort_keys=True).encode()
        image_id = hashlib.sha256(raw).hexdigest()
        about["Config"] = image_id + ".json"

        def add(name, size, data):
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = size, 0o644, epoch
            new.addfile(info, data)

        for layer in about["Layers"]:
            add(layer, old.getmember(layer).size, old.extractfile(layer))
        add(about["Config"], len(raw), io.BytesIO(raw))
        raw = json.dumps([about], separators=(",", ":"), sort_keys=True).encode()
        add("manifest.json", len(raw), io.BytesIO(raw))
    return "sha256:" + image_id


def main(args):
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    if args[:1] == ["--image"] and len(args) == 3:
        print(image(args[1], args[2], epoch))
        return 0
    if args[:1] == ["--sums"] and len(args) > 1:
        for name in sorted(args[1:]):
            print(hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest(), "", name)
        return 0
    if len(args) != 2 or not args[1].endswith((".tar.gz", ".zip")):
        print(__doc__, file=sys.stderr)
        return 2
    top = pathlib.Path(args[0])
    write(top, pathlib.Path(args[1]), top.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
