"""The servers behind Dragoman: the fixtures of this repository, or those that another program starts."""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
from dataclasses import dataclass

from envelope import Wrong

REST = pathlib.Path(__file__).resolve().parent
CONFORMANCE = REST.parent


@dataclass(frozen=True)
class Kind:
    name: str
    era: str        # modern, legacy or dual
    transport: str  # http, sse, stdio, socket or rest


class Process:
    """A process group with its output in a file, in which it announces where it listens."""

    def __init__(self, command, log, announces=None, env=None):
        self.log, self.announced, self.found = log, threading.Event(), None
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True, env=env)
        self.reader = threading.Thread(target=self.read, args=(re.compile(announces or r"(?!)"),), daemon=True)
        self.reader.start()

    def read(self, pattern):
        with open(self.log, "wb", buffering=0) as log:
            for line in self.process.stdout:
                log.write(line)
                if self.found is None and (found := pattern.search(line.decode(errors="replace"))):
                    self.found = found.group(1)
                    self.announced.set()
        self.announced.set()

    def wait(self, seconds):
        """Waits for the announcement and returns it."""
        self.announced.wait(seconds)
        if self.found is None:
            with open(self.log, errors="replace") as log:
                raise Wrong(f"it did not begin within {seconds} s: {log.read()[-400:].strip()}")
        return self.found

    def stop(self):
        """Ends the group, by force if it does not end in time."""
        for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
            break
        self.reader.join(5)


class Fixtures:
    """The fixtures of this repository and a server from npm."""

    KINDS = [Kind(f"{era}-{transport}", era, transport) for era, transport in (
        ("modern", "http"), ("legacy", "http"), ("legacy", "stdio"), ("modern", "stdio"), ("legacy", "sse"), ("dual", "http"),
        ("legacy", "socket"))] + [Kind("npm-stdio", "legacy", "stdio"), Kind("rest", "modern", "rest")]

    def kinds(self):
        if not (CONFORMANCE / "node_modules" / ".ready").exists():
            raise SystemExit(f"servers.py: run {CONFORMANCE / 'setup.sh'} first")
        return self.KINDS

    def start(self, kind, directory):
        """Starts a server. Returns the arguments of `dragoman serve` and an object whose stop ends the server."""
        fixture = ["node", str(CONFORMANCE / "fixtures" / "everything.mjs"), "--era", kind.era]
        shared = ["--state", str(directory / "state")]
        if kind.name == "npm-stdio":
            package = CONFORMANCE / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
            return ["--", "node", str(package), "stdio"], None
        if kind.transport == "stdio":
            return ["--", *fixture, "--transport", "stdio", *shared], None
        if kind.transport == "socket":
            command = ["node", str(CONFORMANCE / "fixtures" / "socket.mjs"), *fixture, "--transport", "stdio", *shared]
        elif kind.transport == "rest":
            command = ["python3", str(REST / "service.py")]
        else:
            command = [*fixture, "--transport", kind.transport, *shared]
        server = Process(command, directory / "server.log", r"listening on (\S+)")
        try:
            url = server.wait(20)
        except Wrong:
            server.stop()
            raise
        return ([url, "--transport", "rest"] if kind.transport == "rest" else [url]), server


class Collection:
    """The servers of another program: `--list` prints a line for each (name, era, transport), `--cmd KIND` the command line of one that
    speaks over stdio, KIND starts another and prints its URL, `--down KIND` ends it."""

    def __init__(self, command):
        self.command = shlex.split(command)

    def run(self, *arguments):
        try:
            done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, timeout=60, check=True)
        except subprocess.TimeoutExpired:
            raise Wrong(f"{self.command[0]} {' '.join(arguments)}: no end within 60 s") from None
        except subprocess.CalledProcessError as e:
            raise Wrong(f"{self.command[0]} {' '.join(arguments)}: status {e.returncode}: {(e.stderr or e.stdout)[-300:].strip()}") from None
        return done.stdout

    def kinds(self):
        lines = (line.split() for line in self.run("--list").splitlines())
        return [Kind(*words[:3]) for words in lines if len(words) >= 3]

    def start(self, kind, _):
        if kind.transport == "stdio":
            return ["--", *shlex.split(self.run("--cmd", kind.name))], None
        return [self.run(kind.name).strip().splitlines()[-1]], Started(self, kind)


class Started:
    """A server that `--down` ends."""

    def __init__(self, collection, kind):
        self.collection, self.kind = collection, kind

    def stop(self):
        self.collection.run("--down", self.kind.name)
