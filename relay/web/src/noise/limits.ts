// Every cap that both ends must share. The same numbers, with the same reasons, stand in
// the protocol's own list; the tests hold the two together.

/** Largest plaintext of one sealed record, in bytes: where AES-GCM's throughput flattens. */
export const MAX_RECORD_PLAINTEXT = 16_384;

/** Bytes that sealing adds to a record: the AES-GCM tag. */
export const RECORD_TAG = 16;

/** Largest sealed record on the wire, in bytes, without its length prefix. */
export const MAX_SEALED_RECORD = MAX_RECORD_PLAINTEXT + RECORD_TAG;

/** Most terminal bytes that one input, output or snapshot message carries: with 64 bytes left for what is around them it fills one record. */
export const MAX_CHUNK = MAX_RECORD_PLAINTEXT - 64;

/** Largest message after its parts are put together, in bytes. */
export const MAX_MESSAGE = 1 << 20;

/** Largest stream header, in bytes. Ids, a nonce and versions need under 64. */
export const MAX_STREAM_HEADER = 512;

/** Largest message on a control stream, in bytes. A token is the largest part. */
export const MAX_CONTROL_MESSAGE = 8 * 1_024;

/** Input that a client may have under way without an acknowledgement, in bytes: what an egg holds for each attachment. */
export const INPUT_WINDOW = 64 * 1_024;

/** Longest stretch of silence before an end sends a sealed ping, in milliseconds. */
export const PING_INTERVAL = 15_000;

/** A sealed session whose ping is unanswered for so many milliseconds is dead. */
export const PING_DEADLINE = 40_000;

/** A handshake that is not finished in so many milliseconds is dropped. */
export const HANDSHAKE_DEADLINE = 10_000;

/** A sender changes its key after this many records. */
export const REKEY_RECORDS = 2 ** 20;

/** A sender changes its key after this many sealed bytes. */
export const REKEY_BYTES = 2 ** 30;

/** A sender changes its key after so many milliseconds. */
export const REKEY_AGE = 60 * 60 * 1_000;

/** A receiver gives up on a sender that used one key for this many records. */
export const REKEY_RECORDS_MAX = 2 ** 21;

/** A receiver gives up on a sender that used one key for this many bytes. */
export const REKEY_BYTES_MAX = 2 ** 31;

/** Longest session name or wing label, in characters. */
export const MAX_NAME = 64;

/** The newest version of the sealed protocol that this build speaks. */
export const PROTOCOL_VERSION = 1;
