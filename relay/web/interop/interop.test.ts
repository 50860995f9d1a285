// This implementation against the one in Rust, over pipes, in both roles.
//
// `cargo build -p wt-crypto --example sealed_peer` makes the other end; SEALED_PEER names it
// when it is elsewhere than cargo puts it.

import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { Readable, Writable } from "node:stream";

import { beforeAll, describe, expect, it } from "vitest";

import { base32, type Bytes, utf8 } from "../src/noise/bytes.ts";
import {
  fixedFromText,
  type IdentityKey,
  type NoiseKey,
  type Signature,
  type WingLabel,
  wingId,
  wingIdOf,
} from "../src/noise/ids.ts";
import { type VerifiedWing, verifyStatement } from "../src/noise/keys.ts";
import { MAX_MESSAGE } from "../src/noise/limits.ts";
import { Pins } from "../src/noise/pins.ts";
import { DEFAULT_LIMITS } from "../src/noise/session.ts";
import { accept, type ByteStream, connect, type SealedStream } from "../src/noise/stream.ts";
import { clientSecret, fill, hex, ROOT, Wing } from "../test/support.ts";

const TARGET = process.env["CARGO_TARGET_DIR"] ?? `${ROOT}target`;
const PEER = process.env["SEALED_PEER"] ?? `${TARGET}/debug/examples/sealed_peer`;

const IDENTITY = fill(32, 0x11);
const NOISE = fill(32, 0x22);

/** Records under one key: a message of 1 MiB takes 65, so keys change some eight times in it. */
const FEW = 8;
const LIMITS = { ...DEFAULT_LIMITS, rekeyRecords: FEW, maxRecords: 2 * FEW };

const MEBIBYTE = Uint8Array.from({ length: MAX_MESSAGE }, (_, at) => (at * 7 + (at >> 8)) & 0xff);

beforeAll(() => {
  if (!existsSync(PEER)) {
    throw new Error(`${PEER} is missing: run cargo build -p wt-crypto --example sealed_peer`);
  }
});

describe.each(["initiator", "responder"] as const)("as the %s", (role) => {
  it("a mebibyte goes both ways under keys that change, and the session is closed in order", async () => {
    const { stream, peer, ended } = await session(role);

    await stream.send(MEBIBYTE);
    const back = await stream.next();
    expect(Buffer.from(back).equals(MEBIBYTE)).toBe(true);
    await stream.send(utf8("and on"));
    expect(await stream.next()).toEqual(utf8("and on"));
    const closing = stream.next().catch((error: unknown) => error);
    await stream.close({ type: "Done" });
    await closing;

    const end = await ended;
    expect(end.code).toBe(0);
    expect(end.rekeyed).toBeGreaterThanOrEqual(7);
    expect(stream.rekeyed).toBeGreaterThanOrEqual(7);
    expect(peer.exitCode).toBe(0);
  });

  it("messages of every kind of size come back as they were", async () => {
    const { stream, ended } = await session(role);

    for (const size of [0, 1, 61, 62, 125, 126, 253, 1_021, 4_093, 4_094, 16_381, 16_382, 100_000]) {
      const message = MEBIBYTE.slice(0, size);
      const back = stream.next();
      await stream.send(message);
      expect(Buffer.from(await back).equals(message), `${size} bytes`).toBe(true);
    }
    await stream.close({ type: "Done" });

    expect((await ended).code).toBe(0);
  });

  it("the other end refuses a record that was changed on its way", async () => {
    const tamper = new Tamper();
    const { stream, ended } = await session(role, { up: tamper });
    await stream.send(utf8("whole"));
    expect(await stream.next()).toEqual(utf8("whole"));

    tamper.next();
    await stream.send(utf8("changed"));

    expect((await ended).code).toBe(3);
    await expect(stream.next()).rejects.toMatchObject({ reason: "link-lost" });
  });

  it("this end refuses a record that was changed on its way", async () => {
    const tamper = new Tamper();
    const { stream, ended } = await session(role, { down: tamper });
    await stream.send(utf8("whole"));
    expect(await stream.next()).toEqual(utf8("whole"));

    tamper.next();
    await stream.send(utf8("changed"));

    await expect(stream.next()).rejects.toMatchObject({ reason: "tampered" });
    await expect(stream.send(utf8("more"))).rejects.toThrow();
    expect((await ended).code).not.toBe(0);
  });

  it("a changed handshake makes no session at either end", async () => {
    const tamper = new Tamper();
    tamper.next();

    // A wing learns from the first record alone whether the client took its message.
    const { code, here } = await session(role, { up: tamper }).then(
      async ({ stream, ended }) => ({
        here: await stream.next().catch((error: unknown) => error),
        code: (await ended).code,
      }),
      (error: unknown) => ({ here: error, code: undefined }),
    );
    expect(here).toBeInstanceOf(Error);
    expect(code).not.toBe(0);
  });
});

describe("a statement", () => {
  it("of the other implementation is believed here", async () => {
    const words = run("statement", hex(IDENTITY), hex(NOISE), "18446744073709551615").toString().trim().split(" ");

    const verified = await read(words);

    const wing = await Wing.of(IDENTITY, NOISE);
    expect(verified.wingId).toBe(await wingIdOf(wing.identity));
    expect(verified.seq).toBe(2n ** 64n - 1n);
    await expect(read(words.with(3, "1"))).rejects.toMatchObject({ reason: "signature" });
  });

  it("of this implementation is believed there", async () => {
    const words = await statement(await Wing.of(IDENTITY, NOISE, 300n));

    expect(run("verify", ...words)).toHaveLength(0);
    expect(() => run("verify", ...words.with(3, "301"))).toThrow("Signature");
  });
});

describe("the pin file", () => {
  it("of this implementation is the other's, byte for byte", async () => {
    const pins = new Pins();
    for (const [number, name] of [[1, "box"], [2, "car"], [3, "old"]] as const) {
      const wing = await (await Wing.number(number)).verified();
      pins.observe(wing, name as WingLabel, number === 1 ? "https://roost.example" : undefined, 1_700_000_000_000 + number);
    }
    pins.setVerified((await (await Wing.number(1)).verified()).wingId);
    pins.forget("old", 1_800_000_000_000);
    const file = pins.toJson();

    const rewritten = execFileSync(PEER, ["pins"], { input: file });

    expect(rewritten.toString()).toBe(Buffer.from(file).toString());
    const later = file.slice();
    const unknown = Buffer.from(later).toString().replace(/\n}\n$/, ',\n  "later": [\n    "é\\n",\n    1.5\n  ]\n}\n');
    const kept = execFileSync(PEER, ["pins"], { input: unknown });
    expect(new TextDecoder().decode((await Pins.parse(kept)).toJson())).toBe(unknown);
  });
});

/** A session with the other implementation, whose messages come back. */
async function session(role: "initiator" | "responder", ways: { up?: Tamper; down?: Tamper } = {}) {
  const wing = await Wing.of(IDENTITY, NOISE);
  const verified = await wing.verified();
  const words =
    role === "initiator"
      ? ["respond", hex(IDENTITY), hex(NOISE), `${FEW}`]
      : ["initiate", ...(await statement(wing)), `${FEW}`];
  const peer = spawn(PEER, words, { stdio: "pipe" });
  const ended = end(peer);
  try {
    const bytes = pipes(peer, ways);
    const stream: SealedStream =
      role === "initiator"
        ? await connect(bytes, await clientSecret(), verified, LIMITS)
        : await accept(bytes, wing.noise, verified.wingId, LIMITS);
    return { stream, peer, ended };
  } catch (error) {
    expect((await ended).code).not.toBe(0);
    throw error;
  }
}

function pipes(peer: ChildProcessWithoutNullStreams, ways: { up?: Tamper; down?: Tamper }): ByteStream {
  // An end that was given up is seen by whoever reads or writes next.
  peer.stdin.on("error", () => undefined);
  let readable = Readable.toWeb(peer.stdout) as ReadableStream<Uint8Array>;
  if (ways.down) {
    readable = readable.pipeThrough(ways.down.stream);
  }
  const stdin = Writable.toWeb(peer.stdin) as WritableStream<Uint8Array>;
  if (!ways.up) {
    return { readable, writable: stdin };
  }
  ways.up.stream.readable.pipeTo(stdin).catch(() => undefined);
  return { readable, writable: ways.up.stream.writable };
}

/** Changes the last byte of the chunk that follows a call. */
class Tamper {
  #armed = false;

  readonly stream = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      const copy = chunk.slice();
      if (this.#armed) {
        this.#armed = false;
        const last = copy.length - 1;
        copy[last] = (copy[last] as number) ^ 1;
      }
      controller.enqueue(copy);
    },
  });

  next(): void {
    this.#armed = true;
  }
}

async function end(peer: ChildProcessWithoutNullStreams): Promise<{ code: number | null; rekeyed: number }> {
  let words = "";
  peer.stderr.on("data", (chunk: Buffer) => {
    words += chunk.toString();
  });
  const [code] = (await once(peer, "close")) as [number | null];
  return { code, rekeyed: Number(/rekeyed (\d+)/.exec(words)?.[1] ?? 0) };
}

function run(...words: string[]): Buffer {
  return execFileSync(PEER, words, { stdio: "pipe" });
}

/** A wing's statement as words. */
async function statement(wing: Wing): Promise<string[]> {
  const { wing: id, key, seq, signature } = await wing.statement();
  return [id, base32(wing.identity), base32(key), `${seq}`, base32(signature)];
}

/** Checks a statement in words. */
function read(words: readonly string[]): Promise<VerifiedWing> {
  const [wing, identity, key, seq, signature] = words as [string, string, string, string, string];
  const parsed = <T extends Bytes>(length: number, text: string) => fixedFromText<T>(length, text) as T;
  const id = wingId(wing);
  if (!id) {
    throw new Error(`${wing} is not a wing id`);
  }
  return verifyStatement(id, parsed<IdentityKey>(32, identity), {
    wing: id,
    key: parsed<NoiseKey>(32, key),
    seq: BigInt(seq),
    signature: parsed<Signature>(64, signature),
  });
}
