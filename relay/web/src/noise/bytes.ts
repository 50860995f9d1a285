// Bytes: joining, comparing, and the texts that people see of them.

/** Bytes in memory of their own, as WebCrypto takes and gives them. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** A type that is told from others of the same shape by the compiler alone. */
export type Brand<T, Name extends string> = T & { readonly __brand: Name };

const ENCODER = new TextEncoder();

/** The UTF-8 bytes of a text. */
export function utf8(text: string): Bytes {
  return ENCODER.encode(text) as Bytes;
}

/** Joins byte strings into a new one. */
export function concat(...parts: readonly Uint8Array[]): Bytes {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const joined = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Whether two public byte strings are the same. Not for secrets: it stops early. */
export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** A number below 65,536, big-endian. */
export function u16be(value: number): Bytes {
  return Uint8Array.of(value >>> 8, value & 0xff);
}

/** A number below 2^64, big-endian. */
export function u64be(value: bigint): Bytes {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value);
  return bytes;
}

/** Random bytes of the platform's generator. */
export function random(length: number): Bytes {
  return globalThis.crypto.getRandomValues(new Uint8Array(length));
}

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** Lower-case base32 (RFC 4648) without padding. */
export function base32(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += BASE32.charAt((held >>> bits) & 31);
    }
    held &= 31;
  }
  return bits > 0 ? text + BASE32.charAt((held << (5 - bits)) & 31) : text;
}

/**
 * Reads what {@link base32} writes, in either case. Nothing for other characters, for a
 * length that no bytes have, and for bits after the last byte that are not zero.
 */
export function fromBase32(text: string): Bytes | undefined {
  const size = Math.floor((text.length * 5) / 8);
  if (Math.ceil((size * 8) / 5) !== text.length) {
    return undefined;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  let bits = 0;
  let held = 0;
  for (const character of text) {
    // ASCII alone: the lower case of some other letters is an ASCII one.
    const value = /[A-Z]/.test(character)
      ? BASE32.indexOf(character.toLowerCase())
      : BASE32.indexOf(character);
    if (value < 0) {
      return undefined;
    }
    held = (held << 5) | value;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes[at++] = held >>> bits;
      held &= (1 << bits) - 1;
    }
  }
  return held === 0 ? bytes : undefined;
}

/** A text in groups of four, as people compare it: `abcd-efgh-...`. */
export function grouped(text: string): string {
  return text.match(/.{1,4}/gs)?.join("-") ?? "";
}
