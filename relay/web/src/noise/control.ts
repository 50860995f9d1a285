// Messages on a link's control stream: the dialler says who it claims to be, the relay
// challenges, the dialler proves, the relay welcomes.

import { array, has, holds, names, type Of, option, struct, text, u16, u32, u64, unit, variants } from "./codec.ts";
import { DeviceKeyCodec, IdentityKeyCodec, InstanceIdCodec, SignatureCodec, WingIdCodec } from "./ids.ts";
import { NoiseKeyStatementCodec, VersionRangeCodec } from "./records.ts";

export const RoleCodec = variants({
  /** Opens routes. */
  Client: unit,
  /** Accepts routes to this wing. */
  Wing: holds(WingIdCodec),
});

/** What a link is for. */
export type Role = Of<typeof RoleCodec>;

export const ProofModeCodec = names("Exporter", "Nonce");

/** How a proof is bound to its connection: by a TLS exporter value, or by the nonces alone. */
export type ProofMode = Of<typeof ProofModeCodec>;

export const HelloCodec = struct({
  /** Control protocol versions offered. */
  versions: VersionRangeCodec,
  /** What the link is for. */
  role: RoleCodec,
  /** One start of the dialling process. */
  instance: InstanceIdCodec,
  /** Drawn by the dialler. */
  clientNonce: array(32),
  /** How the proof is bound to the connection. */
  mode: ProofModeCodec,
});

/** Who the dialler claims to be. */
export type Hello = Of<typeof HelloCodec>;

export const ProofCodec = struct({
  /** The access token; names the account and the device key. */
  token: text,
  /** The device that the token names. */
  device: DeviceKeyCodec,
  /** By the device key, over the bytes of `relayProof`. */
  deviceSignature: SignatureCodec,
  /** By the identity key, when the link is a wing's. */
  wing: option(
    struct({
      /** The key that the wing id is the fingerprint of. */
      identity: IdentityKeyCodec,
      /** By the identity key, over the same bytes. */
      signature: SignatureCodec,
      /** The certified key that answers handshakes. */
      statement: NoiseKeyStatementCodec,
    }),
  ),
});

/** Proves the dialler's keys. */
export type Proof = Of<typeof ProofCodec>;

export const ToRelayCodec = variants({
  /** Opens the control stream. */
  Hello: holds(HelloCodec),
  /** Answers the challenge. */
  Proof: holds(ProofCodec),
  /** Proves again, with a fresh token, over the same nonces. */
  Renew: holds(ProofCodec),
  /** Asks for a sign of life. */
  Ping: holds(u64),
  /** Answers a ping. */
  Pong: holds(u64),
});

/** From the dialler to the relay. */
export type ToRelay = Of<typeof ToRelayCodec>;

export const FromRelayCodec = variants({
  /** What the proof must cover: the version chosen from the offer, and the relay's nonce. */
  Challenge: has({ version: u16, relayNonce: array(32) }),
  /** The link may be used, for so many routes at once; the next proof is due in so many seconds. */
  Welcome: has({ maxRoutes: u16, expiresIn: u32 }),
  /** The new proof was accepted; it holds for so many seconds. */
  Renewed: has({ expiresIn: u32 }),
  /** The relay will close this link; connect again after a random time up to this, in milliseconds. */
  GoAway: has({ spreadMs: u32 }),
  /** Asks for a sign of life. */
  Ping: holds(u64),
  /** Answers a ping. */
  Pong: holds(u64),
});

/** From the relay to the dialler. */
export type FromRelay = Of<typeof FromRelayCodec>;
