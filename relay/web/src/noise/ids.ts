// Ids, names and keys as they travel, each a type of its own, parsed once at the edge.

import { type Brand, type Bytes, base32, concat, fromBase32, grouped, utf8 } from "./bytes.ts";
import { bytes, type Codec, checked, text } from "./codec.ts";
import { MAX_NAME } from "./limits.ts";

/**
 * The durable id of a wing: the first 26 characters of lower-case base32 of
 * SHA-256("wingthing wing id v1" || Ed25519 public key). Nobody can offer another key
 * under the same id.
 */
export type WingId = Brand<string, "WingId">;

/** The immutable id of a session, 12 characters of lower-case base32. */
export type SessionId = Brand<string, "SessionId">;

/** What a wing calls itself. A label is a claim; only an id is an identity. */
export type WingLabel = Brand<string, "WingLabel">;

/** A wing's Ed25519 identity key. */
export type IdentityKey = Brand<Bytes, "IdentityKey">;

/** A wing's X25519 key that answers handshakes. */
export type NoiseKey = Brand<Bytes, "NoiseKey">;

/** A client's X25519 key: what a wing admits. */
export type ClientKey = Brand<Bytes, "ClientKey">;

/** A device's Ed25519 key: what a relay knows a device by. */
export type DeviceKey = Brand<Bytes, "DeviceKey">;

/** An Ed25519 signature. */
export type Signature = Brand<Bytes, "Signature">;

/** Names one route; drawn by the client and authenticated by both ends. */
export type RouteNonce = Brand<Bytes, "RouteNonce">;

/** One start of a dialling process, or one load of a page. */
export type InstanceId = Brand<Bytes, "InstanceId">;

/** One terminal, tab or process that attached to a session, drawn at random. */
export type AttachmentId = Brand<Bytes, "AttachmentId">;

/** One life of an egg process: offsets mean something only in it. */
export type EggEpoch = Brand<Bytes, "EggEpoch">;

/** A roost by its origin and its grant key: a grant of one means nothing at another. */
export type RoostId = Brand<Bytes, "RoostId">;

/** A roost's Ed25519 key that signs account grants. */
export type GrantKey = Brand<Bytes, "GrantKey">;

/** Names one acting request, so that a repeated one is done once. */
export type RequestId = Brand<Bytes, "RequestId">;

const WING_ID = /^[a-z2-7]{26}$/;
const SESSION_ID = /^[a-z2-7]{12}$/;
const NAME = new RegExp(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,${MAX_NAME - 1}}$`);

/** Reads a wing id; nothing for any other text. */
export function wingId(text: string): WingId | undefined {
  return WING_ID.test(text) ? (text as WingId) : undefined;
}

/** Reads a session id; nothing for any other text. */
export function sessionId(text: string): SessionId | undefined {
  return SESSION_ID.test(text) ? (text as SessionId) : undefined;
}

/** Reads a wing id as people type and paste it: in either case, in groups or not. */
export function wingIdFromTyped(text: string): WingId | undefined {
  // Longer than an id with a dash after each character is none.
  return text.length > 2 * 26 || /[^A-Za-z2-7-]/.test(text)
    ? undefined
    : wingId(text.replaceAll("-", "").toLowerCase());
}

/** Reads a wing label; nothing for other texts, among them all that people may take for an id. */
export function wingLabel(text: string): WingLabel | undefined {
  return NAME.test(text) && !wingIdFromTyped(text) ? (text as WingLabel) : undefined;
}

/** Takes bytes as a value of a fixed size; nothing for another size. */
export function fixed<T extends Bytes>(length: number, value: Uint8Array): T | undefined {
  return value.length === length ? (value.slice() as T) : undefined;
}

/** Reads a value of a fixed size from base32, as files hold it; nothing for any other text. */
export function fixedFromText<T extends Bytes>(length: number, text: string): T | undefined {
  const value = fromBase32(text);
  return value && fixed<T>(length, value);
}

const LABEL_WING_ID = utf8("wingthing wing id v1");

/** The id of the wing with this identity key. */
export async function wingIdOf(key: IdentityKey): Promise<WingId> {
  const digest = await globalThis.crypto.subtle.digest("SHA-256", concat(LABEL_WING_ID, key));
  return base32(new Uint8Array(digest)).slice(0, 26) as WingId;
}

/** The id of the roost at this origin with this grant key. */
export async function roostIdOf(origin: string, key: GrantKey): Promise<RoostId> {
  const digest = await globalThis.crypto.subtle.digest("SHA-256", concat(utf8("wingthing roost id v1"), key, utf8(origin)));
  return new Uint8Array(digest) as Bytes as RoostId;
}

/** A wing's id as people compare it: whole, in groups. */
export function fingerprintOfWing(wing: WingId): string {
  return grouped(wing);
}

/** A noise key as people compare it: whole, in groups. */
export function fingerprintOfNoiseKey(key: NoiseKey): string {
  return grouped(base32(key));
}

// How they travel. Values of a fixed size have their length in front all the same.

function value<T extends Bytes>(length: number): Codec<T> {
  return checked<Bytes, T>(bytes, (read) => fixed<T>(length, read));
}

export const WingIdCodec: Codec<WingId> = checked(text, wingId);
export const SessionIdCodec: Codec<SessionId> = checked(text, sessionId);
export const WingLabelCodec: Codec<WingLabel> = checked(text, wingLabel);
export const IdentityKeyCodec = value<IdentityKey>(32);
export const NoiseKeyCodec = value<NoiseKey>(32);
export const ClientKeyCodec = value<ClientKey>(32);
export const DeviceKeyCodec = value<DeviceKey>(32);
export const SignatureCodec = value<Signature>(64);
export const RouteNonceCodec = value<RouteNonce>(16);
export const InstanceIdCodec = value<InstanceId>(16);
export const AttachmentIdCodec = value<AttachmentId>(16);
export const EggEpochCodec = value<EggEpoch>(16);
export const RoostIdCodec = value<RoostId>(32);
export const RequestIdCodec = value<RequestId>(16);
