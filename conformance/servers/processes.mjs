// Finds the living descendants of a Dragoman in /proc (Linux). A process counts as a descendant if it was one at any poll, or if its
// environment has the mark: so it stays known when its parents have ended or its environment has changed.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const LOOK = 100; // ms between two polls

function stat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const rest = text.slice(text.lastIndexOf(')') + 2).split(' '); // the name may contain anything
    return { pid, name: text.slice(text.indexOf('(') + 1, text.lastIndexOf(')')), state: rest[0], parent: Number(rest[1]), group: Number(rest[2]), begun: rest[19] };
  } catch {
    return undefined; // gone meanwhile
  }
}

const read = (pid, what) => { try { return readFileSync(`/proc/${pid}/${what}`, 'latin1'); } catch { return ''; } };
const program = pid => { try { return readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, ''); } catch { return ''; } };
const snapshot = () => readdirSync('/proc').filter(name => /^\d+$/.test(name)).map(name => stat(Number(name))).filter(Boolean);
const keyOf = p => `${p.pid}:${p.begun}`;

/** Tracks the descendants of process `root`, without `root`, and all processes with `mark` in their environment. */
export class Watch {
  constructor(root, mark) {
    this.root = root;
    this.program = program(root);
    this.mark = mark;
    this.seen = new Map();
    this.peak = 0;
    this.timer = setInterval(() => this.look(), LOOK);
    this.look();
  }

  /** Polls /proc and returns the known processes that exist, zombies included. `thorough` reads every environment again. */
  look(thorough = false) {
    const all = snapshot();
    this.program = program(this.root) || this.program; // the started program may be a script that executes Dragoman
    const byPid = new Map(all.map(p => [p.pid, p]));
    const ours = p => p && (this.seen.has(keyOf(p)) || p.pid === this.root);
    for (let found = true; found;) { // until no more are found: parents may come after their children
      found = false;
      for (const p of all) {
        if (ours(p) || !(ours(byPid.get(p.parent)) || (thorough && read(p.pid, 'environ').includes(this.mark)))) continue;
        this.seen.set(keyOf(p), '');
        found = true;
      }
    }
    const here = all.filter(p => this.seen.has(keyOf(p)));
    for (const p of here) this.seen.set(keyOf(p), read(p.pid, 'cmdline').replace(/\0/g, ' ').trim() || this.seen.get(keyOf(p)) || p.name);
    this.peak = Math.max(this.peak, here.filter(p => this.serves(p)).length);
    return here;
  }

  /** Reports whether a process is alive and belongs to the server, not to Dragoman, as its reaper does. */
  serves(p) {
    return !/[ZX]/.test(p.state) && program(p.pid) !== this.program;
  }

  /** Returns the living processes of the server. */
  servers() { return this.sure(p => this.serves(p)); }

  /** Returns all living processes, Dragoman's helpers included. */
  alive() { return this.sure(p => !/[ZX]/.test(p.state)); }

  /** Returns the matching processes. It reads every environment, which is slow, only if it would return none. */
  sure(f) {
    const found = this.look().filter(f);
    return found.length ? found : this.look(true).filter(f);
  }

  /** Returns the processes that have ended and that Dragoman or its descendants have not reaped. */
  zombies() {
    const here = this.look();
    const near = new Set([this.root, ...here.map(p => p.pid)]);
    return here.filter(p => p.state === 'Z' && near.has(p.parent));
  }

  /** `pid command` of each, for messages. */
  names(list) { return list.map(p => `${p.pid} ${(this.seen.get(keyOf(p)) ?? p.name).slice(0, 60)}`).join('; '); }

  /** Ends all processes that are left, and stops polling. */
  end() {
    clearInterval(this.timer);
    for (const p of this.alive()) try { process.kill(p.pid, 'SIGKILL'); } catch { /* gone meanwhile */ }
  }
}
