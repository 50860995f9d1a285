// The sealed session after the handshake: records, rekeys and their caps.
//
// Each direction has its own key and its own strict counter, so a record that was replayed,
// reordered, dropped, reflected or taken from another session does not open. The first
// record that fails ends the session: the keys of both directions are dropped, and why it
// failed is told to nobody.
//
// WebCrypto works beside the page. Calls of one direction may overlap all the same: each
// waits for those before it, so records have the order of the calls.

import { type Bytes, concat } from "./bytes.ts";
import { type CipherKey, nextKey, open, seal } from "./cipher.ts";
import { decodePadded, encode } from "./codec.ts";
import { frame } from "./deframer.ts";
import type { ClientKey } from "./ids.ts";
import {
  MAX_MESSAGE,
  MAX_RECORD_PLAINTEXT,
  MAX_SEALED_RECORD,
  REKEY_AGE,
  REKEY_BYTES,
  REKEY_BYTES_MAX,
  REKEY_RECORDS,
  REKEY_RECORDS_MAX,
} from "./limits.ts";
import { type Padding, padded } from "./padding.ts";
import { type Close, RecordCodec, type SealedRecord } from "./records.ts";

/**
 * Most bytes of a message that one record holds: one byte says which kind of record it is,
 * two say how long the bytes are.
 */
const MAX_PIECE = MAX_RECORD_PLAINTEXT - 3;

/**
 * When keys change, and what is refused. Others than the protocol's are for tests: two ends
 * must agree well enough that a sender changes its key before its receiver gives up.
 */
export interface SessionLimits {
  /** A sender changes its key after this many records. */
  readonly rekeyRecords: number;
  /** A sender changes its key after this many sealed bytes. */
  readonly rekeyBytes: number;
  /** A sender changes its key after so many milliseconds. */
  readonly rekeyAge: number;
  /** A receiver gives up after this many records under one key. */
  readonly maxRecords: number;
  /** A receiver gives up after this many sealed bytes under one key. */
  readonly maxBytes: number;
  /** Largest message, on either side. */
  readonly maxMessage: number;
}

/** The protocol's limits. */
export const DEFAULT_LIMITS: SessionLimits = {
  rekeyRecords: REKEY_RECORDS,
  rekeyBytes: REKEY_BYTES,
  rekeyAge: REKEY_AGE,
  maxRecords: REKEY_RECORDS_MAX,
  maxBytes: REKEY_BYTES_MAX,
  maxMessage: MAX_MESSAGE,
};

/** The keys of both directions, until something fails to open. */
interface Keys {
  sends: CipherKey | undefined;
  receives: CipherKey | undefined;
}

/** A finished handshake. */
export class Session {
  /** A value that only these two ends of this session share; it is not secret. */
  readonly handshakeHash: Bytes;
  /** The protocol version that both ends speak. */
  readonly version: number;
  /** The client's key, at the wing. Proved once the first record opens. */
  readonly client: ClientKey | undefined;
  #keys: Keys | undefined;

  /** For the handshake. */
  constructor(keys: Keys, handshakeHash: Bytes, version: number, client: ClientKey | undefined) {
    this.#keys = keys;
    this.handshakeHash = handshakeHash;
    this.version = version;
    this.client = client;
  }

  /**
   * Splits into the two directions, once. `now` is the time of the first keys, in
   * milliseconds on the clock of which {@link Sealer} is told.
   */
  split(now: number, limits: SessionLimits = DEFAULT_LIMITS): { readonly sealer: Sealer; readonly opener: Opener } {
    const keys = this.#keys;
    if (!keys) {
      throw new TypeError("a session is split once");
    }
    this.#keys = undefined;
    return { sealer: new Sealer(keys, limits, now), opener: new Opener(keys, limits) };
  }
}

/** What one key was used for. */
class Usage {
  records = 0;
  bytes = 0;

  add(sealed: number): void {
    this.records += 1;
    this.bytes += sealed;
  }
}

/** Runs one piece of work after another, in the order in which they were asked for. */
class Queue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work, work);
    this.#last = result;
    // Whoever asked for the work hears of its failure; the queue itself has no say in it.
    result.catch(() => undefined);
    return result;
  }
}

/** Why nothing was sealed: the message is over the cap, which ends nothing, or the session is over. */
export class SealError extends Error {
  override readonly name = "SealError";
  readonly reason: "too-large" | "dead";

  constructor(reason: "too-large" | "dead", message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * How far records are filled up: as the sender's padding says, or to the largest record,
 * for messages whose size must not show: snapshots.
 */
export type Fill = "bucket" | "full";

/**
 * The sending direction of a session.
 *
 * Every method gives whole records, each with its length in front, so that one write sends
 * them all. They must be written in the order of the calls. A {@link SealError} that is
 * `dead` says that a record failed to open at this end, or that a close was sealed.
 */
export class Sealer {
  /** How records are padded from here on. */
  padding: Padding = "buckets";
  readonly #keys: Keys;
  readonly #limits: SessionLimits;
  readonly #queue = new Queue();
  #counter = 0n;
  #usage = new Usage();
  #since: number;
  #closed = false;

  constructor(keys: Keys, limits: SessionLimits, now: number) {
    this.#keys = keys;
    this.#limits = limits;
    this.#since = now;
  }

  /** Seals a message, in parts when it is larger than a record. */
  async message(message: Bytes, now: number, fill: Fill = "bucket"): Promise<Bytes> {
    const max = this.#limits.maxMessage;
    if (message.length > max) {
      throw new SealError("too-large", `a message of ${message.length} bytes is over the limit of ${max}`);
    }
    return this.#queue.run(async () => {
      const records: Bytes[] = [];
      let at = 0;
      for (; message.length - at > MAX_PIECE; at += MAX_PIECE) {
        records.push(await this.#seal({ type: "Part", value: message.slice(at, at + MAX_PIECE) }, now, fill));
      }
      records.push(await this.#seal({ type: "Message", value: message.slice(at) }, now, fill));
      return concat(...records);
    });
  }

  /** Seals a ping with 16 fresh random bytes. */
  ping(bytes: Bytes, now: number): Promise<Bytes> {
    return this.#queue.run(() => this.#seal({ type: "Ping", value: bytes }, now, "bucket"));
  }

  /** Seals the answer to a ping. */
  pong(bytes: Bytes, now: number): Promise<Bytes> {
    return this.#queue.run(() => this.#seal({ type: "Pong", value: bytes }, now, "bucket"));
  }

  /** Seals nothing, in a record as large as a key press. */
  cover(now: number): Promise<Bytes> {
    return this.#queue.run(() => this.#seal({ type: "Cover" }, now, "bucket"));
  }

  /** Seals the end of this direction: nothing can follow it. */
  close(close: Close): Promise<Bytes> {
    return this.#queue.run(async () => {
      // The key is used once more at most, so its age does not matter.
      const sealed = await this.#sealRecord({ type: "Close", value: close }, "bucket");
      this.#closed = true;
      return sealed;
    });
  }

  async #seal(record: SealedRecord, now: number, fill: Fill): Promise<Bytes> {
    if (!this.#isRekeyDue(now)) {
      return this.#sealRecord(record, fill);
    }
    const rekey = await this.#sealRecord({ type: "Rekey" }, "bucket");
    const next = await nextKey(this.#key());
    // The session may have ended in the meantime: a key must not come back then.
    this.#key();
    this.#keys.sends = next;
    this.#usage = new Usage();
    this.#since = now;
    return concat(rekey, await this.#sealRecord(record, fill));
  }

  #isRekeyDue(now: number): boolean {
    const { rekeyRecords, rekeyBytes, rekeyAge } = this.#limits;
    const { records, bytes } = this.#usage;
    return records >= rekeyRecords || bytes >= rekeyBytes || now - this.#since >= rekeyAge;
  }

  async #sealRecord(record: SealedRecord, fill: Fill): Promise<Bytes> {
    const encoded = encode(RecordCodec, record, MAX_RECORD_PLAINTEXT);
    const size = fill === "full" ? MAX_RECORD_PLAINTEXT : padded(this.padding, encoded.length);
    const plain = new Uint8Array(size);
    plain.set(encoded);

    const counter = this.#counter;
    this.#counter += 1n;
    const sealed = await seal(this.#key(), counter, plain);
    plain.fill(0);
    this.#key();
    this.#usage.add(sealed.length);
    return frame(sealed);
  }

  #key(): CipherKey {
    if (!this.#keys.sends || this.#closed) {
      throw new SealError("dead", "the session is over");
    }
    return this.#keys.sends;
  }
}

/**
 * A record did not open. The session is over, and its keys are gone.
 *
 * Deliberately without a cause: whoever changed the record learns nothing from it.
 */
export class SessionDead extends Error {
  override readonly name = "SessionDead";

  constructor() {
    super("a sealed record does not open; the session is over");
  }
}

/** What a record held. */
export type Opened =
  /** A whole message. */
  | { readonly type: "Message"; readonly value: Bytes }
  /** A part of a message; the rest follows. */
  | { readonly type: "Partial" }
  /** The other end asks for a sign of life: answer with the same bytes. */
  | { readonly type: "Ping"; readonly value: Bytes }
  /** The other end answers a ping. */
  | { readonly type: "Pong"; readonly value: Bytes }
  /** The end of this direction, in order. */
  | { readonly type: "Close"; readonly value: Close }
  /** The sender goes on with its next key. */
  | { readonly type: "Rekeyed" }
  /** Nothing: it stands for a key press. A wing answers it with a cover of its own; a client does not answer. */
  | { readonly type: "Cover" };

/** The receiving direction of a session. */
export class Opener {
  readonly #keys: Keys;
  readonly #limits: SessionLimits;
  readonly #queue = new Queue();
  #counter = 0n;
  #usage = new Usage();
  #parts: Bytes[] = [];
  #closed = false;

  constructor(keys: Keys, limits: SessionLimits) {
    this.#keys = keys;
    this.#limits = limits;
  }

  /** Whether a close was opened: the stream may end after it, and only then. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /**
   * Opens the next record, which comes without its length in front.
   *
   * Throws {@link SessionDead}, for whatever reason: a record out of its place, one that does
   * not parse, a message over the cap, a key used for too long, a record after the close.
   * The keys of both directions are dropped then, and every later call throws the same.
   */
  open(sealed: Bytes): Promise<Opened> {
    return this.#queue.run(async () => {
      const opened = await this.#tryOpen(sealed).catch(() => undefined);
      if (!opened) {
        this.#keys.sends = undefined;
        this.#keys.receives = undefined;
        this.#parts = [];
        throw new SessionDead();
      }
      return opened;
    });
  }

  async #tryOpen(sealed: Bytes): Promise<Opened | undefined> {
    const key = this.#keys.receives;
    if (!key || this.#closed || sealed.length > MAX_SEALED_RECORD) {
      return undefined;
    }
    this.#usage.add(sealed.length);
    if (this.#usage.records > this.#limits.maxRecords || this.#usage.bytes > this.#limits.maxBytes) {
      return undefined;
    }
    const plain = await open(key, this.#counter, sealed);
    if (!plain) {
      return undefined;
    }
    this.#counter += 1n;

    const record = decodePadded(RecordCodec, plain, MAX_RECORD_PLAINTEXT);
    plain.fill(0);
    switch (record.type) {
      case "Message": {
        if (!this.#append(record.value)) {
          return undefined;
        }
        const value = concat(...this.#parts);
        this.#parts = [];
        return { type: "Message", value };
      }
      case "Part":
        // An empty part would let a message of nothing go on for ever.
        return record.value.length > 0 && this.#append(record.value) ? { type: "Partial" } : undefined;
      case "Rekey":
        this.#keys.receives = await nextKey(key);
        this.#usage = new Usage();
        return { type: "Rekeyed" };
      case "Close":
        // A close in the middle of a message would hide that the message was cut.
        if (this.#parts.length > 0) {
          return undefined;
        }
        this.#closed = true;
        return record;
      case "Ping":
      case "Pong":
      case "Cover":
        return record;
    }
  }

  #append(bytes: Bytes): boolean {
    const held = this.#parts.reduce((sum, part) => sum + part.length, 0);
    if (held + bytes.length > this.#limits.maxMessage) {
      return false;
    }
    this.#parts.push(bytes);
    return true;
  }
}
