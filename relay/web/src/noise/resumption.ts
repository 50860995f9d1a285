// Where one attachment stopped: what it typed and is not known to be applied, and what it
// was shown. A pure core; whoever owns the stream feeds it and sends what it gives.
//
// Over any number of streams nothing that was typed is lost, doubled or reordered, and
// input that may or may not have been applied is given back, never typed twice.

import { type Bytes, concat } from "./bytes.ts";
import type { AttachmentId, EggEpoch } from "./ids.ts";
import { INPUT_WINDOW, MAX_CHUNK } from "./limits.ts";
import type { Attached, Exit, Failure, Resume, WingMessage, Winsize } from "./messages.ts";

/** Input that is held for a session, in bytes: the largest paste that people make. */
const MAX_HELD_INPUT = 8 << 20;

/** Largest snapshot that is put together, in bytes: 2,000 lines of the widest terminal with every cell in a colour of its own. */
const MAX_SNAPSHOT = 64 << 20;

const PASTE_START = "\x1b[200~";
const PASTE_END = "\x1b[201~";

/** What a message of the wing means for the terminal. */
export type Taken =
  /** Nothing to show. */
  | { readonly type: "Nothing" }
  /** The stream is attached. */
  | {
      readonly type: "Attached";
      /** The terms. */
      readonly attached: Attached;
      /** Bytes of output that are not shown, if there are any. */
      readonly skipped: bigint | undefined;
      /** Input that was under way and will not be sent: show it, never type it. */
      readonly undelivered: Bytes;
    }
  /** Bytes for a terminal that was reset. */
  | { readonly type: "Repaint"; readonly bytes: Bytes }
  /** Bytes for the terminal. */
  | { readonly type: "Output"; readonly bytes: Bytes }
  /** The session's terminal has this size. */
  | { readonly type: "Resized"; readonly size: Winsize }
  /** Whether this attachment may type. */
  | { readonly type: "Writer"; readonly writer: boolean }
  /** The session ended. */
  | { readonly type: "Exited"; readonly exit: Exit }
  /** A newer stream of the same attachment took over: this one does not come back by itself. */
  | { readonly type: "Replaced" }
  /** The stream cannot be what was asked for. */
  | { readonly type: "Refused"; readonly failure: Failure };

/** The wing does not keep to the protocol: close the stream and say so. */
export class BrokenProtocol extends Error {
  override readonly name = "BrokenProtocol";

  constructor() {
    super("the session's process does not keep to the protocol");
  }
}

/** One attachment, across its streams. */
export class Place {
  #attachment: AttachmentId;
  /** The egg that the offsets belong to; none before the first attach. */
  #epoch: EggEpoch | undefined;
  /** Typed and not known to be applied; the first byte is at offset `acked`. */
  #held: Bytes = new Uint8Array();
  #acked = 0n;
  /** Offset up to which input was sent on this stream. */
  #sent = 0n;
  /** Offset up to which output is shown. */
  #have = 0n;
  /** A snapshot that is coming in. */
  #snapshot: Bytes[] = [];
  #watches = false;
  /** Whether the next stream is the first one of an attachment that the session has not seen. */
  #startsAnew = false;
  #refuses = false;

  /** Starts with nothing shown and nothing typed. */
  constructor(attachment: AttachmentId) {
    this.#attachment = attachment;
  }

  /** The attachment's id, for the next `Attach`. */
  get attachment(): AttachmentId {
    return this.#attachment;
  }

  /** Whether input is refused because the link was lost for too long. */
  get refuses(): boolean {
    return this.#refuses;
  }

  /** Whether more may be typed. Without room the terminal itself holds what is typed. */
  get hasRoom(): boolean {
    return this.#held.length < MAX_HELD_INPUT;
  }

  /** Takes what was typed or pasted. What a watcher types goes nowhere. */
  typed(bytes: Uint8Array): void {
    if (!this.#watches) {
      this.#held = concat(this.#held, bytes);
    }
  }

  /**
   * Takes back all input that is not known to be applied, and takes no more until the session
   * is attached again. None of it is sent later. A session that has some of it counts on the
   * rest, so it goes on with an attachment of another id.
   */
  giveUp(id: AttachmentId): Bytes {
    this.#refuses = true;
    const held = this.#held;
    this.#held = new Uint8Array();
    if (held.length > 0) {
      this.#attachment = id;
      this.#startsAnew = true;
    }
    // The program that got the start of a paste waits for its end.
    const start = find(held, PASTE_START);
    const end = find(held, PASTE_END);
    if (end >= 0 && (start < 0 || end < start)) {
      this.#held = new TextEncoder().encode(PASTE_END) as Bytes;
    }
    return held;
  }

  /** Takes back input that was not sent, and will not be. */
  unsent(): Bytes {
    const sent = this.#underWay();
    const rest = this.#held.slice(sent);
    this.#held = this.#held.slice(0, sent);
    return rest;
  }

  /** The next piece of input to send, within the window; nothing when there is none. */
  nextInput(): { readonly offset: bigint; readonly bytes: Bytes } | undefined {
    const from = this.#underWay();
    const until = Math.min(this.#held.length, INPUT_WINDOW, from + MAX_CHUNK);
    if (from >= until) {
      return undefined;
    }
    const offset = this.#sent;
    const bytes = this.#held.slice(from, until);
    this.#sent += BigInt(bytes.length);
    return { offset, bytes };
  }

  /** Where to go on, for the next `Attach`; `null` for a first one. */
  resume(): Resume | null {
    if (!this.#epoch || this.#startsAnew) {
      return null;
    }
    const next = this.#acked + BigInt(this.#held.length);
    return { epoch: this.#epoch, next, acked: this.#acked, have: this.#have };
  }

  /** Takes a message of the wing. Throws {@link BrokenProtocol}. */
  take(message: WingMessage): Taken {
    switch (message.type) {
      case "Attached":
        return this.#attached(message.value);
      case "Snapshot": {
        const held = this.#snapshot.reduce((sum, part) => sum + part.length, 0);
        if (held + message.bytes.length > MAX_SNAPSHOT) {
          throw new BrokenProtocol();
        }
        this.#snapshot.push(message.bytes);
        if (!message.last) {
          return { type: "Nothing" };
        }
        const bytes = concat(...this.#snapshot);
        this.#snapshot = [];
        return { type: "Repaint", bytes };
      }
      case "Output":
        if (message.offset !== this.#have || message.applied > this.#sent) {
          throw new BrokenProtocol();
        }
        this.#have += BigInt(message.bytes.length);
        this.#applied(message.applied);
        return message.bytes.length > 0 ? { type: "Output", bytes: message.bytes } : { type: "Nothing" };
      case "Resized":
        return { type: "Resized", size: message.value };
      case "Writer":
        this.#watches = !message.value;
        return { type: "Writer", writer: message.value };
      case "Exited":
        return { type: "Exited", exit: message.value };
      case "Replaced":
        return { type: "Replaced" };
      case "Refused":
        return { type: "Refused", failure: message.value };
      case "Reply":
      case "Event":
      case "Access":
        throw new BrokenProtocol();
    }
  }

  #attached(attached: Attached): Taken {
    let undelivered: Bytes = new Uint8Array();
    const { history, applied } = attached;
    const goesOn = history.type === "Continued" || history.type === "Skipped";
    if (goesOn && applied >= this.#acked) {
      this.#applied(applied);
    } else if (history.type !== "Fresh") {
      // What was under way may or may not have been typed: never type it twice.
      undelivered = this.#held;
      this.#held = new Uint8Array();
    }
    this.#startsAnew = false;
    this.#refuses = false;
    this.#epoch = attached.epoch;
    this.#acked = applied;
    this.#sent = applied;
    this.#have = attached.output;
    this.#snapshot = [];
    this.#watches = !attached.writer;
    const skipped = history.type === "Skipped" ? history.bytes : undefined;
    return { type: "Attached", attached, skipped, undelivered };
  }

  #applied(applied: bigint): void {
    if (applied > this.#acked) {
      const newly = applied - this.#acked;
      const held = BigInt(this.#held.length);
      this.#held = this.#held.slice(Number(newly < held ? newly : held));
      this.#acked = applied;
    }
  }

  #underWay(): number {
    return Math.min(Number(this.#sent - this.#acked), this.#held.length);
  }
}

/** Where an ASCII text stands in bytes, or -1. */
function find(bytes: Uint8Array, text: string): number {
  const codes = [...text].map((character) => character.charCodeAt(0));
  return bytes.findIndex((_, at) => codes.every((code, offset) => bytes[at + offset] === code));
}
