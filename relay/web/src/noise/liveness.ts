// When to ask the other end for a sign of life, and when a session is dead.
//
// Only a pong with this end's own fresh bytes counts, and it counts from when its ping was
// sent: a relay that holds records back cannot make an old one look new. So nothing that
// was under way for longer than the deadline is ever applied, as long as `isDead` is asked
// before each record is.

import { type Bytes, equal } from "./bytes.ts";
import { PING_DEADLINE, PING_INTERVAL } from "./limits.ts";

/**
 * The signs of life of one session, at one end of it.
 *
 * Times are milliseconds since any fixed start, on a clock that goes on while the machine
 * sleeps, so that a sleeper finds its sessions dead: {@link uptime} is one.
 */
export class Liveness {
  readonly #interval: number;
  readonly #deadline: number;
  /** When the other end was last known to live: the sending of the newest answered ping. */
  #proved: number;
  #asked: number;
  /** Pings without an answer, oldest first; the deadline bounds how many. */
  #open: { readonly at: number; readonly bytes: Bytes }[] = [];

  /** Starts with a finished handshake, which is a sign of life. */
  constructor(now: number, interval = PING_INTERVAL, deadline = PING_DEADLINE) {
    this.#interval = interval;
    this.#deadline = deadline;
    this.#proved = now;
    this.#asked = now;
  }

  /** Whether the session must be given up. Ask before anything in it is applied. */
  isDead(now: number): boolean {
    return now - this.#proved >= this.#deadline;
  }

  /** Whether a ping is due. */
  isPingDue(now: number): boolean {
    return now - this.#asked >= this.#interval;
  }

  /** Notes that a ping with these fresh random bytes was sent. */
  pinged(now: number, bytes: Bytes): void {
    this.#asked = now;
    this.#open.push({ at: now, bytes });
  }

  /** Takes a pong. Returns whether it answers a ping of this end. */
  pong(bytes: Uint8Array): boolean {
    const at = this.#open.findIndex((ping) => equal(ping.bytes, bytes));
    const answered = this.#open[at];
    if (!answered) {
      return false;
    }
    this.#open.splice(0, at + 1);
    this.#proved = answered.at;
    return true;
  }

  /** When to look again: for the next ping or for the end, whichever is first. */
  get nextWake(): number {
    return Math.min(this.#asked + this.#interval, this.#proved + this.#deadline);
  }
}

/**
 * Milliseconds since the page was loaded, by whichever of two clocks is ahead: the steady
 * one may stand still while the machine sleeps, and the wall clock may be set back.
 */
export function uptime(): number {
  return Math.max(performance.now(), Date.now() - performance.timeOrigin);
}
