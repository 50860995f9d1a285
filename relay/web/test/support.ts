// What the tests share: the golden vectors, keys of known bytes, and both ends of a session.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import type { Bytes } from "../src/noise/bytes.ts";
import { concat } from "../src/noise/bytes.ts";
import { Deframer } from "../src/noise/deframer.ts";
import { Initiator, respond } from "../src/noise/handshake.ts";
import {
  type ClientKey,
  type DeviceKey,
  type IdentityKey,
  type NoiseKey,
  type RouteNonce,
  type Signature,
  type WingId,
  wingIdOf,
} from "../src/noise/ids.ts";
import {
  type AgreementPair,
  type ClientSecret,
  generateAgreement,
  type NoiseSecret,
  type VerifiedWing,
  verifyStatement,
} from "../src/noise/keys.ts";
import { MAX_SEALED_RECORD } from "../src/noise/limits.ts";
import type { NoiseKeyStatement, RevocationStatement, RouteHeader, SuccessorStatement } from "../src/noise/records.ts";
import type { Opened, Opener, Sealer, SessionLimits } from "../src/noise/session.ts";
import { DEFAULT_LIMITS } from "../src/noise/session.ts";
import { noiseKeyStatement, revocationBytes, successorBytes } from "../src/noise/signed.ts";

const { subtle } = globalThis.crypto;

/** The repository's root. */
export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

/** The lines of a committed vector file: a name, and bytes. */
export function vectors(path: string): Map<string, Bytes> {
  const lines = readFileSync(ROOT + path, "utf8").trimEnd().split("\n");
  return new Map(lines.map((line) => {
    const [name, hex] = line.split(" ");
    return [name as string, fromHex(hex ?? "")];
  }));
}

export function fromHex(hex: string): Bytes {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
}

export function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** So many bytes of one value. */
export function fill(length: number, value: number): Bytes {
  return new Uint8Array(length).fill(value);
}

const PKCS8: Readonly<Record<"X25519" | "Ed25519", Bytes>> = {
  X25519: fromHex("302e020100300506032b656e04220420"),
  Ed25519: fromHex("302e020100300506032b657004220420"),
};

/** A secret key of known bytes, with its public half. */
export async function known(kind: "X25519" | "Ed25519", secret: Bytes): Promise<{ secret: CryptoKey; public: Bytes }> {
  const encoded = concat(PKCS8[kind], secret);
  const usage: KeyUsage[] = kind === "X25519" ? ["deriveBits"] : ["sign"];
  const extractable = await subtle.importKey("pkcs8", encoded, { name: kind }, true, usage);
  const { x } = await subtle.exportKey("jwk", extractable);
  const key = await subtle.importKey("pkcs8", encoded, { name: kind }, false, usage);
  return { secret: key, public: Uint8Array.from(Buffer.from(x as string, "base64url")) };
}

/** A wing with all its keys. */
export class Wing {
  readonly noise: NoiseSecret;
  readonly identity: IdentityKey;
  readonly seq: bigint;
  readonly #signer: CryptoKey;

  private constructor(signer: CryptoKey, identity: IdentityKey, noise: NoiseSecret, seq: bigint) {
    this.#signer = signer;
    this.identity = identity;
    this.noise = noise;
    this.seq = seq;
  }

  /** The same wing for the same bytes. */
  static async of(identitySeed: Bytes, noiseSecret: Bytes, seq = 1n): Promise<Wing> {
    const identity = await known("Ed25519", identitySeed);
    const noise = await known("X25519", noiseSecret);
    return new Wing(identity.secret, identity.public as Bytes as IdentityKey, noise as AgreementPair as NoiseSecret, seq);
  }

  static number(number: number, noise = number, seq = 1n): Promise<Wing> {
    return Wing.of(fill(32, number), fill(32, noise), seq);
  }

  static generate(): Promise<Wing> {
    const random = () => globalThis.crypto.getRandomValues(new Uint8Array(32));
    return Wing.of(random(), random());
  }

  /** A statement about any key, or the wing's own. */
  async statement(key: NoiseKey = this.noise.public): Promise<NoiseKeyStatement> {
    const wing = await wingIdOf(this.identity);
    const message = noiseKeyStatement(wing, key, this.seq);
    return { wing, key, seq: this.seq, signature: await this.#sign(message) };
  }

  /** The identity's word on the wing that takes its place. */
  async successor(next: WingId): Promise<SuccessorStatement> {
    const message = successorBytes(await wingIdOf(this.identity), next);
    return { old: this.identity, new: next, signature: await this.#sign(message) };
  }

  /** The identity's word that it is given up. */
  async revocation(): Promise<RevocationStatement> {
    return { identity: this.identity, signature: await this.#sign(revocationBytes(await wingIdOf(this.identity))) };
  }

  async #sign(message: Bytes): Promise<Signature> {
    return new Uint8Array(await subtle.sign({ name: "Ed25519" }, this.#signer, message)) as Bytes as Signature;
  }

  async verified(): Promise<VerifiedWing> {
    return verifyStatement(await wingIdOf(this.identity), this.identity, await this.statement());
  }

  async header(): Promise<RouteHeader> {
    return { wing: await wingIdOf(this.identity), nonce: fill(16, 1) as Bytes as RouteNonce, versions: { min: 1, max: 1 } };
  }
}

export function clientSecret(): Promise<ClientSecret> {
  return generateAgreement<ClientKey>();
}

/** One end of a session, both directions. */
export class End {
  readonly sealer: Sealer;
  readonly opener: Opener;

  constructor(directions: { sealer: Sealer; opener: Opener }) {
    this.sealer = directions.sealer;
    this.opener = directions.opener;
  }

  seal(message: Uint8Array | string): Promise<Bytes> {
    const bytes = typeof message === "string" ? new TextEncoder().encode(message) : message;
    return this.sealer.message(bytes.slice(), 0);
  }

  async receive(bytes: Uint8Array): Promise<Opened[]> {
    const opened: Opened[] = [];
    for (const record of frames(bytes)) {
      opened.push(await this.opener.open(record));
    }
    return opened;
  }
}

/** A client's and a wing's end of a fresh session. */
export async function pair(changes: Partial<SessionLimits> = {}): Promise<{ client: End; wing: End }> {
  const limits = { ...DEFAULT_LIMITS, ...changes };
  const wing = await Wing.generate();
  const header = await wing.header();
  const { initiator, message1 } = await Initiator.start(await clientSecret(), await wing.verified(), header);
  const { session, message2 } = await respond(wing.noise, header.wing, header, message1);
  const atClient = await initiator.finish(message2);
  return { client: new End(atClient.split(0, limits)), wing: new End(session.split(0, limits)) };
}

/** The records in a row of bytes. */
export function frames(bytes: Uint8Array): Bytes[] {
  const deframer = new Deframer(MAX_SEALED_RECORD);
  deframer.extend(bytes);
  const all: Bytes[] = [];
  for (let next = deframer.next(); next; next = deframer.next()) {
    all.push(next);
  }
  return all;
}

/** A device of known bytes. */
export async function device(seed: Bytes): Promise<{ secret: CryptoKey; public: DeviceKey }> {
  const { secret, public: key } = await known("Ed25519", seed);
  return { secret, public: key as Bytes as DeviceKey };
}
