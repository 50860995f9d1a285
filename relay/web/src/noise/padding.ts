// How long a record's plaintext is made, so that its length says little.

import { MAX_RECORD_PLAINTEXT } from "./limits.ts";

/**
 * Plaintext sizes of padded records, in bytes. The least holds a keystroke and its
 * acknowledgement, the largest is a full record.
 */
const BUCKETS = [64, 256, 1_024, 4_096, MAX_RECORD_PLAINTEXT] as const;

/** How records are padded. Each sender decides for its own direction; `buckets` is the default. */
export type Padding = "off" | "buckets";

/** The plaintext size of a record that holds so many bytes, which are at most a full record's. */
export function padded(padding: Padding, used: number): number {
  if (padding === "off") {
    return used;
  }
  return BUCKETS.find((bucket) => used <= bucket) ?? MAX_RECORD_PLAINTEXT;
}
