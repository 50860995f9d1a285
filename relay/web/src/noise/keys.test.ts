import { describe, expect, it } from "vitest";

import { device, fill, fromHex, hex, known, Wing } from "../../test/support.ts";
import { base32, type Bytes, fromBase32, grouped } from "./bytes.ts";
import { type NoiseKey, sessionId, wingId, wingIdOf, wingLabel } from "./ids.ts";
import { agree, checkX25519, generateAgreement, proveDevice, VerifiedWing, verify, verifyStatement, vouchFor } from "./keys.ts";
import { clientKeyVouch, relayProof } from "./signed.ts";

const PRIME = fromHex(`ed${"ff".repeat(30)}7f`);
const LOW_ORDER = [
  fill(32, 0),
  fromHex(`01${"00".repeat(31)}`),
  fromHex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
  fromHex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
  fromHex(`ec${"ff".repeat(30)}7f`),
];

describe("keys from outside", () => {
  it("that are not canonical or of low order are refused", () => {
    for (const key of LOW_ORDER) {
      expect(() => checkX25519(key)).toThrow("low order");
    }
    for (let low = 0xed; low <= 0xff; low++) {
      expect(() => checkX25519(changed(PRIME, 0, low))).toThrow("canonical");
    }
    expect(() => checkX25519(changed(fill(32, 9), 31, 0x89))).toThrow("canonical");
    expect(() => checkX25519(changed(PRIME, 0, 0xeb))).not.toThrow();
    expect(() => checkX25519(fill(32, 9))).not.toThrow();
  });

  it("never make an agreement that is known beforehand", async () => {
    const { secret, public: own } = await generateAgreement();

    for (const key of LOW_ORDER) {
      await expect(agree(secret, key)).rejects.toThrow("low order");
    }
    expect(await agree(secret, own)).not.toEqual(fill(32, 0));
  });

  it("agree as RFC 7748 section 6.1 has it", async () => {
    const bob = await known("X25519", fromHex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
    const alice = fromHex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");

    const shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
    expect(hex(await agree(bob.secret, alice))).toBe(shared);
  });

  it("have the public halves of RFC 8032 and of the curve's own ladder", async () => {
    const seed = fromHex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    const counted = Uint8Array.from({ length: 32 }, (_, at) => at);

    expect(hex((await device(seed)).public)).toBe("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    expect(hex((await known("X25519", counted)).public)).toBe(
      "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f",
    );
  });

  it("are kept where the page itself cannot read them", async () => {
    const { secret } = await generateAgreement();

    await expect(crypto.subtle.exportKey("jwk", secret)).rejects.toThrow();
  });
});

describe("a wing's statement", () => {
  it("is believed only from the wing it is about", async () => {
    const [wing, other] = [await Wing.number(1), await Wing.number(2)];
    const [id, otherId] = [await wingIdOf(wing.identity), await wingIdOf(other.identity)];
    const statement = await wing.statement();

    const verified = await verifyStatement(id, wing.identity, statement);
    expect(verified).toMatchObject({ wingId: id, identity: wing.identity, noiseKey: wing.noise.public, seq: 1n });

    const check = (changes: object) => verifyStatement(id, wing.identity, { ...statement, ...changes });
    await expect(verifyStatement(id, other.identity, statement)).rejects.toMatchObject({ reason: "other-identity" });
    await expect(verifyStatement(otherId, wing.identity, statement)).rejects.toMatchObject({ reason: "other-identity" });
    await expect(check({ wing: otherId })).rejects.toMatchObject({ reason: "other-wing" });
    await expect(check({ key: other.noise.public })).rejects.toMatchObject({ reason: "signature" });
    await expect(check({ seq: 2n })).rejects.toMatchObject({ reason: "signature" });
    for (let at = 0; at < 64; at++) {
      const signature = changed(statement.signature, at, (statement.signature[at] as number) ^ 1);
      await expect(check({ signature })).rejects.toMatchObject({ reason: "signature" });
    }
  });

  it("about a key of low order is refused though it is signed", async () => {
    const wing = await Wing.number(1);
    const statement = await wing.statement(LOW_ORDER[2] as NoiseKey);

    const verified = verifyStatement(await wingIdOf(wing.identity), wing.identity, statement);

    await expect(verified).rejects.toMatchObject({ name: "KeyError", reason: "low-order" });
  });

  it("is the only way to a verified wing", () => {
    const Forged = VerifiedWing as unknown as new (...parts: unknown[]) => VerifiedWing;

    expect(() => new Forged(Symbol("made here"), "id", fill(32, 1), fill(32, 2), 1n)).toThrow("made by a check");
  });
});

describe("a device", () => {
  it("vouches for one client key alone", async () => {
    const own = await device(fill(32, 1));
    const [client, other] = [fill(32, 2) as never, fill(32, 3) as never];

    const signature = await vouchFor(own, client);

    expect(await verify(own.public, clientKeyVouch(own.public, client), signature)).toBe(true);
    expect(await verify(own.public, clientKeyVouch(own.public, other), signature)).toBe(false);
    const stranger = (await device(fill(32, 4))).public;
    expect(await verify(stranger, clientKeyVouch(own.public, client), signature)).toBe(false);
  });

  it("proves itself for its own nonces alone", async () => {
    const own = await device(fill(32, 1));
    const proof = {
      mode: "Nonce",
      role: { type: "Client" },
      origin: "https://roost.example",
      relayNonce: fill(32, 1),
      clientNonce: fill(32, 2),
      exporter: fill(0, 0),
      tokenHash: fill(32, 3),
      instance: fill(16, 4) as never,
    } as const;

    const signature = await proveDevice(own, proof);

    expect(await verify(own.public, relayProof(proof), signature)).toBe(true);
    expect(await verify(own.public, relayProof({ ...proof, relayNonce: fill(32, 9) }), signature)).toBe(false);
  });
});

describe("ids", () => {
  it("of wings are what others work out too", async () => {
    // b32encode(sha256(b"wingthing wing id v1" + bytes([7] * 32)).digest())[:26].lower()
    expect(await wingIdOf(fill(32, 7) as never)).toBe("gq3qm6xmjeb5ru6c7q6e7p2f3r");
  });

  it("have one shape each", () => {
    expect(wingId("gq3qm6xmjeb5ru6c7q6e7p2f3r")).toBeDefined();
    for (const bad of ["", "gq3qm6xmjeb5ru6c7q6e7p2f3", "GQ3QM6XMJEB5RU6C7Q6E7P2F3R", "gq3qm6xmjeb5ru6c7q6e7p2f3r\n", "1q3qm6xmjeb5ru6c7q6e7p2f3r"]) {
      expect(wingId(bad)).toBeUndefined();
    }
    expect(sessionId("aebagbafaydq")).toBeDefined();
    expect(sessionId("aebagbafayd1")).toBeUndefined();
    for (const bad of ["", ".", "-x", "a/b", "a b", "é", "x".repeat(65), "a".repeat(26)]) {
      expect(wingLabel(bad)).toBeUndefined();
    }
    for (const good of ["a", "box", "a.b_c-D9", "x".repeat(64)]) {
      expect(wingLabel(good)).toBe(good);
    }
  });

  it("are read from base32 in one way alone", () => {
    for (let size = 0; size < 40; size++) {
      const bytes = Uint8Array.from({ length: size }, (_, at) => (at * 37 + size) & 0xff);
      const text = base32(bytes);
      expect(fromBase32(text)).toEqual(bytes);
      expect(fromBase32(text.toUpperCase())).toEqual(bytes);
      // No bytes have such a length, and the last character may hold no bits of its own.
      expect(fromBase32(`${text}a`)?.length).not.toBe(size);
    }
    expect(fromBase32("aa")).toEqual(fill(1, 0));
    for (const bad of ["ab", "a", "a1", "a=", "\u212aa", "aaa", "aaaaaa"]) {
      expect(fromBase32(bad), bad).toBeUndefined();
    }
    expect(grouped("abcdefghij")).toBe("abcd-efgh-ij");
  });
});

function changed(bytes: Uint8Array, at: number, value: number): Bytes {
  const copy = bytes.slice() as Bytes;
  copy[at] = value;
  return copy;
}
