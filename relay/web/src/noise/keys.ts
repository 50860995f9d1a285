// Keys, what they sign, and the checks on keys that come from outside.
//
// Secret keys are CryptoKeys that the platform does not let out again, so that neither a
// fault here nor a copy of the page's storage gives them away.

import type { Bytes } from "./bytes.ts";
import {
  type ClientKey,
  type DeviceKey,
  type IdentityKey,
  type NoiseKey,
  type Signature,
  type WingId,
  wingIdOf,
} from "./ids.ts";
import type { NoiseKeyStatement, RevocationStatement, SuccessorStatement } from "./records.ts";
import { clientKeyVouch, noiseKeyStatement, type RelayProof, relayProof, revocationBytes, successorBytes } from "./signed.ts";

const { subtle } = globalThis.crypto;

/** An X25519 key pair: a client's, a wing's for handshakes, or one that lives for one handshake. */
export interface AgreementPair<Public extends Bytes = Bytes> {
  /** The secret half, not extractable. */
  readonly secret: CryptoKey;
  /** The public half. */
  readonly public: Public;
}

/** Starts handshakes as a client: what a wing admits. */
export type ClientSecret = AgreementPair<ClientKey>;

/** Answers handshakes as a wing. */
export type NoiseSecret = AgreementPair<NoiseKey>;

/** A device's identity: proves it to relays, and vouches for its client key. */
export interface DeviceSecret {
  /** The secret half, an Ed25519 key that is not extractable. */
  readonly secret: CryptoKey;
  /** The public half. */
  readonly public: DeviceKey;
}

/** Makes an X25519 pair. */
export async function generateAgreement<Public extends Bytes>(): Promise<AgreementPair<Public>> {
  const pair = await subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
  return agreementPair(pair as CryptoKeyPair);
}

/** Takes a pair as a database of the platform gives it back. */
export async function agreementPair<Public extends Bytes>(pair: CryptoKeyPair): Promise<AgreementPair<Public>> {
  const bytes = new Uint8Array(await subtle.exportKey("raw", pair.publicKey));
  return { secret: pair.privateKey, public: bytes as Bytes as Public };
}

/** Makes a device's identity. */
export async function generateDevice(): Promise<DeviceSecret> {
  const pair = (await subtle.generateKey({ name: "Ed25519" }, false, ["sign"])) as CryptoKeyPair;
  const bytes = new Uint8Array(await subtle.exportKey("raw", pair.publicKey));
  return { secret: pair.privateKey, public: bytes as Bytes as DeviceKey };
}

/** Proves a device to a relay. */
export function proveDevice(device: DeviceSecret, proof: RelayProof): Promise<Signature> {
  return sign(device.secret, relayProof(proof));
}

/** Says at login that this client key is this device's. */
export function vouchFor(device: DeviceSecret, client: ClientKey): Promise<Signature> {
  return sign(device.secret, clientKeyVouch(device.public, client));
}

async function sign(secret: CryptoKey, message: Bytes): Promise<Signature> {
  return new Uint8Array(await subtle.sign({ name: "Ed25519" }, secret, message)) as Bytes as Signature;
}

/** Whether a signature is by this Ed25519 key over these bytes. */
export async function verify(key: Bytes, message: Bytes, signature: Signature): Promise<boolean> {
  try {
    const verifier = await subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
    return await subtle.verify({ name: "Ed25519" }, verifier, signature, message);
  } catch {
    // The platform refuses some keys before it looks at a signature.
    return false;
  }
}

/** Why an X25519 public key from outside is not taken. */
export class KeyError extends Error {
  override readonly name = "KeyError";
  /** `not-canonical`: another encoding names the same point. `low-order`: every agreement with it is known. */
  readonly reason: "not-canonical" | "low-order";

  constructor(reason: "not-canonical" | "low-order") {
    super(reason === "low-order" ? "an X25519 key is of low order" : "an X25519 key is not in canonical form");
    this.reason = reason;
  }
}

/** 2^255 - 19, the field's prime. */
const FIELD_PRIME = 2n ** 255n - 19n;

/**
 * All points of low order on the curve and its twist, by their u coordinate: 0, 1, the two
 * of order 8, and -1 (RFC 7748 section 6.1 speaks of them).
 */
const LOW_ORDER: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  0x00b8495f16056286fdb1329ceb8d09da6ac49ff1fae35616aeb8413b7c7aebe0n,
  0x57119fd0dd4e22d8868e1c58c45c44045bef839c55b1d0b1248c50a3bc959c5fn,
  FIELD_PRIME - 1n,
]);

/** Checks an X25519 public key of 32 bytes that came from outside. Throws {@link KeyError}. */
export function checkX25519(key: Uint8Array): void {
  // Little-endian, as RFC 7748 section 5 has it.
  const u = key.reduceRight((value, byte) => (value << 8n) | BigInt(byte), 0n);
  if (u >= FIELD_PRIME) {
    throw new KeyError("not-canonical");
  }
  if (LOW_ORDER.has(u)) {
    throw new KeyError("low-order");
  }
}

/** Agrees on a secret. Throws {@link KeyError} for a key that {@link checkX25519} refuses. */
export async function agree(secret: CryptoKey, theirs: Bytes): Promise<Bytes> {
  checkX25519(theirs);
  const key = await subtle.importKey("raw", theirs, { name: "X25519" }, false, []);
  const shared = new Uint8Array(await subtle.deriveBits({ name: "X25519", public: key }, secret, 256));
  // The table above leaves no way to this; a platform whose curve is broken might have one.
  if (shared.every((byte) => byte === 0)) {
    throw new KeyError("low-order");
  }
  return shared;
}

/** Why what a relay says about a wing is not believed. */
export class StatementError extends Error {
  override readonly name = "StatementError";
  readonly reason: "other-identity" | "other-wing" | "signature";

  constructor(reason: "other-identity" | "other-wing" | "signature") {
    super(
      {
        "other-identity": "the identity key does not belong to this wing id",
        "other-wing": "the statement is about another wing",
        signature: "the statement is not signed by the wing",
      }[reason],
    );
    this.reason = reason;
  }
}

const MADE_HERE: unique symbol = Symbol("made here");

/**
 * A wing whose id, identity key and noise key were checked to belong together. Only
 * {@link verifyStatement} and {@link fromPinned} make one.
 */
export class VerifiedWing {
  /** The wing. */
  readonly wingId: WingId;
  /** Its identity key. */
  readonly identity: IdentityKey;
  /** Its key for handshakes. */
  readonly noiseKey: NoiseKey;
  /** The seq of that key's statement. */
  readonly seq: bigint;

  /** For this module alone: nobody else has what it asks for. */
  constructor(made: typeof MADE_HERE, wingId: WingId, identity: IdentityKey, noiseKey: NoiseKey, seq: bigint) {
    if (made !== MADE_HERE) {
      throw new TypeError("a verified wing is made by a check");
    }
    this.wingId = wingId;
    this.identity = identity;
    this.noiseKey = noiseKey;
    this.seq = seq;
  }
}

/** For keys of which a signed statement was checked earlier. Throws {@link KeyError}. */
export async function fromPinned(identity: IdentityKey, noiseKey: NoiseKey, seq: bigint): Promise<VerifiedWing> {
  checkX25519(noiseKey);
  return new VerifiedWing(MADE_HERE, await wingIdOf(identity), identity, noiseKey, seq);
}

/**
 * Checks that a statement is by the wing with this id. Whether its seq may be taken is for
 * the pins to say. Throws {@link StatementError} and {@link KeyError}.
 */
export async function verifyStatement(
  wingId: WingId,
  identity: IdentityKey,
  statement: NoiseKeyStatement,
): Promise<VerifiedWing> {
  if ((await wingIdOf(identity)) !== wingId) {
    throw new StatementError("other-identity");
  }
  if (statement.wing !== wingId) {
    throw new StatementError("other-wing");
  }
  const message = noiseKeyStatement(statement.wing, statement.key, statement.seq);
  if (!(await verify(identity, message, statement.signature))) {
    throw new StatementError("signature");
  }
  return fromPinned(identity, statement.key, statement.seq);
}

/** Checks an identity's word on its successor. Gives who stepped down; nothing when the old identity did not sign it. */
export async function verifySuccessor(statement: SuccessorStatement): Promise<WingId | undefined> {
  const old = await wingIdOf(statement.old);
  const message = successorBytes(old, statement.new);
  return (await verify(statement.old, message, statement.signature)) ? old : undefined;
}

/** Checks an identity's word that it is given up. Gives which one; nothing when the identity did not sign it. */
export async function verifyRevocation(statement: RevocationStatement): Promise<WingId | undefined> {
  const wing = await wingIdOf(statement.identity);
  return (await verify(statement.identity, revocationBytes(wing), statement.signature)) ? wing : undefined;
}
