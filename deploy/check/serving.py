"""What installed.py and launchers.py share: a registry of npm packages on the loopback, and a Dragoman that runs in front of a server."""

import base64
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import random
import socket
import subprocess
import tarfile
import threading
import time
import urllib.parse
import urllib.request

PATIENCE = 120  # seconds for what may fetch a server first
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def until(condition, seconds, what):
    """Waits until a condition is true, and returns what it returned."""
    end = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s: {what}")
        time.sleep(0.02)


def free_port():
    """A port below those that connections are given, so that it stays free."""
    for _ in range(100):
        port = random.randint(20000, 30000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Registry:
    """Serves the npm packages of a directory as a registry does, and counts the bytes of those that were fetched. Other packages than those whose
    names begin with prefix are at the registry of the environment: `dragoman stdio` hands its own on to the server that npx fetches."""

    def __init__(self, directory, prefix):
        self.prefix = prefix
        self.others = subprocess.run(["npm", "config", "get", "registry"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip().rstrip("/")
        self.files = {p.name: p for p in directory.glob("*.tgz")}
        self.fetched = 0
        self.packages = {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path = urllib.parse.unquote(self.path.split("?")[0].lstrip("/"))
                body, kind = registry.answer(path)
                if path.startswith(("-/", registry.prefix)):
                    self.send_response(200 if body else 404)
                else:
                    self.send_response(302)
                    self.send_header("Location", registry.others + self.path)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        for file in self.files.values():
            self.read(file)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def read(self, file):
        with tarfile.open(file) as package:
            about = json.load(package.extractfile("package/package.json"))
        sum512 = base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
        about["dist"] = {"tarball": f"{self.url}-/{file.name}", "integrity": f"sha512-{sum512}"}
        self.packages[about["name"]] = {"name": about["name"], "dist-tags": {"latest": about["version"]}, "versions": {about["version"]: about}}

    def answer(self, path):
        if path.startswith("-/") and path[2:] in self.files:
            body = self.files[path[2:]].read_bytes()
            self.fetched += len(body)
            return body, "application/octet-stream"
        if path in self.packages:
            return json.dumps(self.packages[path]).encode(), "application/json"
        return b"", "application/json"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def tail(path):
    return path.read_text(errors="replace")[-4000:] if path.exists() else ""


class Serving:
    """A `dragoman serve`, started by a command, with a server behind it. What it starts has the directory work as its own, by which the
    processes are found again. Leaving the context ends all of them."""

    def __init__(self, command, upstream, work, env=None, **options):
        self.work = work
        self.port, self.admin = free_port(), free_port()
        self.log = work / f"serve-{self.port}.log"
        args = ["serve", "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}", *upstream]
        options.setdefault("stdin", subprocess.DEVNULL)
        for name in ("stdout", "stderr"):
            options.setdefault(name, open(self.log, "ab"))
        self.process = subprocess.Popen([*command, *args], cwd=work, env=env, **options)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.process.kill()
        self.process.wait()
        if any(failure):
            print(tail(self.log))

    def call(self, tool, arguments, seconds=PATIENCE):
        body = json.dumps({"tool": tool, "arguments": arguments}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/call-tool", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)["data"]["content"][0]["text"]

    def ready(self):
        """Waits for the first answer of the server."""
        def answered():
            assert self.process.poll() is None, f"it has ended with {self.process.returncode}:\n{tail(self.log)}"
            with contextlib.suppress(OSError):
                return self.call("echo", {"message": "hello"})
        said = until(answered, PATIENCE, f"no answer:\n{tail(self.log)}")
        assert said == "Echo: hello", said

    def in_flight(self):
        """How many requests run, by the metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("dragoman_requests_in_flight "):
                    return int(line.split()[1])
        raise AssertionError("there is no dragoman_requests_in_flight")

    def processes(self):
        """The processes that have our directory as theirs, or a program in it: all that was started here."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                for link in ("cwd", "exe"):
                    with contextlib.suppress(OSError):
                        if os.readlink(entry / link).startswith(str(self.work)) and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                            found.append(int(entry.name))
                            break
        return found

    def gone(self, seconds):
        """Waits until nothing is left of it."""
        def names():
            return [(pathlib.Path("/proc", str(p), "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]) for p in self.processes() if pathlib.Path("/proc", str(p)).exists()]
        end = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < end, f"after {seconds} s there are still {left}: {names()}"
            time.sleep(0.02)
