// Messages as bytes: the postcard format, whose rules for what is used here are few.
//
// Unsigned numbers beyond a byte are varints of seven bits each, least first; signed ones
// are zigzagged before. Bytes, texts and lists have their length in front as a varint, an
// option a byte 0 or 1, an enum its variant's number. Structs are their fields in order.
// A codec is one value with both directions, so that they cannot drift apart.
//
// What is too large, cut short or followed by rubbish is an error, and no length is
// believed before that many bytes are there.

import { type Bytes, concat, utf8 } from "./bytes.ts";

/** Why bytes are not the message that they should be. The peer is to blame. */
export class DecodeError extends Error {
  override readonly name = "DecodeError";
  /** `too-large` is over the cap of its kind, `trailing` is followed by other bytes. */
  readonly reason: "too-large" | "malformed" | "trailing";

  constructor(reason: "too-large" | "malformed" | "trailing") {
    super(
      {
        "too-large": "a message is over its size limit",
        malformed: "a message does not parse",
        trailing: "bytes follow the end of a message",
      }[reason],
    );
    this.reason = reason;
  }
}

/** A value that cannot be written: this end is to blame. */
export class EncodeError extends Error {
  override readonly name = "EncodeError";
}

/** Both directions of a kind of value. */
export interface Codec<T> {
  /** Appends a value. */
  write(out: Writer, value: T): void;
  /** Takes a value off the front. */
  read(input: Reader): T;
}

/** The type of the values of a codec. */
export type Of<C> = C extends Codec<infer T> ? T : never;

// Any codec at all: the type parameter stands in both directions, so none is wide enough.
type AnyCodec = Codec<any>;

/** Encodes a value of at most `max` bytes. Throws {@link EncodeError} when it is longer. */
export function encode<T>(codec: Codec<T>, value: T, max: number): Bytes {
  const out = new Writer();
  codec.write(out, value);
  const bytes = out.finish();
  if (bytes.length > max) {
    throw new EncodeError(`a message of ${bytes.length} bytes is over the limit of ${max}`);
  }
  return bytes;
}

/** Decodes exactly one value from at most `max` bytes. Throws {@link DecodeError}. */
export function decode<T>(codec: Codec<T>, bytes: Uint8Array, max: number): T {
  const { value, rest } = decodePrefix(codec, bytes, max);
  if (rest.length > 0) {
    throw new DecodeError("trailing");
  }
  return value;
}

/** Decodes one value that only zero bytes may follow: a padded record. Throws {@link DecodeError}. */
export function decodePadded<T>(codec: Codec<T>, bytes: Uint8Array, max: number): T {
  const { value, rest } = decodePrefix(codec, bytes, max);
  if (rest.some((byte) => byte !== 0)) {
    throw new DecodeError("trailing");
  }
  return value;
}

function decodePrefix<T>(codec: Codec<T>, bytes: Uint8Array, max: number): { value: T; rest: Uint8Array } {
  if (bytes.length > max) {
    throw new DecodeError("too-large");
  }
  const input = new Reader(bytes);
  const value = codec.read(input);
  return { value, rest: input.rest() };
}

/** Collects the bytes of a message. */
export class Writer {
  #parts: Uint8Array[] = [];

  /** Appends bytes as they are. */
  raw(bytes: Uint8Array): void {
    this.#parts.push(bytes);
  }

  /** Appends a varint of at most `bits` bits. */
  varint(value: bigint, bits: number): void {
    if (value < 0n || value >> BigInt(bits) !== 0n) {
      throw new EncodeError(`${value} is not a number of ${bits} bits`);
    }
    const bytes: number[] = [];
    let rest = value;
    while (rest >= 0x80n) {
      bytes.push(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    bytes.push(Number(rest));
    this.raw(Uint8Array.from(bytes));
  }

  /** All of it. */
  finish(): Bytes {
    return concat(...this.#parts);
  }
}

/** Takes values off the front of a message. */
export class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** A view of the next so many bytes. */
  raw(length: number): Uint8Array {
    if (length > this.#bytes.length - this.#at) {
      throw new DecodeError("malformed");
    }
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** The next byte. */
  byte(): number {
    return this.raw(1)[0] as number;
  }

  /** A varint of at most `bits` bits, in no more bytes than those need. */
  varint(bits: number): bigint {
    const most = Math.ceil(bits / 7);
    let value = 0n;
    for (let at = 0; at < most; at++) {
      const byte = this.byte();
      value |= BigInt(byte & 0x7f) << BigInt(7 * at);
      if (byte < 0x80) {
        if (value >> BigInt(bits) !== 0n) {
          break;
        }
        return value;
      }
    }
    throw new DecodeError("malformed");
  }

  /** A length, which is never more than what is left. */
  length(): number {
    const length = this.varint(64);
    if (length > BigInt(this.#bytes.length - this.#at)) {
      throw new DecodeError("malformed");
    }
    return Number(length);
  }

  /** What was not taken. */
  rest(): Uint8Array {
    return this.#bytes.subarray(this.#at);
  }
}

function small(bits: 16 | 32): Codec<number> {
  return {
    write: (out, value) => {
      if (!Number.isInteger(value)) {
        throw new EncodeError(`${value} is not a whole number`);
      }
      out.varint(BigInt(value), bits);
    },
    read: (input) => Number(input.varint(bits)),
  };
}

/** A number below 2^16. */
export const u16: Codec<number> = small(16);

/** A number below 2^32. */
export const u32: Codec<number> = small(32);

/** A number below 2^64. */
export const u64: Codec<bigint> = {
  write: (out, value) => out.varint(value, 64),
  read: (input) => input.varint(64),
};

/** A number of 32 bits with a sign. */
export const i32: Codec<number> = {
  write: (out, value) => {
    if ((value | 0) !== value) {
      throw new EncodeError(`${value} is not a whole number of 32 bits`);
    }
    out.varint(BigInt(((value << 1) ^ (value >> 31)) >>> 0), 32);
  },
  read: (input) => {
    const zigzag = Number(input.varint(32));
    return (zigzag >>> 1) ^ -(zigzag & 1);
  },
};

/** Yes or no. */
export const bool: Codec<boolean> = {
  write: (out, value) => out.raw(Uint8Array.of(value ? 1 : 0)),
  read: (input) => {
    const byte = input.byte();
    if (byte > 1) {
      throw new DecodeError("malformed");
    }
    return byte === 1;
  },
};

/** Bytes of any length. */
export const bytes: Codec<Bytes> = {
  write: (out, value) => {
    out.varint(BigInt(value.length), 64);
    out.raw(value);
  },
  read: (input) => input.raw(input.length()).slice(),
};

/** Exactly so many bytes, without a length in front. */
export function array(length: number): Codec<Bytes> {
  return {
    write: (out, value) => {
      if (value.length !== length) {
        throw new EncodeError(`${value.length} bytes stand where ${length} must`);
      }
      out.raw(value);
    },
    read: (input) => input.raw(length).slice(),
  };
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A text. */
export const text: Codec<string> = {
  write: (out, value) => bytes.write(out, utf8(value)),
  read: (input) => {
    const encoded = input.raw(input.length());
    try {
      return UTF8.decode(encoded);
    } catch {
      throw new DecodeError("malformed");
    }
  },
};

/** A value that another one is checked and made from; `parse` gives nothing for a bad one. */
export function checked<Wire, T extends Wire>(wire: Codec<Wire>, parse: (value: Wire) => T | undefined): Codec<T> {
  return {
    write: (out, value) => wire.write(out, value),
    read: (input) => {
      const parsed = parse(wire.read(input));
      if (parsed === undefined) {
        throw new DecodeError("malformed");
      }
      return parsed;
    },
  };
}

/** A value, or none: `null`. */
export function option<T>(codec: Codec<T>): Codec<T | null> {
  return {
    write: (out, value) => {
      bool.write(out, value !== null);
      if (value !== null) {
        codec.write(out, value);
      }
    },
    read: (input) => (bool.read(input) ? codec.read(input) : null),
  };
}

/** Any number of values. */
export function list<T>(codec: Codec<T>): Codec<T[]> {
  return {
    write: (out, values) => {
      out.varint(BigInt(values.length), 64);
      for (const value of values) {
        codec.write(out, value);
      }
    },
    read: (input) => {
      // Every value here has a byte at least, so a length over what is left is a lie.
      const length = input.length();
      const values: T[] = [];
      for (let at = 0; at < length; at++) {
        values.push(codec.read(input));
      }
      return values;
    },
  };
}

/** Two values. */
export function pair<A, B>(first: Codec<A>, second: Codec<B>): Codec<readonly [A, B]> {
  return {
    write: (out, [a, b]) => {
      first.write(out, a);
      second.write(out, b);
    },
    read: (input) => [first.read(input), second.read(input)],
  };
}

type Fields = Readonly<Record<string, AnyCodec>>;
type FieldsOf<F extends Fields> = { -readonly [K in keyof F]: Of<F[K]> };

/** Fields, in the order in which they are named. */
export function struct<F extends Fields>(fields: F): Codec<FieldsOf<F>> {
  const all = Object.entries(fields);
  return {
    write: (out, value) => {
      for (const [name, codec] of all) {
        codec.write(out, value[name]);
      }
    },
    read: (input) => {
      const value: Record<string, unknown> = {};
      for (const [name, codec] of all) {
        value[name] = codec.read(input);
      }
      return value as FieldsOf<F>;
    },
  };
}

/** A variant that holds nothing: `{ type: "Name" }`. */
export const unit = { shape: "unit" } as const;

/** A variant that holds one value: `{ type: "Name", value }`. */
export function holds<T>(codec: Codec<T>): { readonly shape: "value"; readonly codec: Codec<T> } {
  return { shape: "value", codec };
}

/** A variant with fields: `{ type: "Name", ... }`. */
export function has<F extends Fields>(fields: F): { readonly shape: "fields"; readonly codec: Codec<FieldsOf<F>> } {
  return { shape: "fields", codec: struct(fields) };
}

type Variant =
  | typeof unit
  | { readonly shape: "value"; readonly codec: AnyCodec }
  | { readonly shape: "fields"; readonly codec: AnyCodec };

type VariantOf<Name, V> = V extends { readonly shape: "value"; readonly codec: Codec<infer T> }
  ? { readonly type: Name; readonly value: T }
  : V extends { readonly shape: "fields"; readonly codec: Codec<infer T> }
    ? { readonly type: Name } & Readonly<T>
    : { readonly type: Name };

/**
 * One of several variants, numbered in the order in which they are named. New ones are
 * only ever appended.
 */
export function variants<V extends Readonly<Record<string, Variant>>>(
  all: V,
): Codec<{ [K in keyof V & string]: VariantOf<K, V[K]> }[keyof V & string]> {
  type Value = { [K in keyof V & string]: VariantOf<K, V[K]> }[keyof V & string];
  const names = Object.keys(all);
  return {
    write: (out, value) => {
      const variant = all[value.type] as Variant;
      out.varint(BigInt(names.indexOf(value.type)), 32);
      if (variant.shape === "value") {
        variant.codec.write(out, (value as { readonly value: unknown }).value);
      } else if (variant.shape === "fields") {
        variant.codec.write(out, value);
      }
    },
    read: (input) => {
      const type = names[Number(input.varint(32))];
      if (type === undefined) {
        throw new DecodeError("malformed");
      }
      const variant = all[type] as Variant;
      switch (variant.shape) {
        case "unit":
          return { type } as Value;
        case "value":
          return { type, value: variant.codec.read(input) } as Value;
        case "fields":
          return { type, ...variant.codec.read(input) } as Value;
      }
    },
  };
}

/** One of several names, numbered in order. New ones are only ever appended. */
export function names<const N extends readonly string[]>(...all: N): Codec<N[number]> {
  return {
    write: (out, value) => out.varint(BigInt(all.indexOf(value)), 32),
    read: (input) => {
      const name = all[Number(input.varint(32))];
      if (name === undefined) {
        throw new DecodeError("malformed");
      }
      return name;
    },
  };
}
