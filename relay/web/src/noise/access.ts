// Who may enter a wing: what a client and a wing say about that, inside the seal.
//
// A client that is on the wing's list may come with its request at once. Any other says first
// who it is and by what it wants to come in. The wing alone decides. Times are milliseconds
// since the Unix epoch, but those of a grant, which are seconds.

import {
  array,
  bool,
  bytes,
  has,
  holds,
  list,
  names,
  type Of,
  option,
  pair,
  struct,
  text,
  u32,
  u64,
  unit,
  variants,
} from "./codec.ts";
import { ClientKeyCodec, DeviceKeyCodec, RoostIdCodec, SignatureCodec, WingIdCodec } from "./ids.ts";

export const ClientRoleCodec = names("Observer", "Operator", "Owner");

/** What a client may do. Each one may do what those before it may. */
export type ClientRole = Of<typeof ClientRoleCodec>;

export const SourceCodec = names("Local", "Invite", "Passkey", "Grant");

/** How a client came to be on the list. */
export type Source = Of<typeof SourceCodec>;

export const AdmissionModeCodec = names("Approve", "Relay", "Locked");

/** How a wing decides about clients. */
export type AdmissionMode = Of<typeof AdmissionModeCodec>;

export const ClientKindCodec = names("Cli", "Browser", "RelayPage");

/** Where a client's program came from: `Browser` is a page that the user's own machine served, `RelayPage` one that a relay did. */
export type ClientKind = Of<typeof ClientKindCodec>;

export const RevokedCodec = variants({
  /** One client key. */
  Client: holds(ClientKeyCodec),
  /** A device, with every client key it vouched for. */
  Device: holds(DeviceKeyCodec),
  /** An account, with every grant for it. */
  Account: holds(text),
});

/** What was revoked. */
export type Revoked = Of<typeof RevokedCodec>;

export const TermsCodec = struct({
  /** What it may do. */
  role: ClientRoleCodec,
  /** Folders that it may start sessions in; empty for all. */
  paths: list(text),
  /** When it ends; never without one. */
  expiresAtMs: option(u64),
});

/** On what terms a client was admitted. */
export type Terms = Of<typeof TermsCodec>;

export const GrantCodec = struct({
  /** The roost that gives it. */
  roost: RoostIdCodec,
  /** The account of the client's owner. */
  account: text,
  /** The client's device. */
  device: DeviceKeyCodec,
  /** The client key that this device vouched for. */
  client: ClientKeyCodec,
  /** The wing it is for. */
  wing: WingIdCodec,
  /** The organisation it is given in, or none for the account itself. */
  org: option(text),
  /** The most that it may be used for. */
  role: ClientRoleCodec,
  /** Counts up when the account takes something back; a wing refuses lower ones. */
  epoch: u64,
  /** When it was given, in seconds since the Unix epoch. */
  issuedAt: u64,
  /** When it ends, in seconds since the Unix epoch. */
  expiresAt: u64,
});

/** A roost's word that a client belongs to an account, for one wing and ten minutes. */
export type Grant = Of<typeof GrantCodec>;

export const SignedGrantCodec = struct({
  /** The grant. */
  grant: GrantCodec,
  /** By the roost's grant key, over the bytes of `grantBytes`. */
  signature: SignatureCodec,
});

/** A grant with the signature of its roost. */
export type SignedGrant = Of<typeof SignedGrantCodec>;

export const EnterByCodec = variants({
  /** Its place on the list. */
  List: unit,
  /** An invite: HMAC-SHA256 under the invite's secret of `inviteBytes`. */
  Invite: holds(array(32)),
  /** A grant of its account. */
  Grant: holds(SignedGrantCodec),
});

/** By what a client wants to come in. */
export type EnterBy = Of<typeof EnterByCodec>;

export const EnterCodec = struct({
  /** Where the client's program came from. */
  kind: ClientKindCodec,
  /** What it calls itself; shown as unverified, without control characters. */
  name: text,
  /** The device that vouches for its client key, and its signature over `clientKeyVouch`. */
  device: option(struct({ device: DeviceKeyCodec, signature: SignatureCodec })),
  /** By what it wants to come in. */
  by: EnterByCodec,
});

/** Who wants to come in, and by what. */
export type Enter = Of<typeof EnterCodec>;

export const AssertionCodec = struct({
  /** The credential's id. */
  credential: bytes,
  /** The authenticator data. */
  authenticatorData: bytes,
  /** The client data, as JSON. */
  clientData: bytes,
  /** Over the authenticator data and the hash of the client data. */
  signature: bytes,
});

/** What an authenticator signed (WebAuthn level 2, section 7.2). */
export type Assertion = Of<typeof AssertionCodec>;

export const EnrolmentCodec = struct({
  /** What its user calls it. */
  name: text,
  /** The relying party that it was made for. */
  rpId: text,
  /** The authenticator data, with the new credential in it. */
  authenticatorData: bytes,
  /** The client data, as JSON, over the act of enrolling. */
  clientData: bytes,
});

/** A credential that an authenticator just made (WebAuthn level 2, section 7.1). */
export type Enrolment = Of<typeof EnrolmentCodec>;

export const AllowCodec = struct({
  /** Its key. */
  client: ClientKeyCodec,
  /** The device that vouched for it, if one did. */
  device: option(DeviceKeyCodec),
  /** What people call it. */
  name: text,
  /** Where its program came from. */
  kind: ClientKindCodec,
  /** Whose it is, when several clients of one person share passkeys. */
  user: option(text),
  /** Its terms; without an end they get the longest that its kind may have. */
  terms: TermsCodec,
  /** Whether it is hardware of the owner. */
  hardware: bool,
});

/** A client to put on the list. */
export type Allow = Of<typeof AllowCodec>;

export const PasskeyCodec = struct({
  /** The credential's id. */
  credential: bytes,
  /** Its public key, a COSE key (RFC 9052 section 7). */
  publicKey: bytes,
  /** Whose entries it counts for. */
  holder: text,
  /** What its user calls it. */
  name: text,
  /** The exact origin of the page it was enrolled in. */
  origin: text,
  /** The relying party that it was made for. */
  rpId: text,
  /** The highest signature counter seen; 0 for an authenticator that has none. */
  counter: u32,
  /** When it was enrolled. */
  addedAtMs: u64,
});

/** A passkey as a wing keeps it. */
export type Passkey = Of<typeof PasskeyCodec>;

export const AccessChangeCodec = variants({
  /** Lets in whoever waits with this code of six digits. */
  Approve: has({ code: text, role: ClientRoleCodec, paths: list(text) }),
  /** Puts a client on the list, or replaces its entry. */
  Allow: holds(AllowCodec),
  /** Revokes for good. */
  Revoke: holds(RevokedCodec),
  /** Gives a client other terms. */
  SetTerms: has({ client: ClientKeyCodec, terms: TermsCodec }),
  /** Says whether a client is hardware of the owner, which a lock lets in. */
  SetHardware: has({ client: ClientKeyCodec, hardware: bool }),
  /** Confirms an entry after a lock. */
  Confirm: has({ client: ClientKeyCodec }),
  /** Sets how the wing decides; locked is `Lock`. */
  SetMode: holds(AdmissionModeCodec),
  /** Locks the wing, with or without passkeys that were enrolled in a relay's page. */
  Lock: has({ noRelayPage: bool }),
  /** Enrols a passkey that waits. */
  EnrolPasskey: holds(PasskeyCodec),
  /** Takes a passkey off the list. */
  ForgetPasskey: has({ credential: bytes }),
  /** Gives the wing a new noise key. */
  Rotate: unit,
});

/** A change of who may do what. Taking the lock off is none: that is for the wing's machine. */
export type AccessChange = Of<typeof AccessChangeCodec>;

export const ActCodec = variants({
  /** Entering a locked wing. */
  Enter: unit,
  /** Enrolling this passkey. */
  Enrol: unit,
  /** This very change. */
  Change: holds(AccessChangeCodec),
});

/** What a passkey is asked to stand for. Its encoding goes into the challenge that each end computes for itself. */
export type Act = Of<typeof ActCodec>;

export const ActorCodec = variants({
  /** Somebody at the wing's machine. */
  Machine: unit,
  /** This client, elsewhere. */
  Client: holds(ClientKeyCodec),
  /** A grant of this account alone. */
  Grant: holds(text),
});

/** Who did something to the list. */
export type Actor = Of<typeof ActorCodec>;

export const AnnouncedCodec = variants({
  /** A client was put on the list. */
  Allowed: has({ client: ClientKeyCodec, name: text, role: ClientRoleCodec, source: SourceCodec }),
  /** Something was revoked for good. */
  Revoked: holds(RevokedCodec),
  /** A client has other terms. */
  Terms: has({ client: ClientKeyCodec, role: ClientRoleCodec }),
  /** A client was marked as hardware of the owner, or no longer is. */
  Hardware: has({ client: ClientKeyCodec, hardware: bool }),
  /** An entry was confirmed after a lock. */
  Confirmed: has({ client: ClientKeyCodec }),
  /** The wing decides in another way. */
  Mode: holds(AdmissionModeCodec),
  /** The wing was locked. */
  Locked: has({ noRelayPage: bool }),
  /** The lock was taken off. */
  Unlocked: unit,
  /** A passkey was enrolled in a page of this origin. */
  PasskeyEnrolled: has({ name: text, origin: text }),
  /** A passkey was taken off the list. */
  PasskeyForgotten: has({ name: text }),
  /** The wing has a new noise key. */
  Rotated: unit,
  /** An invite was made. */
  Invited: has({ role: ClientRoleCodec }),
  /** A key that is on no list came in by a grant alone. */
  EnteredByGrant: has({ client: ClientKeyCodec, account: text }),
});

/** What is announced. */
export type Announced = Of<typeof AnnouncedCodec>;

export const AnnouncementCodec = struct({
  /** Counts up by one. */
  number: u64,
  /** When. */
  atMs: u64,
  /** Who did it. */
  by: ActorCodec,
  /** What it was. */
  what: AnnouncedCodec,
});

/** What happened to the list. */
export type Announcement = Of<typeof AnnouncementCodec>;

export const ToWingCodec = variants({
  /** Says who it is. The first message of its stream, if it comes at all. */
  Enter: holds(EnterCodec),
  /** Answers `PasskeyWanted`, over the act of entering. */
  Passkey: holds(AssertionCodec),
  /** Asks for a comparison of digits. */
  Compare: unit,
  /** The client's nonce, after the wing's commitment. */
  CompareNonce: holds(array(32)),
  /** A fresh grant in place of the one that runs out. */
  Renew: holds(SignedGrantCodec),
});

/** From a client, about its entry. */
export type ToWing = Of<typeof ToWingCodec>;

export const FromWingCodec = variants({
  /** The client may go on, on these terms. */
  Admitted: holds(TermsCodec),
  /** A passkey is wanted first; these bytes are used once and hold for a minute. */
  PasskeyWanted: holds(array(32)),
  /** Somebody must let the client in. A commitment follows: the digits that both ends get are the code to let it in by. */
  Waiting: unit,
  /** What the wing's nonce will hash to. */
  CompareCommitment: holds(array(32)),
  /** The wing's nonce, after the client's. */
  CompareOpening: holds(array(32)),
  /** Something about the wing's list changed. */
  Announced: holds(AnnouncementCodec),
});

/** From a wing, about a client's entry. */
export type FromWing = Of<typeof FromWingCodec>;

export const WingRequestCodec = variants({
  /** Who is on the list, who waits, what was revoked. */
  Clients: unit,
  /** Fresh bytes for a passkey: used once, by this session, within a minute. */
  Challenge: unit,
  /** Changes the wing, with a passkey's word on that very change. Acts once for its request id. */
  Change: has({ change: AccessChangeCodec, assertion: AssertionCodec }),
  /** Offers a new passkey for this client. It counts once somebody lets it in. */
  Enrol: holds(EnrolmentCodec),
});

/** What an owner asks about the wing itself. */
export type WingRequest = Of<typeof WingRequestCodec>;

export const AccessListCodec = struct({
  /** How it decides. */
  mode: AdmissionModeCodec,
  /** Who is on the list. */
  clients: list(
    struct({
      /** What was said when it was put there, with the terms that hold. */
      allow: AllowCodec,
      /** How it came to be there. */
      source: SourceCodec,
      /** When it was added. */
      addedAtMs: u64,
      /** Whether somebody compared digits with it. */
      verified: bool,
      /** Whether a lock waits for its confirmation. */
      unconfirmed: bool,
    }),
  ),
  /** Who waits to be let in. */
  waiting: list(
    struct({
      /** The client's key. */
      client: ClientKeyCodec,
      /** What it calls itself. */
      name: text,
      /** The account whose grant it has, if it has one. */
      account: option(text),
      /** Whether it is a passkey that waits. */
      passkey: bool,
      /** Since when. */
      sinceMs: u64,
    }),
  ),
  /** The passkeys. */
  passkeys: list(PasskeyCodec),
  /** What was revoked, and when. */
  revoked: list(pair(RevokedCodec, u64)),
});

/** All that a wing knows of clients, as its owners see it. */
export type AccessList = Of<typeof AccessListCodec>;

export const WingResponseCodec = variants({
  /** Who is on the list. */
  Clients: holds(AccessListCodec),
  /** Fresh bytes for a passkey. */
  Challenge: holds(array(32)),
  /** A change is done, and sessions that it ends have ended. */
  Changed: unit,
  /** A passkey waits. A comparison in this session gives the code. */
  Enrolling: unit,
});

/** A wing's answer about itself. */
export type WingResponse = Of<typeof WingResponseCodec>;
