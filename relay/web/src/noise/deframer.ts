// Frames in a byte stream: each has its length in front, two bytes, big-endian.

import { type Bytes, concat, u16be } from "./bytes.ts";

/** A byte stream is not a row of frames. The peer is to blame, and nothing more can be read. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

/** Takes frames out of a byte stream, whatever way it was cut. */
export class Deframer {
  readonly #max: number;
  #held: Bytes = new Uint8Array();

  /** For frames of 1 to `max` bytes. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Adds bytes as they came. Take all frames before adding more. */
  extend(bytes: Uint8Array): void {
    this.#held = concat(this.#held, bytes);
  }

  /**
   * The next whole frame without its length, if all of it has come. Throws
   * {@link FrameError} for one that is empty or over the cap, before its bytes come.
   */
  next(): Bytes | undefined {
    const [high, low] = this.#held;
    if (high === undefined || low === undefined) {
      return undefined;
    }
    const size = (high << 8) | low;
    if (size === 0) {
      throw new FrameError("a frame is empty");
    }
    if (size > this.#max) {
      throw new FrameError(`a frame of ${size} bytes is over the limit of ${this.#max}`);
    }
    if (this.#held.length < 2 + size) {
      return undefined;
    }
    const frame = this.#held.slice(2, 2 + size);
    this.#held = this.#held.subarray(2 + size);
    return frame;
  }

  /** Whether the stream may end here: no frame is half there. */
  get isBetweenFrames(): boolean {
    return this.#held.length === 0;
  }
}

/** Puts the length in front of a payload of 1 to 65,535 bytes. */
export function frame(payload: Uint8Array): Bytes {
  return concat(u16be(payload.length), payload);
}
