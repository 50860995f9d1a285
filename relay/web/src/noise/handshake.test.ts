import { describe, expect, it, vi } from "vitest";

import { clientSecret, fill, known, Wing } from "../../test/support.ts";
import type { Bytes } from "./bytes.ts";
import { concat } from "./bytes.ts";
import { cipherKey, hash, hkdf, seal } from "./cipher.ts";
import { HandshakeError, Initiator, MESSAGE_1_SIZE, MESSAGE_2_SIZE, prologue, respond } from "./handshake.ts";
import { wingIdOf } from "./ids.ts";
import { agree, type ClientSecret, type VerifiedWing } from "./keys.ts";
import { bestCommon, type RouteHeader, type VersionRange } from "./records.ts";

const DOES_NOT_OPEN = { name: "HandshakeError", reason: "does-not-open" };

describe("a handshake", () => {
  it("gives both ends one session, and the wing the client's key", async () => {
    const ends = await Ends.make();

    const { initiator, message1 } = await ends.start();
    const { session, message2, incompatible } = await ends.read(message1);
    const client = await initiator.finish(message2);

    expect([message1.length, message2.length]).toEqual([MESSAGE_1_SIZE, MESSAGE_2_SIZE]);
    expect(client.handshakeHash).toEqual(session.handshakeHash);
    expect([client.version, session.version, incompatible]).toEqual([1, 1, undefined]);
    expect(session.client).toEqual(ends.client.public);
    expect(client.client).toBeUndefined();
  });

  it("is finished and split once", async () => {
    const ends = await Ends.make();
    const { initiator, message1 } = await ends.start();
    const { message2 } = await ends.read(message1);

    const session = await initiator.finish(message2);

    await expect(initiator.finish(message2)).rejects.toThrow("finished once");
    session.split(0);
    expect(() => session.split(0)).toThrow("split once");
  });

  it("gets no answer when any byte of message 1 was changed", async () => {
    const ends = await Ends.make();
    const { message1 } = await ends.start();

    for (let at = 0; at < message1.length; at++) {
      for (const flip of [0x01, 0x80]) {
        await expect(ends.read(flipped(message1, at, flip)), `byte ${at}`).rejects.toThrow();
      }
    }
    await expect(ends.read(message1)).resolves.toBeDefined();
  });

  it("ends when any byte of message 2 was changed", async () => {
    const ends = await Ends.make();

    for (let at = 0; at < MESSAGE_2_SIZE; at++) {
      const { initiator, message1 } = await ends.start();
      const { message2 } = await ends.read(message1);
      await expect(initiator.finish(flipped(message2, at, 1)), `byte ${at}`).rejects.toThrow();
    }
  });

  it("refuses messages that are cut or longer", async () => {
    const ends = await Ends.make();
    const { message1 } = await ends.start();
    const { message2 } = await ends.read(message1);

    for (let size = 0; size < MESSAGE_1_SIZE; size++) {
      await expect(ends.read(message1.slice(0, size))).rejects.toMatchObject(DOES_NOT_OPEN);
    }
    await expect(ends.read(concat(message1, fill(1, 0)))).rejects.toMatchObject(DOES_NOT_OPEN);
    for (let size = 0; size < MESSAGE_2_SIZE; size++) {
      const { initiator } = await ends.start();
      await expect(initiator.finish(message2.slice(0, size))).rejects.toMatchObject(DOES_NOT_OPEN);
    }
  });

  it("binds each field of the prologue", async () => {
    const ends = await Ends.make();
    const { message1 } = await ends.start();
    const read = (changes: Partial<RouteHeader>) => {
      const header = { ...ends.header, ...changes };
      return respond(ends.wing.noise, header.wing, header, message1);
    };

    await expect(read({})).resolves.toBeDefined();
    const other = await wingIdOf((await Wing.generate()).identity);
    for (const changes of [
      { wing: other },
      { nonce: fill(16, 9) as RouteHeader["nonce"] },
      { versions: { min: 0, max: 1 } },
      { versions: { min: 1, max: 2 } },
    ]) {
      await expect(read(changes)).rejects.toMatchObject(DOES_NOT_OPEN);
    }
  });

  it("is not for another wing at either end", async () => {
    const ends = await Ends.make();
    const { message1 } = await ends.start();
    const other = await wingIdOf((await Wing.generate()).identity);
    const elsewhere = { ...ends.header, wing: other };

    const answered = expect(respond(ends.wing.noise, other, ends.header, message1));
    await answered.rejects.toMatchObject({ reason: "other-wing" });
    const started = expect(Initiator.start(ends.client, ends.verified, elsewhere));
    await started.rejects.toMatchObject({ reason: "other-wing" });
  });

  it("is not answered by another key than the certified one", async () => {
    const ends = await Ends.make();
    const { message1 } = await ends.start();

    const answered = respond((await Wing.generate()).noise, ends.header.wing, ends.header, message1);

    await expect(answered).rejects.toMatchObject(DOES_NOT_OPEN);
  });

  it("is not finished by the message 2 of another one", async () => {
    const ends = await Ends.make();
    const [first, second] = [await ends.start(), await ends.start()];
    const { message2 } = await ends.read(second.message1);

    expect(first.message1).not.toEqual(second.message1);
    await expect(first.initiator.finish(message2)).rejects.toMatchObject(DOES_NOT_OPEN);
    await expect(second.initiator.finish(message2)).resolves.toBeDefined();
  });

  it("refuses ephemeral keys of low order on both sides", async () => {
    const ends = await Ends.make();
    const { initiator, message1 } = await ends.start();
    const { message2 } = await ends.read(message1);
    message1.fill(0, 0, 32);
    message2.fill(0, 0, 32);

    const lowOrder = { name: "KeyError", reason: "low-order" };
    await expect(ends.read(message1)).rejects.toMatchObject(lowOrder);
    await expect(initiator.finish(message2)).rejects.toMatchObject(lowOrder);
  });

  it("refuses a client key of low order though everybody can make its message 1", async () => {
    const ends = await Ends.make();

    const weakMessage = await ends.forge(fill(32, 0), fill(0, 0));
    const honestMessage = await ends.forge(ends.client.public, fill(0, 0));

    await expect(ends.read(weakMessage)).rejects.toMatchObject({ name: "KeyError", reason: "low-order" });
    // The last agreement is not zero for an honest key, so the forger does not know it.
    await expect(ends.read(honestMessage)).rejects.toMatchObject(DOES_NOT_OPEN);
  });

  it("has no room for a payload in message 1", async () => {
    const ends = await Ends.make();

    const answered = ends.read(await ends.forge(fill(32, 0), new TextEncoder().encode("act")));

    await expect(answered).rejects.toMatchObject(DOES_NOT_OPEN);
  });

  it("without a common version tells the client the newest one", async () => {
    const ends = await Ends.make();
    const { initiator, message1 } = await ends.start();

    const { session, message2, incompatible } = await ends.read(message1, { min: 3, max: 7 });

    expect([incompatible, message2.length]).toEqual([7, MESSAGE_2_SIZE]);
    await expect(initiator.finish(message2)).rejects.toMatchObject({ reason: "version", newest: 7 });
    const close = await session.split(0).sealer.close({ type: "Version", value: 7 });
    expect(close).toHaveLength(2 + 64 + 16);
  });

  it("speaks the newest common version", async () => {
    const ends = await Ends.make({ min: 1, max: 5 });
    const { initiator, message1 } = await ends.start();

    const { session, message2 } = await ends.read(message1, { min: 2, max: 3 });

    expect([session.version, (await initiator.finish(message2)).version]).toEqual([3, 3]);
    const [a, b, c] = [{ min: 1, max: 3 }, { min: 2, max: 5 }, { min: 4, max: 5 }];
    expect([bestCommon(a, b), bestCommon(b, a), bestCommon(a, c), bestCommon(c, a)]).toEqual([3, 3, undefined, undefined]);
  });

  it("refuses an answer that the client did not offer or that is not one", async () => {
    const ends = await Ends.make();
    const answers = [[1, 0, 2], [1, 0, 0], [0, 0, 1], [3, 0, 1], [1, 0, 1, 1], [2, 0, 1, ...fill(12, 0), 1]];

    for (const bytes of answers) {
      const { initiator, message1 } = await ends.start();
      const { message2 } = await ends.readAnswering(Uint8Array.from(bytes), message1);
      await expect(initiator.finish(message2), `${bytes}`).rejects.toMatchObject({ reason: "malformed" });
    }
    const { initiator, message1 } = await ends.start();
    const { message2 } = await ends.readAnswering(Uint8Array.of(1, 0, 1), message1);
    await expect(initiator.finish(message2)).resolves.toBeDefined();
  });

  it("says why it failed", () => {
    expect(new HandshakeError("version", 7).message).toContain("version 7");
  });
});

class Ends {
  readonly wing: Wing;
  readonly verified: VerifiedWing;
  readonly client: ClientSecret;
  readonly header: RouteHeader;

  private constructor(wing: Wing, verified: VerifiedWing, client: ClientSecret, header: RouteHeader) {
    this.wing = wing;
    this.verified = verified;
    this.client = client;
    this.header = header;
  }

  static async make(versions: VersionRange = { min: 1, max: 1 }): Promise<Ends> {
    const wing = await Wing.generate();
    return new Ends(wing, await wing.verified(), await clientSecret(), { ...(await wing.header()), versions });
  }

  start() {
    return Initiator.start(this.client, this.verified, this.header);
  }

  read(message1: Bytes, spoken?: VersionRange) {
    return respond(this.wing.noise, this.header.wing, this.header, message1, spoken);
  }

  /** A wing that puts any bytes into its answer, which is the one thing of 16 bytes that it seals. */
  async readAnswering(answer: Bytes, message1: Bytes) {
    const encrypt = crypto.subtle.encrypt.bind(crypto.subtle);
    const spy = vi.spyOn(crypto.subtle, "encrypt").mockImplementation((algorithm, key, data) => {
      const plain = concat(answer, fill(16 - answer.length, 0));
      return encrypt(algorithm, key, data.byteLength === 16 ? plain : data);
    });
    try {
      return await this.read(message1);
    } finally {
      spy.mockRestore();
    }
  }

  /** A message 1 with any static key, made without its secret: the last agreement is taken to be zero. */
  async forge(staticKey: Bytes, payload: Bytes): Promise<Bytes> {
    const ephemeral = await known("X25519", fill(32, 5));
    const name = concat(new TextEncoder().encode("Noise_IK_25519_AESGCM_SHA256"), fill(4, 0));
    const responder = this.verified.noiseKey;
    let h = await hash(await hash(await hash(name, prologue(this.header.wing, this.header)), responder), ephemeral.public);
    const [chaining, first] = await hkdf(name, await agree(ephemeral.secret, responder));
    const sealedKey = await seal(await cipherKey(first), 0n, staticKey, h);
    h = await hash(h, sealedKey);
    const [, second] = await hkdf(chaining, fill(32, 0));
    return concat(ephemeral.public, sealedKey, await seal(await cipherKey(second), 0n, payload, h));
  }
}

function flipped(bytes: Bytes, at: number, flip: number): Bytes {
  const copy = bytes.slice();
  copy[at] = (copy[at] as number) ^ flip;
  return copy;
}
