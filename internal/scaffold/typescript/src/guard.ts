// Admission of the messages of one connection: stdio and HTTP+SSE, where a request has no HTTP
// response of its own.
import { INVALID_REQUEST } from '@modelcontextprotocol/server';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server';
import { message as said } from './config.js';
import { current } from './limits.js';
import type { Ticket } from './limits.js';
import { UNAVAILABLE } from './server.js';
import type { Server } from './server.js';

type Receive = NonNullable<Transport['onmessage']>;

/** A transport in front of another. Each request takes a slot until its answer has left. */
export class Guard implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Receive;
  private readonly tickets = new Map<string | number, Ticket | 'waiting'>();

  constructor(
    private readonly server: Server,
    private readonly inner: Transport,
    private readonly closed: () => void = () => undefined,
  ) {
    inner.onmessage = (message, extra) => {
      this.receive(message, extra);
    };
    inner.onerror = (error) => this.onerror?.(error);
    inner.onclose = () => {
      for (const id of [...this.tickets.keys()]) this.release(id);
      this.onclose?.();
      this.closed();
    };
  }

  get sessionId(): string | undefined {
    return this.inner.sessionId;
  }

  start(): Promise<void> {
    return this.inner.start();
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.inner.send(message);
    if (!('method' in message) && message.id !== undefined) this.release(message.id);
  }

  private receive(message: JSONRPCMessage, extra: Parameters<Receive>[1]): void {
    if (!('method' in message) || !('id' in message) || message.method === 'subscriptions/listen') {
      this.onmessage?.(message, extra);
      if ('method' in message && message.method === 'notifications/cancelled') {
        this.release(message.params?.['requestId'] as string | number); // gets no answer
      }
      return;
    }
    const { id } = message;
    const { gate, lifecycle } = this.server;
    if (lifecycle.state !== 'ready') {
      this.refuse(id, `the server is ${lifecycle.state}`);
      return;
    }
    if (this.tickets.has(id)) {
      this.refuse(id, `a request with id ${JSON.stringify(id)} runs`, INVALID_REQUEST);
      return;
    }
    const deliver = (ticket: Ticket) => {
      this.tickets.set(id, ticket);
      current.run(ticket, () => this.onmessage?.(message, extra));
    };
    try {
      const ticket = gate.tryEnter();
      if (ticket) {
        deliver(ticket); // at once: messages stay in order
        return;
      }
    } catch (error) {
      this.refuse(id, `overloaded: ${said(error)}`);
      return;
    }
    this.tickets.set(id, 'waiting');
    void gate.enter().then((ticket) => {
      if (this.tickets.has(id)) deliver(ticket);
      else ticket.release(); // cancelled, or the client has gone
    });
  }

  private refuse(id: string | number, text: string, code = UNAVAILABLE): void {
    const error = { code, message: text };
    this.inner.send({ jsonrpc: '2.0', id, error }).catch((failed: unknown) => {
      this.server.log(said(failed), 'WARNING');
    });
  }

  private release(id: string | number): void {
    const ticket = this.tickets.get(id);
    this.tickets.delete(id);
    if (ticket !== undefined && ticket !== 'waiting') ticket.release();
  }
}
