#!/usr/bin/env python3
"""rootfs.py ARCHIVE: runs an image of Dragoman as a container would: unpacked, from its own root file system, which is read only, as
the user of the image, who has no name and no capabilities, in name spaces of its own. It says how long the start took, asks `dragoman
health` inside, calls a tool through it, ends it with SIGTERM, and fails if anything is not as it should be.
Needs Linux, root and unshare (util-linux); of Python the standard library."""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

USER = 65532
FILES = ["etc/ssl/certs/ca-certificates.crt", "usr/local/bin/dragoman"]
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 4096
PR_SET_NO_NEW_PRIVS = 38
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags):
    if libc.mount(source.encode(), str(target).encode(), kind.encode(), flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def unpack(archive, to):
    """The image's root file system, and its configuration, which is checked."""
    with tarfile.open(archive) as image:
        about = json.load(image.extractfile("manifest.json"))[0]
        config = json.load(image.extractfile(about["Config"]))
        for layer in about["Layers"]:
            with tarfile.open(fileobj=image.extractfile(layer)) as tree:
                tree.extractall(to, filter="tar")
    c = config["config"]
    assert c["User"] == f"{USER}:{USER}" and c["Entrypoint"] == ["dragoman"], c
    assert c["Healthcheck"]["Test"] == ["CMD", "dragoman", "health"], c
    assert c["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0", c
    found = sorted(p.relative_to(to).as_posix() for p in to.rglob("*") if p.is_file())
    assert found == FILES, found
    return c


def inside(root):
    """Runs in the name spaces: nobody else sees these mounts."""
    libc.mount(b"none", b"/", None, 1 << 18 | 16384, None)  # MS_PRIVATE | MS_REC
    for name in ("proc", "dev"):  # which a runtime mounts
        (root / name).mkdir(exist_ok=True)
    mount(str(root), root, "", MS_BIND)
    mount("proc", root / "proc", "proc", 0)
    mount("tmpfs", root / "dev", "tmpfs", 0)
    (root / "dev" / "null").touch()
    mount("/dev/null", root / "dev" / "null", "", MS_BIND)
    mount("none", root, "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    try:
        (root / "x").touch()
        raise SystemExit("the root can be written to")
    except OSError:
        pass
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    def confine():
        os.chroot(root)
        os.chdir("/")
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    def dragoman(*args, **more):
        return subprocess.Popen(["/usr/local/bin/dragoman", *args], preexec_fn=confine, env={"PATH": "/usr/local/bin"}, text=True, **more)

    def health(*args):
        p = dragoman("health", *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = p.communicate()
        return p.returncode, out + err

    assert health()[0] == 1, "health of nobody"
    begun = time.monotonic()
    # A child, so that the reaper runs too; and it is asked over HTTP, so that readiness is the whole way there.
    server = dragoman("serve", "--", "dragoman", "demo", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    ready = None
    while ready is None:
        try:
            with urllib.request.urlopen("http://127.0.0.1:9090/readyz", timeout=1) as answer:
                assert answer.status == 200
                ready = time.monotonic() - begun
        except OSError:
            if server.poll() is not None or time.monotonic() - begun > 20:
                server.kill()
                raise SystemExit("it is not ready:\n" + server.communicate()[0])
            time.sleep(0.001)
    for args in ((), ("--live",)):
        code, said = health(*args)
        assert code == 0, said
        print("  dragoman health", *args, "->", said.strip())
    body = json.dumps({"tool": "echo", "arguments": {"message": "hello"}}).encode()
    request = urllib.request.Request("http://127.0.0.1:8080/call-tool", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert "hello" in json.load(answer)["data"]["content"][0]["text"]
    status = (root / "proc" / str(server.pid) / "status").read_text()
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == [str(USER)] * 4 and int(facts["CapEff"], 16) == 0 and facts["NoNewPrivs"] == "1", facts
    print(f"  ready after {ready * 1000:.0f} ms, {int(facts['VmRSS'].split()[0]) / 1024:.0f} MiB resident, uid {USER}, no capabilities, read-only root")
    begun = time.monotonic()
    server.send_signal(signal.SIGTERM)
    log, _ = server.communicate(timeout=40)
    assert server.returncode == 0, (server.returncode, log)
    assert health()[0] == 1, "health after the end"
    print(f"  SIGTERM: exit code 0 after {(time.monotonic() - begun) * 1000:.0f} ms")


def main(args):
    if args[:1] == ["--inside"]:
        inside(pathlib.Path(args[1]))
        return 0
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("rootfs.py: it needs root, to give it up inside", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        root = pathlib.Path(work, "root")
        root.mkdir()
        unpack(args[0], root)
        size = sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
        print(f"  {size / 1e6:.1f} MB in files, of which dragoman {(root / FILES[1]).stat().st_size / 1e6:.1f} MB; archive {os.stat(args[0]).st_size / 1e6:.1f} MB")
        return subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--ipc", "--uts", sys.executable, __file__, "--inside", str(root)]).returncode


sys.exit(main(sys.argv[1:]))
