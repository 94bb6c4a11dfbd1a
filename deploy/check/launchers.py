"""What npx and uvx must pass on to Dragoman: standard streams, exit codes and signals; and that nothing outlives them. Each case runs the
command as a client would, with a server behind it. Needs Linux (/proc)."""

import json
import os
import pty
import signal
import subprocess
import tarfile
import threading
import time

from serving import Serving, until

SLOW = {"duration": 2, "steps": 2}  # of the tool, seconds
GONE = 6  # seconds in which everything must have ended after a SIGKILL: two looks for the parent, and the server's time to stop

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}}
LINES = [INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"},
         {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "hello"}}}]


def ask(process):
    """Calls a tool over the standard streams of `dragoman stdio`."""
    for number, message in enumerate(LINES):
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        while "id" in message:
            line = process.stdout.readline()
            assert line, f"no answer to {message['method']}; exit code {process.wait()}"
            answer = json.loads(line)
            if answer.get("id") == message["id"]:
                break
    assert "Echo: hello" in json.dumps(answer), answer


def stdio(command, upstream, work, env):
    """Calls a tool over standard streams, and ends with them. Returns the seconds to the answer."""
    begun = time.monotonic()
    with open(work / "stdio.log", "ab") as log:
        p = subprocess.Popen([*command, "stdio", *upstream], cwd=work, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            ask(p)
            took = time.monotonic() - begun
            p.stdin.close()
            code = p.wait(20)
            assert code == 0, f"exit code {code} after the end of stdin"
            return took
        finally:
            p.kill()


def code(command, args, work, env):
    p = subprocess.run([*command, *args], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return p.returncode, p.stdout


class Launcher:
    """A way to run Dragoman through another program, and the cases that it must pass.

    through: npx puts a shell between itself and us. What the shell makes of a signal is not ours: it ends at a SIGTERM before we have drained,
    keeps a SIGINT to itself, and npx ends with either. asks: it ends us only if it is asked to, by DRAGOMAN_PARENT."""

    def __init__(self, name, command, upstream, work, env, through=False, asks=False):
        self.name, self.command, self.upstream, self.work, self.env = name, command, upstream, work, env
        self.through, self.asks = through, asks

    def cases(self):
        yield "exit codes", self.codes
        yield "stdin and stdout of dragoman stdio", lambda: stdio(self.command, self.upstream, self.work, self.env)
        yield "SIGTERM drains", lambda: self.drains(lambda s: s.process.send_signal(signal.SIGTERM))
        if not self.through:
            yield "SIGINT drains", lambda: self.drains(lambda s: s.process.send_signal(signal.SIGINT))
            yield "a second SIGTERM ends at once", self.impatient
        yield "SIGTERM to the process group drains", lambda: self.drains(lambda s: os.killpg(s.process.pid, signal.SIGTERM), start_new_session=True)
        yield "Ctrl-C in a terminal drains", self.typed
        yield "nothing outlives it after SIGKILL", lambda: self.killed(lambda s: s.process.kill())
        yield "nothing outlives its process group after SIGKILL", lambda: self.killed(lambda s: os.killpg(s.process.pid, signal.SIGKILL), start_new_session=True)

    def codes(self):
        for args, want in ((["version"], 0), (["config", "check", "/nowhere.toml"], 1), (["nonsense"], 2)):
            got, said = code(self.command, args, self.work, self.env)
            assert got == want, f"{args}: exit code {got}, want {want}: {said}"

    def drains(self, send, **options):
        """A call that runs when the signal comes is answered, then it ends with 0, and nothing is left."""
        with Serving(self.command, self.upstream, self.work, self.env, **options) as s:
            s.ready()
            answers = []
            slow = self.slow(s, answers)
            send(s)
            slow.join(20)
            assert answers and answers[0].startswith("Long running operation completed"), f"the call that ran got no answer: {answers}"
            code = s.process.wait(20)
            assert code == 0 or self.through, f"exit code {code}"
            s.gone(5)

    def slow(self, s, answers):
        """Begins a call that takes a while, and returns its thread once the call runs."""
        def call():
            try:
                answers.append(s.call("trigger-long-running-operation", SLOW))
            except OSError as err:
                answers.append(repr(err))
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        until(lambda: s.in_flight() > 0, 20, "the call does not run")
        return thread

    def impatient(self):
        with Serving(self.command, self.upstream, self.work, self.env) as s:
            s.ready()
            self.slow(s, [])
            begun = time.monotonic()
            while s.process.poll() is None:  # one within half a second is the same one
                s.process.send_signal(signal.SIGTERM)
                time.sleep(0.1)
            assert s.process.returncode == 130, f"exit code {s.process.returncode}"
            assert time.monotonic() - begun < SLOW["duration"] - 0.5, "it has drained"
            s.gone(GONE)

    def typed(self):
        """The terminal sends SIGINT to the launcher and to Dragoman, and npm passes it on as well: it must count once."""
        controller, terminal = pty.openpty()
        try:
            def own():
                os.setsid()
                import fcntl
                import termios
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            self.drains(lambda s: os.write(controller, b"\x03"), stdin=terminal, preexec_fn=own)
        finally:
            os.close(controller)
            os.close(terminal)

    def killed(self, send, **options):
        env = {**self.env, "DRAGOMAN_PARENT": "0"} if self.asks else self.env
        with Serving(self.command, self.upstream, self.work, env, **options) as s:
            s.ready()
            assert len(s.processes()) > 2, s.processes()
            send(s)
            s.process.wait()
            s.gone(GONE)


def inside(npm):
    """A killed launcher takes Dragoman with it, and a killed Dragoman its launcher, which ends by the same signal."""
    def binary(s):
        return next((p for p in s.processes() if cmdline(p)[0].endswith("/bin/dragoman") and "serve" in cmdline(p) and not cmdline(p)[0].startswith("node")), None)

    for which in (binary, lambda s: s.process.pid):
        with Serving(npm.command, npm.upstream, npm.work, npm.env) as s:
            s.ready()
            os.kill(until(lambda: which(s), 5, "no process"), signal.SIGKILL)
            code = s.process.wait(20)
            assert code == -signal.SIGKILL, f"exit code {code}"
            s.gone(GONE)


def bare(package, work):
    """The launcher without the package of its system says so, and how to mend it."""
    with tarfile.open(package) as files:
        files.extractall(work / "bare", filter="data")
    got, said = code(["node", work / "bare/package/bin/dragoman.js"], ["version"], work, None)
    assert got == 1 and "is not installed; fix: " in said, (got, said)


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().decode().split("\0")
    except OSError:
        return [""]
