#!/usr/bin/env python3
"""servers.py [options] [KIND_RE]      calls real servers through the REST envelope, one after the other

Dragoman runs in front of each server, and a caller without MCP makes lists, calls, calls that fail, calls with progress and logs on a
stream, questions in rounds, and cancellations by closing the connection, which the server itself must count. Every member of every
answer is checked against the rules of the envelope. The servers are the fixtures of this repository, one from npm and a REST service,
or those of another collection:

  --kinds COMMAND   a program that starts servers. `COMMAND --list` prints a line for each: name, era, transport (http, sse or stdio),
                    and whatever follows; `COMMAND --cmd KIND` the command line of a stdio server; `COMMAND KIND` starts another and
                    prints its URL; `COMMAND --down KIND` ends that
  --known FILE      known deviations of these servers; a line for each, in columns separated by tabs: patterns for server and case, and
                    the reason. Such a case has to fail: a line that is not needed is printed as STALE, and fails
  --only RE         only the cases whose names match
  --jobs N          how many servers at once (default 2)
  --patience S      seconds for an answer, and for an effect (default 30)
  --brief           a line for each server, and what failed
  --keep            keeps the logs of a run that passed
  --list            the cases, and the servers

A line is PASS, FAIL, none (the server does not offer it) or known, then server and case. LIMITS in cases.py lists what some
implementations of servers cannot do with any client, with the reason; that outcome is expected. DRAGOMAN is the binary (default:
dragoman at the root of the repository). Last line: `N passed, M failed`.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

import cases
import questions  # noqa: F401: its cases register themselves
from envelope import Rest, Wrong
from kinds import CONFORMANCE, Collection, Fixtures, Process


def main():
    options = arguments()
    dragoman = pathlib.Path(os.environ.get("DRAGOMAN", CONFORMANCE.parent / "dragoman")).resolve()
    if not os.access(dragoman, os.X_OK):
        raise SystemExit(f"servers.py: {dragoman} is not there: build it, or set DRAGOMAN")
    source = Collection(options.kinds) if options.kinds else Fixtures()
    kinds = [k for k in source.kinds() if re.search(options.kind, k.name)]
    chosen = [(name, run) for name, run in cases.CASES if re.search(options.only, name)]
    if not kinds or not chosen:
        raise SystemExit("servers.py: no server, or no case, is called so (servers.py --list)")
    if options.list:
        print("\n".join(f"{name:22} {(run.__doc__ or '').splitlines()[0] if run.__doc__ else ''}".rstrip() for name, run in chosen))
        print("\n".join(f"{k.name:28} {k.era:8} {k.transport}" for k in kinds))
        return
    (CONFORMANCE / ".tmp").mkdir(exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="servers.", dir=CONFORMANCE / ".tmp"))
    begun, total = time.monotonic(), Total(options.brief)
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for done in [pool.submit(Try(source, dragoman, place, options, total, chosen), kind) for kind in kinds]:
                done.result()
    finally:
        if total.failed == 0 and not options.keep:
            shutil.rmtree(place, ignore_errors=True)
        else:
            print(f"logs: {place}")
    print(f"{len(kinds)} servers, {total.none} cases not offered, {total.known} known to differ, {time.monotonic() - begun:.0f} seconds")
    print(f"{total.passed} passed, {total.failed} failed")
    sys.exit(total.failed > 0)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    p.add_argument("--kinds", help=argparse.SUPPRESS)
    p.add_argument("--known", type=read_known, default=[], help=argparse.SUPPRESS)
    p.add_argument("--only", default=".", help=argparse.SUPPRESS)
    p.add_argument("--jobs", type=int, default=2, help=argparse.SUPPRESS)
    p.add_argument("--patience", type=float, default=30, help=argparse.SUPPRESS)
    for flag in ("--brief", "--keep", "--list"):
        p.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    p.add_argument("kind", nargs="?", default=".", help=argparse.SUPPRESS)
    return p.parse_args()


def read_known(path):
    """The lines of --known."""
    lines = [line.rstrip("\n").split("\t") for line in open(path) if line.strip() and not line.startswith("#")]
    if bad := [line for line in lines if len(line) != 3]:
        raise argparse.ArgumentTypeError(f"{path}: three columns, parted by tabs, are wanted: {bad[0]}")
    return lines


class Total:
    """The totals of all servers. Prints the lines of a server together."""

    def __init__(self, brief):
        self.brief, self.lock = brief, threading.Lock()
        self.passed = self.failed = self.none = self.known = 0

    def add(self, kind, found, seconds):
        with self.lock:
            counts = {verdict: sum(1 for v, *_ in found if v == verdict) for verdict in ("PASS", "FAIL", "none", "known")}
            self.passed, self.failed = self.passed + counts["PASS"], self.failed + counts["FAIL"]
            self.none, self.known = self.none + counts["none"], self.known + counts["known"]
            for verdict, name, note in found:
                if not self.brief or verdict == "FAIL":
                    print(f"{verdict:5} {kind.name:24} {name:22} {note}".rstrip())
            print(f"{'FAIL' if counts['FAIL'] else 'ok':5} {kind.name:24} {counts['PASS']} passed, {counts['FAIL']} failed, "
                  f"{counts['known']} known, {counts['none']} not offered, {seconds:.0f} s", flush=True)


class Try:
    """A run against one server behind Dragoman."""

    def __init__(self, source, dragoman, place, options, total, chosen):
        self.source, self.dragoman, self.place, self.options, self.total, self.chosen = source, dragoman, place, options, total, chosen

    def __call__(self, kind):
        begun, directory, server, proxy = time.monotonic(), self.place / kind.name, None, None
        directory.mkdir()
        found = []
        try:
            upstream, server = self.source.start(kind, directory)
            proxy = Process([str(self.dragoman), "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--log-level", "debug", *upstream],
                            directory / "dragoman.log", r'"mcp":"(http://[^/"]+)', {**os.environ, **settings(kind)})
            self.ask(kind, proxy.wait(self.options.patience), found)
        except Wrong as e:
            found.append(("FAIL", "start", str(e)))
        finally:
            for process in (proxy, server):
                if process is not None:
                    process.stop()
            self.total.add(kind, found, time.monotonic() - begun)

    def ask(self, kind, base, found):
        rest = Rest(base, self.options.patience)
        tools = {t["name"]: t["input_schema"] for t in rest.bare("GET", "/tools")["tools"]}
        rest.until("the service is healthy", lambda: healthy(rest))
        for name, run in self.chosen:
            s = cases.Server(kind, rest, tools)
            found.append(self.judge(kind, name, *outcome(run, s)))

    def judge(self, kind, name, verdict, note):
        """Returns the outcome of a case, known deviations considered."""
        why = next((why for k, c, why in self.options.known if re.search(k, kind.name) and re.fullmatch(c, name)), None)
        if why is None or verdict == "none":
            return verdict, name, note
        if verdict == "FAIL":
            return "known", name, f"{why} ({note})"
        return "FAIL", name, f"STALE: it passes, but is known to differ: {why}"


def outcome(run, s):
    """Runs a case. Returns its result and a note."""
    try:
        run(s)
        return "PASS", s.note
    except cases.NotOffered as e:
        return "none", str(e)
    except Wrong as e:
        return "FAIL", str(e)
    except (KeyError, TypeError, IndexError, AttributeError, StopIteration) as e:  # an answer of another shape than the case expects
        return "FAIL", f"the answer has another shape: {e!r}"


def healthy(rest):
    """Reports whether the service has connected to its server."""
    connection, response = rest.send("GET", "/health")
    try:
        return response.status == 200 and response.read()
    finally:
        connection.close()


def settings(kind):
    """Returns Dragoman's settings for a server, as environment variables."""
    told = dict(cases.SETTINGS)
    for limit in cases.LIMITS:
        if re.search(limit.kind, kind.name) and kind.era in limit.eras:
            told.update(limit.settings)
    return {"DRAGOMAN_" + key.replace(".", "_").upper(): value for key, value in told.items()}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
