// The sealed session in the browser: a second implementation of what `wt-crypto` and
// `wt-protocol` define, on the platform's own cryptography. `docs/ARCHITECTURE.md` says how the
// parts fit together; the golden vectors of both hold them to the same bytes.

export * from "./access.ts";
export * from "./control.ts";
export { HandshakeError, Initiator, MESSAGE_1_SIZE, MESSAGE_2_SIZE, respond, SUITE } from "./handshake.ts";
export * from "./ids.ts";
export {
  agreementPair,
  type ClientSecret,
  type DeviceSecret,
  fromPinned,
  generateAgreement,
  generateDevice,
  KeyError,
  type NoiseSecret,
  proveDevice,
  StatementError,
  type VerifiedWing,
  verifyRevocation,
  verifyStatement,
  verifySuccessor,
  vouchFor,
} from "./keys.ts";
export { Liveness, uptime } from "./liveness.ts";
export * from "./messages.ts";
export type { Padding } from "./padding.ts";
export * from "./pin_store.ts";
export * from "./pins.ts";
export * from "./records.ts";
export * from "./resumption.ts";
export * from "./session.ts";
export * from "./signed.ts";
export { accept, type ByteStream, connect, SealedEnd, type SealedStream } from "./stream.ts";
