// AES-256-GCM, SHA-256 and HMAC as the Noise specification uses them, on WebCrypto.

import { type Bytes, concat } from "./bytes.ts";

const { subtle } = globalThis.crypto;

/** Bytes of a key, and of a hash. */
export const KEY = 32;

/** Bytes of a tag. */
export const TAG = 16;

/** The counter that is kept for rekeys, 2^64 - 1. */
const REKEY_COUNTER = 2n ** 64n - 1n;

/** A key that seals or opens, not extractable. */
export type CipherKey = CryptoKey;

/** Takes the bytes of a key, and wipes them. */
export async function cipherKey(bytes: Bytes): Promise<CipherKey> {
  const key = await subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
  bytes.fill(0);
  return key;
}

/** Section 12.4: four zero bytes, then the counter, big-endian. */
function parameters(counter: bigint, data: Bytes): AesGcmParams {
  const iv = new Uint8Array(12);
  new DataView(iv.buffer).setBigUint64(4, counter);
  return { name: "AES-GCM", iv, additionalData: data, tagLength: 8 * TAG };
}

const NO_DATA: Bytes = new Uint8Array();

/** Seals. No counter may be used twice with one key. */
export async function seal(key: CipherKey, counter: bigint, plain: Bytes, data = NO_DATA): Promise<Bytes> {
  return new Uint8Array(await subtle.encrypt(parameters(counter, data), key, plain));
}

/** Opens; nothing when the bytes are not what was sealed. */
export async function open(
  key: CipherKey,
  counter: bigint,
  sealed: Bytes,
  data = NO_DATA,
): Promise<Bytes | undefined> {
  if (sealed.length < TAG) {
    return undefined;
  }
  try {
    return new Uint8Array(await subtle.decrypt(parameters(counter, data), key, sealed));
  } catch {
    return undefined;
  }
}

/** Section 4.2: the next key is what this one seals under the last counter, without the tag. */
export async function nextKey(key: CipherKey): Promise<CipherKey> {
  const sealed = await seal(key, REKEY_COUNTER, new Uint8Array(KEY));
  const next = await cipherKey(sealed.slice(0, KEY));
  sealed.fill(0);
  return next;
}

/** SHA-256 over parts that follow each other. */
export async function hash(...parts: readonly Uint8Array[]): Promise<Bytes> {
  return new Uint8Array(await subtle.digest("SHA-256", concat(...parts)));
}

/** Section 4.3, with two outputs. */
export async function hkdf(chaining: Bytes, input: Bytes): Promise<readonly [Bytes, Bytes]> {
  const temporary = await hmac(chaining, input);
  const first = await hmac(temporary, Uint8Array.of(1));
  const second = await hmac(temporary, concat(first, Uint8Array.of(2)));
  temporary.fill(0);
  return [first, second];
}

async function hmac(key: Bytes, data: Bytes): Promise<Bytes> {
  const hmacKey = await subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", hmacKey, data));
}
