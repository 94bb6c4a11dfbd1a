#!/usr/bin/env python3
"""installed.py [--short] [--table FILE] DIRECTORY: installs Dragoman from the files of a release in DIRECTORY (deploy/release.sh) in each way that
there is, each time into an empty folder, up to the first answer of @modelcontextprotocol/server-everything behind it, over HTTP and over stdio;
and checks what npx and uvx pass on (launchers.py). In full npx fetches the server, deb and rpm are installed in a Debian of their own, and
removed, and `go install` builds the module from an empty cache. --short takes the server from conformance/, unpacks deb and rpm into a folder,
and leaves `go install` out. --table writes the times and sizes. A line for each check; the last is `N passed, N failed`. Needs Linux, Node.js,
Python with venv, dpkg, rpm, and conformance/setup.sh; in full also root, debootstrap, Go and the registries."""

import argparse
import contextlib
import dataclasses
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from launchers import Launcher, bare, code, inside, stdio
from serving import ROOT, Registry, Serving, free_port, tail, until

NPM = {"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_yes": "true"}
SLOW = 5  # seconds of a start that has to be looked into


@dataclasses.dataclass
class Way:
    """A way to install it. install returns the command that runs it; notes is what a user has to know."""
    name: str
    shown: str
    install: object
    notes: str
    command: list = None
    env: dict = None
    inside: bool = False  # of a Debian of its own, where the server is not
    fetched: int = 0  # bytes
    disk: int = 0
    installed: float = 0
    answered: float = 0
    spoken: float = 0


class Check:
    def __init__(self, dist, work, short):
        self.dist, self.work, self.short = dist, work, short
        self.npm = self.name("NPM_NAME")
        self.registry = Registry(dist, self.npm)
        self.pypi = self.name("PYPI_NAME")
        self.linux = self.name("LINUX_NAME")
        self.module = self.name("MODULE")
        pinned = json.loads((ROOT / "conformance/package.json").read_text())["dependencies"]["@modelcontextprotocol/server-everything"]
        self.everything = f"@modelcontextprotocol/server-everything@{pinned}"
        archive = self.file("*-linux-*.tar.gz")
        self.version = re.fullmatch(r"dragoman-(.+)-linux-\w+\.tar\.gz", archive.name)[1]
        self.passed = self.failed = 0
        self.lock = threading.Lock()

    @staticmethod
    def name(which):
        script = f'. deploy/names.sh && printf %s "${which}"'
        return subprocess.run(["sh", "-c", script], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout

    def file(self, pattern):
        machine = {"x86_64": ["amd64", "x86_64", "x64"], "aarch64": ["arm64", "aarch64"]}[os.uname().machine]
        found = [p for p in self.dist.glob(pattern) if any(m in p.name for m in machine)]
        assert len(found) == 1, f"{pattern}: {found}"
        return found[0]

    def report(self, what, check):
        try:
            check()
        except Exception as err:  # the others are checked all the same
            with self.lock:
                self.failed += 1
                print(f"FAILED {what}: {err}\n{traceback.format_exc()}", flush=True)
            return
        with self.lock:
            self.passed += 1
            print(f"ok     {what}", flush=True)

    # The ways. Each gets an empty folder.

    def archive(self, way, home):
        file = self.file("*-linux-*.tar.gz")
        way.fetched = file.stat().st_size
        run(["tar", "-xzf", file, "-C", home])
        top = home / file.name.removesuffix(".tar.gz")
        for name in ("man/dragoman.1", "completions/dragoman.bash", "completions/_dragoman", "dragoman.service", "dragoman.cdx.json", "config.toml", "LICENSE"):
            assert (top / name).is_file(), name
        return [top / "dragoman"]

    def npx(self, way, home):
        way.env = {**os.environ, **NPM, "npm_config_registry": self.registry.url, "npm_config_cache": str(home / "npm")}
        before = self.registry.fetched
        run(["npx", self.npm, "version"], env=way.env, cwd=home)
        way.fetched = self.registry.fetched - before
        return ["npx", self.npm]

    def npm_global(self, way, home):
        """From the two files, without a registry."""
        files = [self.launcher(), self.file("*-linux-*.tgz")]
        way.fetched = sum(f.stat().st_size for f in files)
        run(["npm", "install", "--offline", "--global", "--prefix", home / "prefix", *files], env={**os.environ, **NPM, "npm_config_cache": str(home / "npm")}, cwd=home)
        assert (home / "prefix/share/man/man1/dragoman.1").exists(), "the manual page is not linked"
        return [home / "prefix/bin/dragoman"]

    def launcher(self):
        return self.dist / f"{self.npm.removeprefix('@').replace('/', '-')}-{self.semver()}.tgz"

    def semver(self):
        return self.version[1:] if re.match(r"v\d", self.version) else f"0.0.0-{self.version}"

    def pip(self, way, home):
        run([sys.executable, "-m", "venv", home / "venv"])
        before, begun = disk(home), time.monotonic()
        run([home / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links", self.dist, self.pypi])
        way.installed = time.monotonic() - begun
        way.fetched, way.disk = self.file("*linux*.whl").stat().st_size, disk(home) - before
        assert (home / "venv/share/man/man1/dragoman.1").is_file(), "the manual page is not installed"
        return [home / "venv/bin/dragoman"]

    def uvx(self, way, home):
        way.env = {**os.environ, "UV_CACHE_DIR": str(home / "uv"), "UV_PYTHON_DOWNLOADS": "never"}
        command = [uv(self.work) / "uvx", "--no-config", "--no-index", "--find-links", self.dist, "--from", self.pypi, "dragoman"]
        begun = time.monotonic()
        run([*command, "version"], env=way.env)
        way.installed = time.monotonic() - begun
        way.fetched = self.file("*linux*.whl").stat().st_size
        return command

    def deb_tree(self, way, home):
        """Unpacked by dpkg in a tree of its own, with its database."""
        for name in ("updates", "info", "triggers"):
            (home / "var/lib/dpkg" / name).mkdir(parents=True)
        (home / "var/lib/dpkg/status").touch()
        file = self.file("*.deb")
        way.fetched = file.stat().st_size
        run(["dpkg", f"--root={home}", f"--log={home}/dpkg.log", "--force-script-chrootless", "--force-not-root", "--install", file])
        self.laid_out(home, "zsh/vendor-completions")
        return [home / "usr/bin/dragoman"]

    def rpm_tree(self, way, home):
        file = self.file("*.rpm")
        way.fetched = file.stat().st_size
        self.queried(file)
        run(["rpm", "--root", home, "--dbpath", "/db", "--nodeps", "--noscripts", "--nosignature", "-i", file])
        self.laid_out(home, "zsh/site-functions")
        return [home / "usr/bin/dragoman"]

    def queried(self, file):
        said = run(["rpm", "-qip", "--nosignature", file])
        for line in (f"Name        : {self.linux}", "License     : Apache-2.0", "Build Host  : localhost"):
            assert line in said, said

    def laid_out(self, root, zsh):
        """What the packages for Linux have beside the binary."""
        unit = (root / "usr/lib/systemd/system/dragoman.service").read_text()
        assert "ExecStart=/usr/bin/dragoman " in unit and "/usr/local" not in unit, unit
        for name in ("etc/dragoman", "usr/share/man/man1/dragoman-serve.1.gz", "usr/share/bash-completion/completions/dragoman", f"usr/share/{zsh}/_dragoman",
                     "usr/share/fish/vendor_completions.d/dragoman.fish", f"usr/share/doc/{self.linux}/examples/config.toml", f"usr/share/doc/{self.linux}/copyright"):
            assert (root / name).exists(), name
        assert b"dragoman serve" in gzip.open(root / "usr/share/man/man1/dragoman-serve.1.gz").read()

    def deb(self, way, home):
        """In a Debian of its own, with its scripts; removed again, it leaves nothing."""
        debian(self.work, home)
        file = self.file("*.deb")
        shutil.copy(file, home / "tmp")
        before, size = listing(home), disk(home)
        for remove in (True, False):
            begun = time.monotonic()
            run(["chroot", home, "dpkg", "--install", f"/tmp/{file.name}"])
            way.installed = time.monotonic() - begun
            if remove:
                way.fetched, way.disk = file.stat().st_size, disk(home) - size
                run(["chroot", home, "dpkg", "--purge", self.linux])
                assert listing(home) == before, listing(home) ^ before
        return ["chroot", home, "dragoman"]

    def rpm(self, way, home):
        """In a root file system of its own, with its scripts, by the rpm of this machine; removed again, it leaves nothing."""
        debian(self.work, home)
        file = self.file("*.rpm")
        self.queried(file)
        before, size = listing(home), disk(home)
        for remove in (True, False):
            begun = time.monotonic()
            run(["rpm", "--root", home, "--dbpath", "/tmp/db", "--nodeps", "--nosignature", "-i", file])
            way.installed = time.monotonic() - begun
            if remove:
                way.fetched, way.disk = file.stat().st_size, disk(home) - size
                run(["rpm", "--root", home, "--dbpath", "/tmp/db", "-e", self.linux])
                assert listing(home) == before, listing(home) ^ before
        return ["chroot", home, "dragoman"]

    def go(self, way, home):
        """With an empty module cache: first from the release, then from the proxy of the environment."""
        proxy = run(["go", "env", "GOPROXY"]).strip()
        env = {**os.environ, "GOPATH": str(home / "go"), "GOMODCACHE": str(home / "mod"), "GOBIN": str(home / "bin"), "GOCACHE": str(home / "cache"), "GOFLAGS": "-modcacherw",
               "GOPROXY": f"file://{self.dist}/goproxy,{proxy}", "GONOSUMDB": self.module, "CGO_ENABLED": "0", "GOWORK": "off"}
        run(["go", "install", f"{self.module}@v{self.semver()}"], env=env, cwd=home)
        way.fetched = disk(home / "mod/cache/download")
        way.disk = disk(home)
        return [home / "bin" / self.module.rpartition("/")[2]]

    # What is checked of each.

    def way(self, way):
        home = self.work / way.name.replace(" ", "-")
        home.mkdir()
        begun = time.monotonic()
        way.command = [str(w) for w in way.install(way, home)]
        way.installed = way.installed or time.monotonic() - begun
        way.disk = way.disk or disk(home)
        got, said = code(way.command, ["version"], home, way.env)
        version = self.version if way.name != "go install" else f"v{self.semver()}"
        assert got == 0 and said.startswith(f"dragoman {version} "), said
        with self.server(way, home) as upstream:
            begun = time.monotonic()
            with Serving(way.command, upstream, home, way.env) as s:
                s.ready()
                way.answered = time.monotonic() - begun
                if way.answered > SLOW and self.short:
                    print(f"{way.name}: the first answer took {way.answered:.1f} s:\n{tail(s.log)}")
                s.process.terminate()
                s.process.wait(20)
                s.gone(10)
            way.spoken = stdio(way.command, upstream, home, way.env)

    def alone(self):
        """Seconds that the server takes without us: npx fetches and starts it, and its standard input is at its end."""
        begun = time.monotonic()
        run(["npx", "-y", self.everything, "stdio"], env={**os.environ, "npm_config_cache": str(self.work / "alone")})
        return time.monotonic() - begun

    @contextlib.contextmanager
    def server(self, way, home):
        """The arguments that name the server: a command, or the URL of one outside of a root file system."""
        local = str(ROOT / "conformance/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
        if not way.inside:
            yield ["--", "node", local, "stdio"] if self.short else ["--env", f"npm_config_cache={home}/server", "--", "npx", "-y", self.everything]
            return
        port = free_port()
        with subprocess.Popen(["node", local, "streamableHttp"], env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
            try:
                until(lambda: listening(port), 60, "the server does not listen")
                yield [f"http://127.0.0.1:{port}/mcp"]
            finally:
                p.kill()

    def ways(self):
        npm, pypi = self.npm, self.pypi
        yield Way("archive", "`tar -xzf dragoman-….tar.gz`", self.archive, "no manual pages on `MANPATH` and no completions until they are copied")
        yield Way("npx", f"`npx {npm} …`", self.npx, "asks before it installs (`-y` answers); npm and Node.js stay in front of it; npx keeps SIGINT to itself, unless a terminal sends it, and ends at SIGTERM before Dragoman has drained")
        yield Way("npm", f"`npm install -g {npm}`", self.npm_global, "Node.js stays in front of it; `--omit=optional` leaves the binary out")
        yield Way("pip", f"`pip install {pypi}`", self.pip, "in a virtual environment, which most systems ask for; its command is `dragoman`")
        yield Way("uvx", f"`uvx --from {pypi} dragoman …`", self.uvx, "ends with a killed uvx only with `DRAGOMAN_PARENT=0`")
        if self.short:
            yield Way("deb", "`dpkg -i dragoman_….deb`", self.deb_tree, "")
            yield Way("rpm", "`rpm -i dragoman-….rpm`", self.rpm_tree, "")
            return
        yield Way("deb", "`dpkg -i dragoman_….deb`", self.deb, "the service starts when it is enabled: it needs `/etc/dragoman/config.toml` first", inside=True)
        yield Way("rpm", "`rpm -i dragoman-….rpm`", self.rpm, "the same", inside=True)
        yield Way("go install", f"`go install {self.module}@v…`", self.go, "needs Go; no manual pages, no service")

    def launchers(self, ways):
        """What npx, uvx and the launcher itself pass on; each at once with the others, since most of the time is waiting."""
        upstream = ["--", "node", str(ROOT / "conformance/node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"]
        threads = []
        for name, options in (("npm", {}), ("npx", {"through": True}), ("uvx", {"asks": True})):
            way, work = ways[name], self.work / f"launched-{name}"
            work.mkdir()
            one = Launcher(name, way.command, upstream, work, way.env, **options)
            cases = list(one.cases())
            if name == "npm":
                cases += [("a SIGKILL inside", lambda one=one: inside(one)), ("without a binary", lambda work=work: bare(self.launcher(), work))]
            threads.append(threading.Thread(target=lambda cases=cases, name=name: [self.report(f"{name}: {what}", case) for what, case in cases]))
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def run(command, **options):
    p = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert p.returncode == 0, f"{' '.join(str(c) for c in command)}: exit code {p.returncode}:\n{p.stdout[-4000:]}"
    return p.stdout


def listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


def disk(path):
    """Bytes of all files, hard links once."""
    seen = {}
    for p in pathlib.Path(path).rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if p.is_file() and not p.is_symlink():
                seen[p.stat().st_ino] = p.stat().st_size
    return sum(seen.values())


def listing(root):
    """The files of a root file system, and what has our name, without what package managers keep about packages. rpm leaves directories that other
    packages use as well."""
    kept = ("var/lib/dpkg/", "var/log/", "var/cache/", "tmp/", "proc/", "dev/")
    names = {p.relative_to(root).as_posix(): p for p in root.rglob("*")}
    return {n for n, p in names.items() if not n.startswith(kept) and (not p.is_dir() or "dragoman" in n)}


made = threading.Lock()


def debian(work, root):
    """A minimal Debian 12, the oldest that the packages are for, in a directory. It is made once, and copied."""
    with made:
        if not (work / "debian").exists():
            run(["debootstrap", "--variant=minbase", "bookworm", work / "debian"])
    root.rmdir()
    run(["cp", "-a", work / "debian", root])


def uv(work):
    """The folder of uv: that of the conformance tests, or one that is installed in the same version."""
    pinned = re.search(r"(?m)^UV=(\S+)$", (ROOT / "conformance/servers/setup.sh").read_text())[1]
    there = ROOT / "conformance/servers/.venv/uv"
    if (there / ".ready").exists() and (there / ".ready").read_text().strip() == pinned:
        return there / "bin"
    with made:
        if not (work / "uv-itself/bin/uvx").exists():
            run([sys.executable, "-m", "venv", work / "uv-itself"])
            run([work / "uv-itself/bin/pip", "install", "--quiet", "--disable-pip-version-check", f"uv=={pinned}"])
    return work / "uv-itself/bin"


ABOUT = """# Installed
Each way to install Dragoman, with its time and size from an empty folder to the first answer of `@modelcontextprotocol/server-everything`
behind it. Written by `make installed` from the packages of this tree, on a machine with {cores} cores. The packages come from this
machine. The server comes from its registry, by `npx` with an empty cache, which takes {alone:.1f} s without Dragoman; over stdio it
is there already, as it is for deb and rpm. `make test` checks all but `go install` in a shorter form, and that streams, exit codes
and signals pass `npx` and `uvx`.

"""


def table(ways):
    out = io.StringIO()
    out.write("| | command | installed after | fetched | on disk | then over HTTP after | over stdio after | to know |\n|---|---|---|---|---|---|---|---|\n")
    for w in ways:
        out.write(f"| {w.name} | {w.shown} | {w.installed:.1f} s | {w.fetched / 1e6:.1f} MB | {w.disk / 1e6:.1f} MB | {w.answered:.2f} s | {w.spoken:.2f} s | {w.notes} |\n")
    return out.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("dist", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        os.chmod(work, 0o755)
        check = Check(args.dist.resolve(), pathlib.Path(work), args.short)
        ways = {w.name: w for w in check.ways()}
        for w in ways.values():
            check.report(f"{w.name}: from an empty folder to the first answer", lambda w=w: check.way(w))
        if all(ways[n].command for n in ("npm", "npx", "uvx")):
            check.launchers(ways)
        check.registry.close()
        print(table(ways.values()))
        if args.table and not check.failed:
            args.table.write_text(ABOUT.format(alone=check.alone(), cores=os.cpu_count()) + table(ways.values()))
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
