#!/usr/bin/env python3
"""clients.py [options] [CLIENT_RE]      MCP clients at a service of the REST envelope, through Dragoman

service.py is the service. `dragoman serve --transport rest` runs in front of it, or a client starts `dragoman stdio --transport rest`
itself. The clients are those of clients.tsv: the official suite, whose tools are in suite_tools.py. Options name others:

  --clients FILE    a line for each client, in two columns separated by a tab: its name, and the shell command that runs it, in which
                      {URL}      stands for http://localhost:PORT/mcp, {SSE} for the same with /sse
                      {STDIO}    for the command line of a stdio server: dragoman stdio, in front of the service
                      {HERE}     for the directory of clients.py
                    A client prints a line `PASS CASE …` or `FAIL CASE …` for each of its cases, and exits with 0 when none failed
  --tools FILE      the tools of the service: those that these clients call
  --known FILE      cases that fail because of the envelope; a line for each, in columns separated by tabs: patterns for the whole name
                    of client and case, and the reason. A line that is not needed is printed as STALE, and fails
  --timeout S       seconds for each client (default 180)
  --keep            keeps the logs of a run that passed

DRAGOMAN is the binary (default: dragoman at the root of the repository). Last line: `N passed, M failed` (cases).
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from envelope import Wrong
from kinds import CONFORMANCE, REST, Process

VERDICT = re.compile(r"^(PASS|FAIL)\s+(\S+)\s*(.*)$")


@dataclass
class Found:
    """The results of one client."""
    passed: list = field(default_factory=list)
    failed: list = field(default_factory=list)  # (case, what it said)
    known: list = field(default_factory=list)


def main():
    options = arguments()
    dragoman = pathlib.Path(os.environ.get("DRAGOMAN", CONFORMANCE.parent / "dragoman")).resolve()
    if not os.access(dragoman, os.X_OK):
        raise SystemExit(f"clients.py: {dragoman} is not there: build it, or set DRAGOMAN")
    chosen = [line for line in options.clients if re.search(options.client, line[0])]
    if not chosen:
        raise SystemExit("clients.py: no client is called so")
    (CONFORMANCE / ".tmp").mkdir(exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="clients.", dir=CONFORMANCE / ".tmp"))
    begun, all_found, needed, running = time.monotonic(), [], set(), []
    try:
        targets = begin(dragoman, options, place, running)
        for name, command in chosen:
            found = run(name, command, targets, place, options.timeout)
            excuse(name, found, options.known, needed)
            all_found.append(found)
            show(name, found)
    except Wrong as e:
        all_found.append(Found(failed=[("start", str(e))]))
        print(f"FAIL  {e}")
    finally:
        for process in reversed(running):
            process.stop()
    stale = [line for i, line in enumerate(options.known) if i not in needed and any(re.fullmatch(line[0], name) for name, _ in chosen)]
    for client, case, _ in stale:
        print(f"STALE {client}: {case} did not fail")
    failed = sum(len(f.failed) for f in all_found) + len(stale)
    if failed == 0 and not options.keep:
        shutil.rmtree(place, ignore_errors=True)
    else:
        print(f"logs: {place}")
    print(f"{len(all_found)} clients, {sum(len(f.known) for f in all_found)} cases known to fail, {time.monotonic() - begun:.0f} seconds")
    print(f"{sum(len(f.passed) for f in all_found)} passed, {failed} failed")
    sys.exit(failed > 0)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    p.add_argument("--tools", type=pathlib.Path, default=REST / "suite_tools.py", help=argparse.SUPPRESS)
    p.add_argument("--clients", type=columns(2), default=str(REST / "clients.tsv"), help=argparse.SUPPRESS)
    p.add_argument("--known", type=columns(3), default=[], help=argparse.SUPPRESS)
    p.add_argument("--timeout", type=float, default=180, help=argparse.SUPPRESS)
    p.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("client", nargs="?", default=".", help=argparse.SUPPRESS)
    return p.parse_args()


def columns(number):
    """Returns a function that reads files with this number of columns."""
    def read(path):
        with open(path) as file:
            lines = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
        if bad := [line for line in lines if len(line) != number]:
            raise argparse.ArgumentTypeError(f"{path}: {number} columns, parted by tabs, are wanted: {bad[0]}")
        return lines
    return read


def begin(dragoman, options, place, running):
    """Starts the service and Dragoman. Returns the replacements for a command."""
    running.append(Process(["python3", str(REST / "service.py"), "--tools", str(options.tools.resolve())], place / "service.log", r"listening on (\S+)"))
    service = running[-1].wait(20)
    upstream = ["--transport", "rest", service]
    running.append(Process([str(dragoman), "serve", "--listen", "127.0.0.1:0", "--admin", "off", *upstream], place / "dragoman.log", r'"mcp":"http://[^/"]+:(\d+)/'))
    base = f"http://localhost:{running[-1].wait(20)}"
    return {"{HERE}": str(REST), "{URL}": base + "/mcp", "{SSE}": base + "/sse", "{STDIO}": shlex.join([str(dragoman), "stdio", *upstream])}


def run(name, command, targets, place, seconds):
    """Runs a client to its end. Returns its output."""
    for key, value in targets.items():
        command = command.replace(key, value)
    log, found = place / f"{name}.log", Found()
    with open(log, "w") as out:
        process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = f"none within {seconds:.0f} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # and whatever it left behind
            except ProcessLookupError:
                pass
            process.wait()
    for line in log.read_text(errors="replace").splitlines():
        if seen := VERDICT.match(line):
            verdict, case, note = seen.groups()
            found.passed.append(case) if verdict == "PASS" else found.failed.append((case, note))
    if not found.passed and not found.failed or status != 0 and not found.failed:
        found.failed.append(("exit", f"status {status}: {log.read_text(errors='replace')[-300:].strip()}"))
    return found


def excuse(name, found, known, needed):
    """Separates known failures from others."""
    for case, note in found.failed[:]:
        for i, (client, pattern, why) in enumerate(known):
            if re.fullmatch(client, name) and re.fullmatch(pattern, case):
                needed.add(i)
                found.failed.remove((case, note))
                found.known.append((case, why))
                break


def show(name, found):
    for case, note in found.failed:
        print(f"FAIL  {name:20} {case:24} {note[:240]}")
    for case, why in found.known:
        print(f"known {name:20} {case:24} {why}")
    print(f"{'FAIL' if found.failed else 'ok':5} {name:20} {len(found.passed)} passed, {len(found.failed)} failed, {len(found.known)} known", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
