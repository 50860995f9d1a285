// A sealed session over one stream of bytes: the handshake, records in and out, pings, and
// the end. This is the shell around the other modules; they hold the decisions.

import { type Bytes, concat, random } from "./bytes.ts";
import { decode, encode } from "./codec.ts";
import { Deframer, FrameError, frame } from "./deframer.ts";
import { HandshakeError, Initiator, MESSAGE_1_SIZE, MESSAGE_2_SIZE, respond } from "./handshake.ts";
import type { ClientKey, RouteNonce, WingId } from "./ids.ts";
import type { ClientSecret, NoiseSecret, VerifiedWing } from "./keys.ts";
import { HANDSHAKE_DEADLINE, MAX_SEALED_RECORD, MAX_STREAM_HEADER } from "./limits.ts";
import { Liveness, uptime } from "./liveness.ts";
import { type Close, CURRENT_VERSIONS, StreamHeaderCodec } from "./records.ts";
import {
  DEFAULT_LIMITS,
  type Fill,
  type Opener,
  type Sealer,
  type Session,
  SessionDead,
  type SessionLimits,
} from "./session.ts";

/** One stream of bytes in both directions, as WebTransport gives them; a WebSocket is easily made into one. */
export interface ByteStream {
  /** What comes. */
  readonly readable: ReadableStream<Uint8Array>;
  /** What goes. */
  readonly writable: WritableStream<Uint8Array>;
}

/** How a sealed session ended. */
export class SealedEnd extends Error {
  override readonly name = "SealedEnd";
  /**
   * `closed`: the other end closed it, inside the seal. `link-lost`: the stream broke without
   * a close. `silent`: the other end gave no sign of life in time. `tampered`: something on
   * the way is not what the other end sent.
   */
  readonly reason: "closed" | "link-lost" | "silent" | "tampered";
  /** Why the other end closed it, for `closed`. */
  readonly close: Close | undefined;

  constructor(reason: "closed" | "link-lost" | "silent" | "tampered", close?: Close) {
    super(
      {
        closed: "the other end closed the session",
        "link-lost": "the link was lost",
        silent: "the other end gave no sign of life for too long",
        tampered: "what came over the link was not what the other end sent",
      }[reason],
    );
    this.reason = reason;
    this.close = close;
  }
}

/** Pings of the other end that may wait for an answer. It sends one each 15 seconds. */
const WAITING_PONGS = 8;

/** Opens a route to a wing and makes the handshake, as its client. */
export async function connect(
  stream: ByteStream,
  client: ClientSecret,
  wing: VerifiedWing,
  limits: SessionLimits = DEFAULT_LIMITS,
): Promise<SealedStream> {
  const nonce = random(16) as RouteNonce;
  const header = { wing: wing.wingId, nonce, versions: CURRENT_VERSIONS };
  const wire = new Wire(stream);
  return wire.handshake(async () => {
    const { initiator, message1 } = await Initiator.start(client, wing, header);
    const opening = encode(StreamHeaderCodec, { type: "Route", value: header }, MAX_STREAM_HEADER);
    await wire.write(concat(frame(opening), frame(message1)));
    const message2 = await wire.handshakeFrame(MESSAGE_2_SIZE);
    return new SealedStream(wire, await initiator.finish(message2), limits);
  });
}

/** Answers a route as a wing. The client is there once its first message is. */
export async function accept(
  stream: ByteStream,
  noise: NoiseSecret,
  wing: WingId,
  limits: SessionLimits = DEFAULT_LIMITS,
): Promise<SealedStream> {
  const wire = new Wire(stream);
  return wire.handshake(async () => {
    const header = decode(StreamHeaderCodec, await wire.handshakeFrame(MAX_STREAM_HEADER), MAX_STREAM_HEADER).value;
    const message1 = await wire.handshakeFrame(MESSAGE_1_SIZE);
    const { message2, session, incompatible } = await respond(noise, wing, header, message1);
    await wire.write(frame(message2));
    if (incompatible !== undefined) {
      const { sealer } = session.split(0);
      await wire.write(await sealer.close({ type: "Version", value: incompatible }));
      throw new HandshakeError("version", incompatible);
    }
    return new SealedStream(wire, session, limits);
  });
}

/** One session over its stream. The owner reads with {@link next} all the time, since pings are answered there. */
export class SealedStream {
  /** A value that only these two ends share; it is not secret. */
  readonly handshakeHash: Bytes;
  /** The protocol version that both ends speak. */
  readonly version: number;
  /** The client's key, at the wing. Proved once the first message is there. */
  readonly client: ClientKey | undefined;
  readonly #wire: Wire;
  readonly #sealer: Sealer;
  readonly #opener: Opener;
  readonly #liveness: Liveness;
  #rekeyed = 0;
  #waitingPongs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #end: SealedEnd | undefined;

  /** Starts after the handshake. Others come by {@link connect} and {@link accept}. */
  constructor(wire: Wire, session: Session, limits: SessionLimits) {
    this.handshakeHash = session.handshakeHash;
    this.version = session.version;
    this.client = session.client;
    const now = uptime();
    const { sealer, opener } = session.split(now, limits);
    this.#wire = wire;
    this.#sealer = sealer;
    this.#opener = opener;
    this.#liveness = new Liveness(now);
    this.#wake();
  }

  /** How often the other end changed its key. */
  get rekeyed(): number {
    return this.#rekeyed;
  }

  /** The next message. Throws {@link SealedEnd}, and the same one ever after. One call at a time. */
  async next(): Promise<Bytes> {
    while (!this.#end) {
      const record = await this.#wire
        .frame(MAX_SEALED_RECORD)
        .catch((error: unknown) => this.#ended(new SealedEnd(error instanceof FrameError ? "tampered" : "link-lost")));
      // Asked before anything is applied: what was held back for too long never is.
      if (this.#liveness.isDead(uptime())) {
        this.#ended(new SealedEnd("silent"));
      }
      if (!record) {
        // Without a sealed close, an end is a cut.
        this.#ended(new SealedEnd("link-lost"));
      }
      if (this.#end || !record) {
        break;
      }
      const message = await this.#open(record);
      if (message) {
        return message;
      }
    }
    throw this.#end ?? new SealedEnd("link-lost");
  }

  async #open(record: Bytes): Promise<Bytes | undefined> {
    const opened = await this.#opener.open(record).catch((error: unknown) => {
      if (error instanceof SessionDead) {
        return this.#ended(new SealedEnd("tampered"));
      }
      throw error;
    });
    switch (opened?.type) {
      case "Message":
        return opened.value;
      case "Close":
        this.#ended(new SealedEnd("closed", opened.value));
        return undefined;
      case "Ping":
        this.#answer(opened.value);
        return undefined;
      case "Pong":
        this.#liveness.pong(opened.value);
        return undefined;
      case "Rekeyed":
        this.#rekeyed += 1;
        return undefined;
      // A client does not answer a cover, and how a wing does is for its own program.
      case "Cover":
      case "Partial":
      case undefined:
        return undefined;
    }
  }

  /**
   * Seals and sends a message; waits while the stream takes no more. Throws when the session
   * is over or the message too large.
   */
  async send(message: Bytes, fill: Fill = "bucket"): Promise<void> {
    await this.#wire.send(() => this.#sealer.message(message, uptime(), fill));
  }

  /** Ends the session in order, after what was sent, and gives the stream up. */
  async close(close: Close): Promise<void> {
    try {
      await this.#wire.send(() => this.#sealer.close(close));
    } finally {
      this.#ended(new SealedEnd("link-lost"));
      await this.#wire.finish();
    }
  }

  #answer(bytes: Bytes): void {
    // More pings than any honest end sends are not answered.
    if (this.#waitingPongs >= WAITING_PONGS) {
      return;
    }
    this.#waitingPongs += 1;
    this.#wire
      .send(() => this.#sealer.pong(bytes, uptime()))
      // A stream that takes nothing more ends for the reader as well.
      .catch(() => undefined)
      .finally(() => {
        this.#waitingPongs -= 1;
      });
  }

  #wake(): void {
    this.#timer = setTimeout(() => this.#look(), Math.max(0, this.#liveness.nextWake - uptime()));
  }

  #look(): void {
    const now = uptime();
    if (this.#liveness.isDead(now)) {
      this.#ended(new SealedEnd("silent"));
      return;
    }
    if (this.#liveness.isPingDue(now)) {
      const bytes = random(16);
      this.#liveness.pinged(now, bytes);
      this.#wire.send(() => this.#sealer.ping(bytes, now)).catch(() => undefined);
    }
    this.#wake();
  }

  /** Notes the first end, and lets go of the stream unless it ended in order. */
  #ended(end: SealedEnd): undefined {
    clearTimeout(this.#timer);
    if (!this.#end) {
      this.#end = end;
      if (end.reason === "silent" || end.reason === "tampered") {
        this.#wire.abort(end);
      }
    }
    return undefined;
  }
}

/** Frames over a stream of bytes. */
class Wire {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  /** Bytes that came and are in no frame yet; at most one chunk beyond one frame. */
  #deframer = new Deframer(MAX_SEALED_RECORD);
  #last: Promise<unknown> = Promise.resolve();

  constructor(stream: ByteStream) {
    this.#reader = stream.readable.getReader();
    this.#writer = stream.writable.getWriter();
  }

  /** Runs a handshake within its deadline; the stream is given up when it fails. */
  async handshake(run: () => Promise<SealedStream>): Promise<SealedStream> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new SealedEnd("silent")), HANDSHAKE_DEADLINE);
    });
    try {
      return await Promise.race([run(), late]);
    } catch (error) {
      this.abort(error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The next frame of a handshake. */
  async handshakeFrame(max: number): Promise<Bytes> {
    const record = await this.frame(max);
    if (!record) {
      throw new SealedEnd("link-lost");
    }
    return record;
  }

  /** The next frame; nothing when the stream ends between two. */
  async frame(max: number): Promise<Bytes | undefined> {
    for (;;) {
      const next = this.#deframer.next();
      if (next) {
        if (next.length > max) {
          throw new FrameError(`a frame of ${next.length} bytes is over the limit of ${max}`);
        }
        return next;
      }
      const { done, value } = await this.#reader.read();
      if (done) {
        if (!this.#deframer.isBetweenFrames) {
          throw new FrameError("the stream ends in the middle of a frame");
        }
        return undefined;
      }
      this.#deframer.extend(value);
    }
  }

  /** Writes bytes as they are, once the stream takes them. */
  async write(bytes: Bytes): Promise<void> {
    await this.#writer.ready;
    await this.#writer.write(bytes);
  }

  /** Seals and writes, one after another: records go out in the order of their counters. */
  send(seal: () => Promise<Bytes>): Promise<void> {
    const sent = this.#last.then(async () => this.write(await seal()));
    this.#last = sent.catch(() => undefined);
    return sent;
  }

  /** Ends the sending direction, after all that was written. */
  async finish(): Promise<void> {
    await this.#writer.close().catch(() => undefined);
  }

  /** Gives both directions up: what still waits ends with this error. */
  abort(error: unknown): void {
    // Errors here say that the stream is gone already.
    this.#reader.cancel(error).catch(() => undefined);
    this.#writer.abort(error).catch(() => undefined);
  }
}
