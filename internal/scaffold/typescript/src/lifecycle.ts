// The states of the server, and who is told of them.

export type ServerState = 'initializing' | 'ready' | 'shutting_down' | 'stopped';

// No state is skipped. A restart begins where a shutdown has ended.
export const NEXT: Record<ServerState, ServerState> = {
  initializing: 'ready',
  ready: 'shutting_down',
  shutting_down: 'stopped',
  stopped: 'ready',
};

/** A change of state that would skip one. */
export class LifecycleError extends Error {}

/** The current state. Observers are called after each change, in the order of observe(). */
export class Lifecycle {
  state: ServerState = 'initializing';
  private readonly observers: ((state: ServerState) => void)[] = [];

  observe(observer: (state: ServerState) => void): void {
    this.observers.push(observer);
  }

  /** Change the state. Throws a LifecycleError if it is not the one that follows. */
  to(state: ServerState): void {
    if (NEXT[this.state] !== state) {
      throw new LifecycleError(`${this.state} cannot become ${state}; next is ${NEXT[this.state]}`);
    }
    this.state = state;
    for (const observer of this.observers) observer(state);
  }
}
