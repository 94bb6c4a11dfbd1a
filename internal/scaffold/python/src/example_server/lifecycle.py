"""The states of the server, and who is told of them."""

import logging
from collections.abc import Callable
from enum import StrEnum

logger = logging.getLogger(__name__)


class ServerState(StrEnum):
    """Where the server is in its life."""

    INITIALIZING = "initializing"
    READY = "ready"
    SHUTTING_DOWN = "shutting_down"
    STOPPED = "stopped"


# No state is skipped. A restart begins where a shutdown has ended.
NEXT = {
    ServerState.INITIALIZING: ServerState.READY,
    ServerState.READY: ServerState.SHUTTING_DOWN,
    ServerState.SHUTTING_DOWN: ServerState.STOPPED,
    ServerState.STOPPED: ServerState.READY,
}

Observer = Callable[[ServerState], None]


class LifecycleError(RuntimeError):
    """A change of state that would skip one."""


class Lifecycle:
    """The current state. Observers are called after each change, in the order of observe()."""

    def __init__(self) -> None:
        self.state = ServerState.INITIALIZING
        self._observers: list[Observer] = []

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    def to(self, state: ServerState) -> None:
        """Change the state.

        Raises:
            LifecycleError: The state is not the one that follows.
        """
        if NEXT[self.state] is not state:
            raise LifecycleError(f"{self.state} cannot become {state}; next is {NEXT[self.state]}")
        self.state = state
        logger.info("server is %s", state)
        for observer in self._observers:
            observer(state)
