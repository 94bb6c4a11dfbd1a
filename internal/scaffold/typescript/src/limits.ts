// What bounds the server: requests at a time, their memory, and their rate.
import { AsyncLocalStorage } from 'node:async_hooks';

export const CONCURRENT_REQUESTS = 100;
export const QUEUED_REQUESTS = 1000;
export const OPEN_STREAMS = 100; // streams that last: they would otherwise hold the slots of requests
export const MEMORY_BYTES = 100 * 1024 * 1024;
export const BODY_BYTES = 4 * 1024 * 1024; // of one request
export const SHUTDOWN_SECONDS = 30;

/** A limit of the whole server is reached. The request may be sent again later. */
export class OverloadedError extends Error {}

/** One request that runs, and the bytes that are held for it. */
export class Ticket {
  private held = 0;
  private open = true;

  constructor(private readonly gate: Gate) {}

  /** Reserve bytes until the request has ended. Throws an OverloadedError beyond the limit. */
  hold(size: number): void {
    if (!this.open) return;
    this.gate.reserve(size);
    this.held += size;
  }

  release(): void {
    if (!this.open) return;
    this.open = false;
    this.gate.leave(this.held);
  }
}

/** The ticket of the request that the current code runs for. */
export const current = new AsyncLocalStorage<Ticket>();

/** Lets so many requests run at a time, and so many wait. */
export class Gate {
  held = 0;
  accepted = 0; // those that run and those that wait
  private running = 0;
  private readonly waiting: (() => void)[] = [];
  private readonly watchers: (() => void)[] = [];

  constructor(
    private readonly concurrent = CONCURRENT_REQUESTS,
    private readonly queued = QUEUED_REQUESTS,
    readonly memory = MEMORY_BYTES,
  ) {}

  /** Take a slot if one is free. Throws an OverloadedError if the queue is full. */
  tryEnter(): Ticket | undefined {
    if (this.accepted >= this.concurrent + this.queued) {
      throw new OverloadedError(`${this.accepted} requests run or wait`);
    }
    if (this.running >= this.concurrent) return undefined;
    this.accepted++;
    this.running++;
    return new Ticket(this);
  }

  /** Wait for a slot. Throws an OverloadedError at once if the queue is full. */
  async enter(): Promise<Ticket> {
    const ticket = this.tryEnter();
    if (ticket) return ticket;
    this.accepted++;
    await new Promise<void>((go) => this.waiting.push(go)); // leave() hands its slot over
    return new Ticket(this);
  }

  reserve(size: number): void {
    if (this.held + size > this.memory) {
      throw new OverloadedError(`requests in flight hold ${this.memory} bytes`);
    }
    this.held += size;
  }

  leave(held: number): void {
    this.held -= held;
    this.accepted--;
    const next = this.waiting.shift();
    if (next) next();
    else this.running--;
    if (this.accepted === 0) for (const watcher of this.watchers.splice(0)) watcher();
  }

  /** Wait until no request runs or waits. */
  async idle(): Promise<void> {
    while (this.accepted > 0) await new Promise<void>((done) => this.watchers.push(done));
  }
}

/** A token bucket for each caller: a burst at once, and so many a minute after it. */
export class RateLimiter {
  private readonly buckets = new Map<string, { tokens: number; since: number }>();

  constructor(
    readonly perMinute: number,
    private readonly burst: number,
    private readonly clock: () => number = () => performance.now() / 1000,
  ) {}

  /** Take one request of a caller. Returns 0, or the seconds after which to try again. */
  take(caller: string): number {
    const now = this.clock();
    const rate = this.perMinute / 60;
    const { tokens, since } = this.buckets.get(caller) ?? { tokens: this.burst, since: now };
    const filled = Math.min(this.burst, tokens + (now - since) * rate);
    this.buckets.set(caller, { tokens: filled < 1 ? filled : filled - 1, since: now });
    return filled < 1 ? Math.ceil((1 - filled) / rate) : 0;
  }
}
