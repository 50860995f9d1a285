// What one sealed record holds, what stands in front of a route, and a wing's statement.

import { array, bytes, holds, type Of, struct, u16, u64, unit, variants } from "./codec.ts";
import { IdentityKeyCodec, NoiseKeyCodec, RouteNonceCodec, SignatureCodec, WingIdCodec } from "./ids.ts";
import { PROTOCOL_VERSION } from "./limits.ts";

export const CloseCodec = variants({
  /** All is done. */
  Done: unit,
  /** The wing does not admit this client. */
  NotAdmitted: unit,
  /** No common version; the sender speaks this one at the newest. */
  Version: holds(u16),
  /** A newer attachment took the place of this one. */
  Replaced: unit,
  /** The sender is shutting down and will be back. */
  Restarting: unit,
  /** The other end broke the protocol. */
  Protocol: unit,
});

/** Why a session ended, as its sender says. */
export type Close = Of<typeof CloseCodec>;

export const RecordCodec = variants({
  /** A whole message, or the last part of one. */
  Message: holds(bytes),
  /** A part of a message that the next record continues. */
  Part: holds(bytes),
  /** Asks the other end for a sign of life. */
  Ping: holds(array(16)),
  /** Answers a ping with its own bytes. */
  Pong: holds(array(16)),
  /** The last record under this key; the sender's next one uses the next key. */
  Rekey: unit,
  /** The end of the session. A stream that ends without one was cut. */
  Close: holds(CloseCodec),
  /** Nothing, in place of a key press, so that a watcher cannot count key presses. A wing answers as it would answer one, with another of these; a client does not. */
  Cover: unit,
});

/** The plaintext of a record, before its padding of zeros. */
export type SealedRecord = Of<typeof RecordCodec>;

export const VersionRangeCodec = struct({
  /** Oldest version spoken. */
  min: u16,
  /** Newest version spoken. */
  max: u16,
});

/** Protocol versions that an end offers, both ends included. */
export type VersionRange = Of<typeof VersionRangeCodec>;

/** What this build speaks. */
export const CURRENT_VERSIONS: VersionRange = { min: 1, max: PROTOCOL_VERSION };

/** The newest version that both ends speak, if there is one. */
export function bestCommon(ours: VersionRange, theirs: VersionRange): number | undefined {
  const best = Math.min(ours.max, theirs.max);
  return best >= ours.min && best >= theirs.min ? best : undefined;
}

export const RouteHeaderCodec = struct({
  /** The wing to reach. */
  wing: WingIdCodec,
  /** Drawn by the client; both ends bind it into the handshake. */
  nonce: RouteNonceCodec,
  /** Session protocol versions that the client offers. */
  versions: VersionRangeCodec,
});

/** Where a route goes. What it is for stands inside the seal. */
export type RouteHeader = Of<typeof RouteHeaderCodec>;

export const StreamHeaderCodec = variants({
  /** A route from a client to a wing; sealed records follow. */
  Route: holds(RouteHeaderCodec),
});

/** Opens a stream. The relay reads it, acts on it, and passes it on unchanged. */
export type StreamHeader = Of<typeof StreamHeaderCodec>;

export const NoiseKeyStatementCodec = struct({
  /** The wing. */
  wing: WingIdCodec,
  /** Its key for handshakes. */
  key: NoiseKeyCodec,
  /** Grows with each rotation; a lower one than seen is refused. */
  seq: u64,
  /** By the identity key, over the bytes of `noiseKeyStatement`. */
  signature: SignatureCodec,
});

/** A wing identity's word on which X25519 key answers handshakes. */
export type NoiseKeyStatement = Of<typeof NoiseKeyStatementCodec>;

export const SuccessorStatementCodec = struct({
  /** The identity that steps down. */
  old: IdentityKeyCodec,
  /** The wing that takes its place. */
  new: WingIdCodec,
  /** By the old identity key, over the bytes of `successorBytes`. */
  signature: SignatureCodec,
});

/** A wing identity's word on the identity that takes its place. */
export type SuccessorStatement = Of<typeof SuccessorStatementCodec>;

export const RevocationStatementCodec = struct({
  /** The identity that is given up. */
  identity: IdentityKeyCodec,
  /** By this key, over the bytes of `revocationBytes`. */
  signature: SignatureCodec,
});

/** A wing identity's word that it is not to be trusted any more. It is final. */
export type RevocationStatement = Of<typeof RevocationStatementCodec>;
