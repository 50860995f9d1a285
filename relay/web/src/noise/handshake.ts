// The handshake: Noise IK, from the client to a wing whose key it knows.
//
// Message 1 carries nothing that acts, so that a replayed one does nothing: the wing
// answers every well-formed one with a message 2 of one size, and only the first record
// after it proves that the client is there. Message 2 carries the version that the wing
// chose from the client's offer.
//
// Both ends hash a prologue of what they believe about the route. A relay that routes
// elsewhere, uses a handshake twice or narrows the offer makes the handshake fail.

import { type Bytes, concat, u16be, utf8 } from "./bytes.ts";
import { type CipherKey, cipherKey, hash, hkdf, KEY, open, seal, TAG } from "./cipher.ts";
import type { ClientKey, WingId } from "./ids.ts";
import {
  type AgreementPair,
  agree,
  type ClientSecret,
  checkX25519,
  generateAgreement,
  type NoiseSecret,
  type VerifiedWing,
} from "./keys.ts";
import { bestCommon, CURRENT_VERSIONS, type RouteHeader, type VersionRange } from "./records.ts";
import { Session } from "./session.ts";
import { layout } from "./signed.ts";

/** The Noise protocol name. */
export const SUITE = "Noise_IK_25519_AESGCM_SHA256";

/** What the prologue starts with. */
const PROLOGUE = "wingthing/1";

/** Bytes of the answer in message 2. Three are used; the rest must be zero. */
const ANSWER = 16;

/** First byte of an answer that names the chosen version. */
const CHOSEN = 1;

/** First byte of an answer that names the newest version spoken, since none is common. */
const NO_COMMON_VERSION = 2;

/** Bytes of message 1: an ephemeral key, the sealed client key, an empty sealed payload. */
export const MESSAGE_1_SIZE = KEY + (KEY + TAG) + TAG;

/** Bytes of message 2: an ephemeral key and the sealed answer. */
export const MESSAGE_2_SIZE = KEY + ANSWER + TAG;

/** Why a handshake ended. Keys that prove nothing are a {@link KeyError} instead. */
export class HandshakeError extends Error {
  override readonly name = "HandshakeError";
  /**
   * `does-not-open`: not made for this key and this route, or changed on its way.
   * `other-wing`: the header asks for another wing. `malformed`: it opened, but does not
   * hold what it must. `version`: the wing speaks none of the offered versions.
   */
  readonly reason: "does-not-open" | "other-wing" | "malformed" | "version";
  /** The newest version that the wing speaks, for `version`. */
  readonly newest: number | undefined;

  constructor(reason: "does-not-open" | "other-wing" | "malformed" | "version", newest?: number) {
    super(
      {
        "does-not-open": "a handshake message does not open",
        "other-wing": "a route is meant for another wing",
        malformed: "a handshake message does not parse",
        version: `the wing speaks version ${newest} at the newest, which this program does not`,
      }[reason],
    );
    this.reason = reason;
    this.newest = newest;
  }
}

/** A client between message 1 and message 2. */
export class Initiator {
  readonly #noise: Symmetric;
  readonly #client: ClientSecret;
  readonly #ephemeral: AgreementPair;
  readonly #offered: VersionRange;
  #used = false;

  private constructor(noise: Symmetric, client: ClientSecret, ephemeral: AgreementPair, offered: VersionRange) {
    this.#noise = noise;
    this.#client = client;
    this.#ephemeral = ephemeral;
    this.#offered = offered;
  }

  /**
   * Starts a handshake. Message 1 goes out after the header, which must be for this wing.
   */
  static async start(
    client: ClientSecret,
    wing: VerifiedWing,
    header: RouteHeader,
  ): Promise<{ readonly initiator: Initiator; readonly message1: Bytes }> {
    if (header.wing !== wing.wingId) {
      throw new HandshakeError("other-wing");
    }
    const noise = await Symmetric.start(prologue(wing.wingId, header), wing.noiseKey);
    const ephemeral = await generateAgreement();
    await noise.mixHash(ephemeral.public);
    await noise.mixKey(await agree(ephemeral.secret, wing.noiseKey));
    const sealedKey = await noise.seal(client.public);
    await noise.mixKey(await agree(client.secret, wing.noiseKey));
    const sealedPayload = await noise.seal(new Uint8Array());
    const initiator = new Initiator(noise, client, ephemeral, header.versions);
    return { initiator, message1: concat(ephemeral.public, sealedKey, sealedPayload) };
  }

  /**
   * Reads message 2, once. Throws {@link HandshakeError} and {@link KeyError}; any but
   * `version` means that whoever answered did not prove to be the wing. A failed handshake
   * is never retried in a weaker way.
   */
  async finish(message2: Bytes): Promise<Session> {
    if (this.#used) {
      throw new TypeError("a handshake is finished once");
    }
    this.#used = true;
    const theirs = ephemeralOf(message2, MESSAGE_2_SIZE);
    const noise = this.#noise;
    await noise.mixHash(theirs);
    await noise.mixKey(await agree(this.#ephemeral.secret, theirs));
    await noise.mixKey(await agree(this.#client.secret, theirs));
    const answer = new DataView((await noise.open(message2.slice(KEY))).buffer);
    const version = answer.getUint16(1);
    for (let at = 3; at < ANSWER; at++) {
      if (answer.getUint8(at) !== 0) {
        throw new HandshakeError("malformed");
      }
    }
    const { min, max } = this.#offered;
    switch (answer.getUint8(0)) {
      case CHOSEN:
        if (version < min || version > max) {
          throw new HandshakeError("malformed");
        }
        break;
      case NO_COMMON_VERSION:
        throw new HandshakeError("version", version);
      default:
        throw new HandshakeError("malformed");
    }
    const [sends, receives] = await noise.split();
    return new Session({ sends, receives }, noise.hash, version, undefined);
  }
}

/** What a wing makes of a message 1. */
export interface Answer {
  /** Goes back to the client. */
  readonly message2: Bytes;
  /**
   * A session with a client that has not proved to be there yet: nothing may be acted on
   * before its first record opens.
   */
  readonly session: Session;
  /** The newest version spoken here, when none is common: the session can only be closed, with it. */
  readonly incompatible: number | undefined;
}

/**
 * The wing's side: reads message 1 and makes message 2. Works the same for every client
 * key, so that the answer says nothing about any list.
 *
 * Throws {@link HandshakeError} and {@link KeyError} for a message that is not a well-formed
 * one for this wing and this route. The caller gives no answer then.
 */
export async function respond(
  noiseSecret: NoiseSecret,
  wing: WingId,
  header: RouteHeader,
  message1: Bytes,
  spoken: VersionRange = CURRENT_VERSIONS,
): Promise<Answer> {
  if (header.wing !== wing) {
    throw new HandshakeError("other-wing");
  }
  const theirs = ephemeralOf(message1, MESSAGE_1_SIZE);
  const noise = await Symmetric.start(prologue(wing, header), noiseSecret.public);
  await noise.mixHash(theirs);
  await noise.mixKey(await agree(noiseSecret.secret, theirs));
  const client = (await noise.open(message1.slice(KEY, 2 * KEY + TAG))) as ClientKey;
  // An agreement with a key of low order is known to everybody, and proves nothing.
  await noise.mixKey(await agree(noiseSecret.secret, client));
  await noise.open(message1.slice(2 * KEY + TAG));

  const chosen = bestCommon(spoken, header.versions);
  const answer = new Uint8Array(ANSWER);
  answer[0] = chosen === undefined ? NO_COMMON_VERSION : CHOSEN;
  answer.set(u16be(chosen ?? spoken.max), 1);
  const ephemeral = await generateAgreement();
  await noise.mixHash(ephemeral.public);
  await noise.mixKey(await agree(ephemeral.secret, theirs));
  await noise.mixKey(await agree(ephemeral.secret, client));
  const message2 = concat(ephemeral.public, await noise.seal(answer));
  const [receives, sends] = await noise.split();
  const session = new Session({ sends, receives }, noise.hash, chosen ?? spoken.max, client);
  return { message2, session, incompatible: chosen === undefined ? spoken.max : undefined };
}

/** Checks a message's size and takes the ephemeral key at its front, which is not sealed. */
function ephemeralOf(message: Bytes, size: number): Bytes {
  if (message.length !== size) {
    throw new HandshakeError("does-not-open");
  }
  const key = message.slice(0, KEY);
  checkX25519(key);
  return key;
}

/** What both ends believe about the route, each field with its length in front. */
export function prologue(wing: WingId, header: RouteHeader): Bytes {
  const { min, max } = header.versions;
  return layout("", utf8(PROLOGUE), utf8(SUITE), utf8(wing), header.nonce, concat(u16be(min), u16be(max)));
}

/** The symmetric state of the Noise specification, section 5.2. */
class Symmetric {
  #chaining: Bytes;
  #hash: Bytes;
  #key: CipherKey | undefined;

  private constructor(name: Bytes) {
    this.#chaining = name;
    this.#hash = name;
  }

  /** Section 7.5: IK, whose pre-message is the responder's static key. */
  static async start(prologue: Bytes, responder: Bytes): Promise<Symmetric> {
    // The name has 28 bytes; shorter ones than a hash are padded with zeros.
    const name = new Uint8Array(KEY);
    name.set(utf8(SUITE));
    const noise = new Symmetric(name);
    await noise.mixHash(prologue);
    await noise.mixHash(responder);
    return noise;
  }

  get hash(): Bytes {
    return this.#hash;
  }

  async mixHash(data: Uint8Array): Promise<void> {
    this.#hash = await hash(this.#hash, data);
  }

  /** Mixes an agreement in, and wipes it. */
  async mixKey(shared: Bytes): Promise<void> {
    const [chaining, key] = await hkdf(this.#chaining, shared);
    shared.fill(0);
    this.#chaining = chaining;
    this.#key = await cipherKey(key);
  }

  /** Takes the key: each one of this pattern seals or opens once, under counter 0. */
  #takeKey(): CipherKey {
    const key = this.#key;
    if (!key) {
      throw new TypeError("every key of the handshake is used once");
    }
    this.#key = undefined;
    return key;
  }

  async seal(plain: Bytes): Promise<Bytes> {
    const sealed = await seal(this.#takeKey(), 0n, plain, this.#hash);
    await this.mixHash(sealed);
    return sealed;
  }

  async open(sealed: Bytes): Promise<Bytes> {
    const plain = await open(this.#takeKey(), 0n, sealed, this.#hash);
    if (!plain) {
      throw new HandshakeError("does-not-open");
    }
    await this.mixHash(sealed);
    return plain;
  }

  /** Section 5.2: the initiator's sending key, then the responder's. */
  async split(): Promise<readonly [CipherKey, CipherKey]> {
    const [first, second] = await hkdf(this.#chaining, new Uint8Array());
    this.#chaining.fill(0);
    return [await cipherKey(first), await cipherKey(second)];
  }
}
