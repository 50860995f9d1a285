// The exact bytes that are signed or hashed, each kind under a label of its own.
//
// A layout is the label followed by fields, each with its length in front (two bytes,
// big-endian), so no two different values share their bytes.

import type { Grant } from "./access.ts";
import { type Bytes, concat, u16be, u64be, utf8 } from "./bytes.ts";
import type { ProofMode, Role } from "./control.ts";
import type { ClientKey, DeviceKey, InstanceId, NoiseKey, WingId } from "./ids.ts";

/** A label and fields. Every field is bounded far below 65,536 bytes. */
export function layout(label: string, ...fields: readonly Uint8Array[]): Bytes {
  return concat(utf8(label), ...fields.flatMap((field) => [u16be(field.length), field]));
}

/** The bytes of a noise key statement: what a wing identity signs. */
export function noiseKeyStatement(wing: WingId, key: NoiseKey, seq: bigint): Bytes {
  return layout("wingthing noise key v1", utf8(wing), key, u64be(seq));
}

/** The bytes with which a device vouches for its client key at login. */
export function clientKeyVouch(device: DeviceKey, client: ClientKey): Bytes {
  return layout("wingthing client key v1", device, client);
}

/** What a dialler proves to a relay, field by field. */
export interface RelayProof {
  /** How the proof is bound to the connection. A page has no TLS exporter, so its is `Nonce`. */
  readonly mode: ProofMode;
  /** What the link is for. */
  readonly role: Role;
  /** The roost's origin, from the dialler's own config. */
  readonly origin: string;
  /** The relay's nonce, 32 bytes. */
  readonly relayNonce: Uint8Array;
  /** The dialler's nonce, 32 bytes. */
  readonly clientNonce: Uint8Array;
  /** The TLS exporter value, or nothing in nonce mode. */
  readonly exporter: Uint8Array;
  /** SHA-256 of the token. */
  readonly tokenHash: Uint8Array;
  /** The dialling process. */
  readonly instance: InstanceId;
}

/** The bytes that device and identity key sign to prove themselves to a relay. */
export function relayProof(proof: RelayProof): Bytes {
  return layout(
    "wingthing relay proof v1",
    utf8(proof.mode === "Exporter" ? "exporter" : "nonce"),
    utf8(proof.role.type === "Wing" ? "wing" : "client"),
    utf8(proof.origin),
    proof.relayNonce,
    proof.clientNonce,
    proof.exporter,
    proof.tokenHash,
    utf8(proof.role.type === "Wing" ? proof.role.value : ""),
    proof.instance,
  );
}

/** The bytes with which an identity names its successor. */
export function successorBytes(old: WingId, successor: WingId): Bytes {
  return layout("wingthing successor v1", utf8(old), utf8(successor));
}

/** The bytes with which an identity ends itself. */
export function revocationBytes(wing: WingId): Bytes {
  return layout("wingthing revocation v1", utf8(wing));
}

/** The bytes of a grant: what a roost signs. */
export function grantBytes(grant: Grant): Bytes {
  return layout(
    "wingthing grant v1",
    grant.roost,
    utf8(grant.account),
    grant.device,
    grant.client,
    utf8(grant.wing),
    // No organisation has an empty name, so none and an empty one need not be told apart.
    utf8(grant.org ?? ""),
    utf8(grant.role.toLowerCase()),
    u64be(grant.epoch),
    u64be(grant.issuedAt),
    u64be(grant.expiresAt),
  );
}

// Each part of the following has one size, so none needs a length.

/** What the secret of an invite authenticates: this client, in the session with this hash. */
export function inviteBytes(handshakeHash: Bytes, client: ClientKey): Bytes {
  return concat(utf8("wingthing invite v1"), handshakeHash, client);
}

/** What a wing's commitment is the SHA-256 of, before digits are compared. */
export function sasCommitmentBytes(handshakeHash: Bytes, wingNonce: Bytes): Bytes {
  return concat(utf8("wingthing sas commit v1"), handshakeHash, wingNonce);
}

/** What the digits are taken from the SHA-256 of. */
export function sasBytes(handshakeHash: Bytes, wingNonce: Bytes, clientNonce: Bytes): Bytes {
  return concat(utf8("wingthing sas v1"), handshakeHash, wingNonce, clientNonce);
}

/**
 * What a passkey's challenge is the SHA-256 of: this act, in this session, this once. `act` is
 * its encoding; it has its length in front, in four bytes, big-endian.
 */
export function passkeyBytes(handshakeHash: Bytes, nonce: Bytes, act: Bytes): Bytes {
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, act.length);
  return concat(utf8("wingthing passkey v1"), handshakeHash, nonce, length, act);
}
