"""The command: reads the configuration, builds the server, and serves it until a signal."""

import argparse
import json
import logging
import os
import signal
import sys
from functools import partial

import anyio
from anyio.abc import TaskStatus

from . import http, prompts, resources, stdio, tools
from .capabilities import CapabilityError
from .config import ConfigurationError, MCPConfiguration, from_process
from .lifecycle import Lifecycle
from .server import Server

logger = logging.getLogger(__name__)


def create(config: MCPConfiguration, lifecycle: Lifecycle | None = None) -> Server:
    """Build the server with everything it offers."""
    server = Server(config, lifecycle=lifecycle)
    tools.register(server)
    resources.register(server)
    prompts.register(server)
    return server


class JSONFormatter(logging.Formatter):
    """A JSON object a line, for production."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def log_to_stderr(config: MCPConfiguration) -> None:
    """Set up logging. Stdout belongs to the messages of stdio."""
    handler = logging.StreamHandler(sys.stderr)
    if config.profile == "production":
        handler.setFormatter(JSONFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level="WARNING", handlers=[handler], force=True)
    logging.getLogger(__package__).setLevel(config.log_level)
    logging.getLogger("mcp").setLevel(max(logging.INFO, logging.getLevelName(config.log_level)))


async def run(config_file: str | None) -> None:
    """Serve until SIGINT or SIGTERM. Over HTTP, SIGHUP restarts with a fresh configuration."""
    lifecycle = Lifecycle()
    while await serve(from_process(config_file), lifecycle):
        logger.info("restarting")


async def serve(config: MCPConfiguration, lifecycle: Lifecycle) -> bool:
    """Serve until a signal. Return whether it asks for a restart."""
    log_to_stderr(config)
    server = create(config, lifecycle)
    transport = http if config.transport_type == "HTTP" else stdio
    stop = anyio.Event()
    restart = False
    async with anyio.create_task_group() as tasks:

        async def watch(*, task_status: TaskStatus[None]) -> None:
            nonlocal restart
            signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            with anyio.open_signal_receiver(*signals) as received:
                task_status.started()
                async for number in received:
                    restart = number is signal.SIGHUP and transport is http
                    stop.set()

        await tasks.start(watch)
        await transport.serve(server, stop)
        tasks.cancel_scope.cancel()
    return restart


def main() -> None:
    """Run the command. Exit with 2 if the configuration is wrong."""
    parser = argparse.ArgumentParser(prog=__package__)
    parser.add_argument("--config", metavar="FILE", help="default: config.toml or config.json")
    options = parser.parse_args()
    try:
        anyio.run(partial(run, options.config))
    except* (ConfigurationError, CapabilityError) as group:
        for err in flat(group):
            print(f"{__package__}: {err}", file=sys.stderr)
        sys.exit(2)
    sys.stdout.flush()
    logging.shutdown()
    os._exit(0)  # a thread may still wait for stdin, and would hold the process


def flat(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the exceptions of nested groups."""
    return [
        err
        for one in group.exceptions
        for err in (flat(one) if isinstance(one, BaseExceptionGroup) else [one])
    ]


if __name__ == "__main__":
    main()
