import { afterEach, describe, expect, it, vi } from "vitest";

import { clientSecret, fill, Wing } from "../../test/support.ts";
import type { ClientSecret, VerifiedWing } from "./keys.ts";
import { utf8 } from "./bytes.ts";
import { accept, type ByteStream, connect, SealedEnd, type SealedStream } from "./stream.ts";

afterEach(() => {
  vi.useRealTimers();
});

describe("a stream", () => {
  it("carries messages both ways and ends in order", async () => {
    const { client, wing } = await ends();

    const sent = fill(1 << 20, 3);
    const echoed = echo(wing);
    await client.send(sent);
    expect(Buffer.from(await client.next()).equals(sent)).toBe(true);
    await client.close({ type: "Done" });

    expect(await echoed).toMatchObject({ reason: "closed", close: { type: "Done" } });
    expect(wing.handshakeHash).toEqual(client.handshakeHash);
    expect(wing.client).toHaveLength(32);
  });

  it("that ends without a close was cut, for good", async () => {
    const { client, wing, cut } = await ends();
    await client.send(utf8("last"));
    expect(await wing.next()).toEqual(utf8("last"));

    cut();

    await expect(wing.next()).rejects.toMatchObject({ reason: "link-lost" });
    await expect(wing.next()).rejects.toMatchObject({ reason: "link-lost" });
  });

  it("in which a byte was changed is given up at both ends", async () => {
    // The header has 53 bytes with its length, and message 1 has 98.
    const { client, wing } = await ends({ flip: 53 + 98 + 40 });
    await client.send(utf8("x"));

    await expect(wing.next()).rejects.toMatchObject({ reason: "tampered" });
    await expect(wing.next()).rejects.toMatchObject({ reason: "tampered" });
    await expect(wing.send(utf8("y"))).rejects.toThrow();
    await expect(client.next()).rejects.toMatchObject({ name: "SealedEnd" });
  });

  it("whose handshake was changed makes no session", async () => {
    const [wing, client] = [await Wing.generate(), await clientSecret()];
    const [near, far] = pipe(60);
    const verified = await wing.verified();

    const accepted = accept(far, wing.noise, verified.wingId);
    const connected = connect(near, client, verified);

    const results = await Promise.allSettled([accepted, connected]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  it("that is silent during the handshake is given up in time", async () => {
    const [verified, client] = [await (await Wing.generate()).verified(), await clientSecret()];
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const connected = connect(pipe()[0], client, verified);
    const refused = expect(connected).rejects.toMatchObject({ reason: "silent" });

    await vi.advanceTimersByTimeAsync(10_000);

    await refused;
  });

  it("lives as long as its pings are answered, and dies when they are not", async () => {
    const [wing, secret] = [await Wing.generate(), await clientSecret()];
    const verified = await wing.verified();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
    const { client, atWing, hold, passed } = await held(wing, verified, secret);
    const wingEnd = atWing.next().catch((error: unknown) => error);
    const clientEnd = client.next().catch((error: unknown) => error);

    // Long past the deadline, since both ends answer: a ping and a pong each way in each round.
    for (let round = 1; round <= 8; round++) {
      await vi.advanceTimersByTimeAsync(15_000);
      await until(() => passed() >= 4 * round);
    }
    await client.send(utf8("alive"));
    expect(await wingEnd).toEqual(utf8("alive"));

    hold();
    await vi.advanceTimersByTimeAsync(60_000);
    // Whichever end notices first gives the stream up, so the other one may see it cut.
    const reasons = [await clientEnd, await atWing.next().catch((error: unknown) => error)];
    expect(reasons).toContainEqual(expect.objectContaining({ reason: "silent" }));
    expect(reasons).toEqual([expect.any(SealedEnd), expect.any(SealedEnd)]);
  });

  it("applies nothing that was held back for too long", async () => {
    const [wing, secret] = [await Wing.generate(), await clientSecret()];
    const verified = await wing.verified();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
    const { client, atWing } = await held(wing, verified, secret);
    await client.send(utf8("rm x"));

    // The clock goes on, though no timer of a machine that sleeps does.
    vi.setSystemTime(Date.now() + 60_000);

    await expect(atWing.next()).rejects.toMatchObject({ reason: "silent" });
  });
});

async function ends(options: { flip?: number } = {}) {
  const [wing, client] = [await Wing.generate(), await clientSecret()];
  const [near, far, cut] = pipe(options.flip);
  const verified = await wing.verified();
  const accepted = accept(far, wing.noise, verified.wingId);
  return { client: await connect(near, client, verified), wing: await accepted, cut };
}

/** Both ends, over pipes that can be held: then nothing arrives any more. */
async function held(wing: Wing, verified: VerifiedWing, client: ClientSecret) {
  let isHeld = false;
  let count = 0;
  const through = () =>
    buffered({
      transform: (chunk, controller) => {
        if (!isHeld) {
          count += 1;
          controller.enqueue(chunk);
        }
      },
    });
  const [up, down] = [through(), through()];
  const accepted = accept({ readable: up.readable, writable: down.writable }, wing.noise, verified.wingId);
  const connected = await connect({ readable: down.readable, writable: up.writable }, client, verified);
  const hold = () => {
    isHeld = true;
  };
  const atWing = await accepted;
  const before = count;
  return { client: connected, atWing, hold, passed: () => count - before };
}

/** Two ends of a pipe, and what cuts it. The byte at `flip` is changed on its way to the far end. */
function pipe(flip?: number): [ByteStream, ByteStream, () => void] {
  let at = 0;
  let controller: TransformStreamDefaultController<Uint8Array> | undefined;
  const up = buffered({
    start: (started) => {
      controller = started;
    },
    transform: (chunk, through) => {
      const copy = chunk.slice();
      if (flip !== undefined && flip >= at && flip < at + copy.length) {
        copy[flip - at] = (copy[flip - at] as number) ^ 1;
      }
      at += copy.length;
      through.enqueue(copy);
    },
  });
  const down = buffered({});
  const near = { readable: down.readable, writable: up.writable };
  const far = { readable: up.readable, writable: down.writable };
  return [near, far, () => controller?.terminate()];
}

/** As a network: takes a little before anybody reads. */
function buffered(transformer: Transformer<Uint8Array, Uint8Array>): TransformStream<Uint8Array, Uint8Array> {
  const some = { highWaterMark: 16 };
  return new TransformStream(transformer, some, some);
}

/** Sends every message back until the stream ends; gives the end. */
async function echo(stream: SealedStream): Promise<unknown> {
  for (;;) {
    try {
      await stream.send(await stream.next());
    } catch (error) {
      return error;
    }
  }
}

/** Waits while the platform works beside the page; the test's own deadline is the bound. */
async function until(isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
