// The wings that a client knows, and the names it has for them.
//
// An id is a fingerprint, so nobody can offer another identity under a pinned id; what can
// change under it is the noise key, by a statement with a higher seq. A label is only a claim
// of whoever presents it. Names are the client's own: a label that was used once stands for
// one id until the user says otherwise.
//
// An identity may name its successor: its pin is followed, and nobody has compared the new
// one. An identity that was revoked is never used again, whoever it names.
//
// This is the content of `known_wings.json` and the rules, the same as in other clients, so
// that a file may move between them. `pin_store.ts` keeps it.

import { type Bytes, base32, equal, utf8 } from "./bytes.ts";
import {
  fingerprintOfNoiseKey,
  fingerprintOfWing,
  fixedFromText,
  type IdentityKey,
  type NoiseKey,
  type WingId,
  type WingLabel,
  wingId,
  wingIdFromTyped,
  wingLabel,
} from "./ids.ts";
import { type Json, JsonError, JsonNumber, parseJson, writeJson } from "./json.ts";
import { fromPinned, KeyError, type VerifiedWing, verifyRevocation, verifySuccessor } from "./keys.ts";
import type { RevocationStatement, SuccessorStatement } from "./records.ts";

/** The version of the file that this build reads and writes. */
const VERSION = 1n;

/** Largest pin file that is read, in bytes: some 10,000 wings. */
const MAX_FILE = 8 << 20;

/** Successors of successors that are followed at once. A user who was away while a wing changed its identity more often adds it anew. */
const MAX_SUCCESSORS = 8;

/** Comparisons of digits with one wing that may begin within {@link COMPARE_WINDOW}, so that nobody is asked until they say yes. */
const MAX_COMPARES = 3;

/** For how long a comparison counts: an hour, in milliseconds. */
const COMPARE_WINDOW = 60n * 60n * 1_000n;

/** Fewest characters of an id that stand for it, among pinned wings only. */
const MIN_PREFIX = 8;

/** A wing that this client knows. */
export interface Pin {
  /** Its keys, as they were checked when it was pinned. */
  readonly wing: VerifiedWing;
  /** This client's name for it, if it has one. */
  readonly label: WingLabel | undefined;
  /** Where it was last reached. Only a hint. */
  readonly roost: string | undefined;
  /** When it was first seen, in milliseconds since the Unix epoch. */
  readonly firstSeenMs: bigint;
  /** When it was last seen, in milliseconds since the Unix epoch. */
  readonly lastSeenMs: bigint;
  /** Whether its user compared it with the wing itself. */
  readonly verified: boolean;
  /** When the last comparisons of digits began, oldest first, in milliseconds since the Unix epoch. */
  readonly comparedMs: readonly bigint[];
  /** What a newer build wrote; kept when the file is rewritten. */
  readonly unknown: ReadonlyMap<string, Json>;
}

/** What is left of a pin that its user forgot. */
export interface Tombstone {
  /** The wing. */
  readonly wingId: WingId;
  /** The name it had: another wing needs its full id to be reached under it. */
  readonly label: WingLabel | undefined;
  /** The highest seq seen, so that forgetting does not let an old key back in. */
  readonly seq: bigint;
  /** When, in milliseconds since the Unix epoch. */
  readonly forgottenAtMs: bigint;
  /** The identity that took its place, as it said itself. */
  readonly successor: WingId | undefined;
  /** Whether it said that it must never be used again. */
  readonly revoked: boolean;
  /** What a newer build wrote; kept when the file is rewritten. */
  readonly unknown: ReadonlyMap<string, Json>;
}

/** Why the pin file cannot be used. It is never reset because of this. */
export class PinFileError extends Error {
  override readonly name = "PinFileError";
  /**
   * `version`: a newer build wrote it. `json`: it is not the JSON it should be. `too-large`:
   * it is larger than any real one. `entry`: an entry's id is not the fingerprint of its key,
   * or its key must not be used. `twice`: two entries have one id, or two names are the same.
   */
  readonly reason: "version" | "json" | "too-large" | "entry" | "twice";

  constructor(reason: "version" | "json" | "too-large" | "entry" | "twice", message: string) {
    super(message);
    this.reason = reason;
  }
}

/** How a wing compares with its pin. */
export type Change =
  /** It was not known; it is pinned now. */
  | { readonly type: "FirstSeen" }
  /** It is as it was. */
  | { readonly type: "Match" }
  /** It has another noise key under a higher seq, signed by its identity. */
  | { readonly type: "Rotated"; readonly from: bigint; readonly to: bigint };

/** Another wing presents a label that belongs to a pinned one. */
export interface LabelConflict {
  /** The label. */
  readonly label: WingLabel;
  /** The wing that this client knows by it. */
  readonly pinned: WingId;
  /** The wing that presents it too. */
  readonly offered: WingId;
}

/** What was learned from a wing that may be used. */
export interface Observation {
  /** How it compares with its pin. */
  readonly change: Change;
  /** A warning: its label is another wing's, so it was not bound. */
  readonly conflict: LabelConflict | undefined;
}

/** Why a wing must not be used, though its statement is signed. */
export class PinRefusal extends Error {
  override readonly name = "PinRefusal";
  /**
   * `outdated`: an old statement came back; its key may be one that was given up for a
   * reason. `mismatch`: two keys under one seq; the identity signed what its wing never would.
   * `revoked`: the identity said that it must not be used any more. `succeeded`: it named
   * another one in its place, and is still about.
   */
  readonly reason: "outdated" | "mismatch" | "revoked" | "succeeded";

  constructor(reason: "outdated" | "mismatch" | "revoked" | "succeeded", message: string) {
    super(message);
    this.reason = reason;
  }
}

/** What identities said when they stepped down, each by its own signature. */
export interface WingStatements {
  /** Identities that others took the place of. */
  readonly successors: readonly SuccessorStatement[];
  /** Identities that are not to be trusted any more. */
  readonly revocations: readonly RevocationStatement[];
}

/** Those statements whose signatures were checked. Only {@link CheckedStatements.check} makes one. */
export class CheckedStatements {
  readonly #successors: readonly { readonly from: WingId; readonly to: WingId }[];
  readonly #revoked: ReadonlySet<WingId>;

  private constructor(successors: readonly { from: WingId; to: WingId }[], revoked: ReadonlySet<WingId>) {
    this.#successors = successors;
    this.#revoked = revoked;
  }

  /** Checks statements; those that are not signed by their identity are left out. */
  static async check(statements: WingStatements): Promise<CheckedStatements> {
    const successors: { from: WingId; to: WingId }[] = [];
    for (const statement of statements.successors) {
      const from = await verifySuccessor(statement);
      if (from) {
        successors.push({ from, to: statement.new });
      }
    }
    const revoked = new Set<WingId>();
    for (const statement of statements.revocations) {
      const wing = await verifyRevocation(statement);
      if (wing) {
        revoked.add(wing);
      }
    }
    return new CheckedStatements(successors, revoked);
  }

  /** Identities that are given up, in the order in which they were named. */
  get revoked(): ReadonlySet<WingId> {
    return this.#revoked;
  }

  /** The first identity but `except` that named this wing. */
  predecessor(wing: WingId, except: WingId): WingId | undefined {
    return this.#successors.find(({ from, to }) => to === wing && from !== except)?.from;
  }
}

/** What a client should tell its user about identities that changed. */
export type Notice =
  /** An identity took the place of a pinned one. Nobody has compared it yet. */
  | { readonly type: "Followed"; readonly from: WingId; readonly to: WingId; readonly label: WingLabel | undefined }
  /** A pinned identity was revoked; its name is free for a wing that is added by link. */
  | { readonly type: "Revoked"; readonly wing: WingId; readonly label: WingLabel | undefined }
  /** A wing was only known as the successor of an identity that is revoked now: whoever had that identity's key may have named it. It was forgotten. */
  | { readonly type: "Doubted"; readonly wing: WingId; readonly label: WingLabel | undefined };

/** Digits may be compared three times an hour with one wing. */
export class TooManyCompares extends Error {
  override readonly name = "TooManyCompares";
  /** When the next one may begin, in milliseconds since the Unix epoch. */
  readonly againAtMs: bigint;

  constructor(againAtMs: bigint) {
    super(`digits may be compared ${MAX_COMPARES} times an hour`);
    this.againAtMs = againAtMs;
  }
}

/** A label already stands for another wing. */
export class LabelTaken extends Error {
  override readonly name = "LabelTaken";
  /** The wing that has it. */
  readonly pinned: WingId;

  constructor(label: WingLabel, pinned: WingId) {
    super(`${label} is the name of wing ${fingerprintOfWing(pinned)}`);
    this.pinned = pinned;
  }
}

/** A wing that proved its id in a handshake, and what it calls itself inside the seal. */
export interface Presented {
  /** The wing. */
  readonly wingId: WingId;
  /** Its label. */
  readonly label: WingLabel;
}

/** The one wing that a name stands for. */
export interface Resolved {
  /** The wing. */
  readonly wingId: WingId;
  /** The label that is used for the first time and should be bound, saying so. */
  readonly binds: WingLabel | undefined;
  /** Warnings: other wings that present the same label. */
  readonly conflicts: readonly LabelConflict[];
}

/** Why a name stands for no wing. */
export class ResolveError extends Error {
  override readonly name = "ResolveError";
  /**
   * `not-found`: no wing has this name. `ambiguous`: several could be meant. `mismatch`:
   * another wing presents the label of a pinned one that is not there. `forgotten`: the label
   * belonged to a wing that was forgotten, so a full id is needed. `known-as`: the wing calls
   * itself so, but this client knows it by another name.
   */
  readonly reason: "not-found" | "ambiguous" | "mismatch" | "forgotten" | "known-as";
  /** The wings that could be meant, or that present the label. */
  readonly candidates: readonly WingId[];

  constructor(
    reason: "not-found" | "ambiguous" | "mismatch" | "forgotten" | "known-as",
    message: string,
    candidates: readonly WingId[] = [],
  ) {
    super(message);
    this.reason = reason;
    this.candidates = candidates;
  }
}

/** All that a client knows about wings. */
export class Pins {
  #wings = new Map<WingId, Pin>();
  #forgotten = new Map<WingId, Tombstone>();
  #unknown: ReadonlyMap<string, Json> = new Map();

  /** Reads the file. No file at all is `new Pins()`. Throws {@link PinFileError}; an empty file is one that does not parse. */
  static async parse(bytes: Uint8Array): Promise<Pins> {
    if (bytes.length > MAX_FILE) {
      throw new PinFileError("too-large", `it has ${bytes.length} bytes, more than ${MAX_FILE}`);
    }
    const file = Members.of(parsed(bytes));
    const version = file.number("version");
    if (version !== VERSION) {
      throw new PinFileError("version", `it has version ${version}, and this program reads version ${VERSION}`);
    }
    const pins = new Pins();
    for (const item of file.list("wings")) {
      await pins.#read(Members.of(item));
    }
    for (const item of file.has("forgotten") ? file.list("forgotten") : []) {
      const tombstone = readTombstone(Members.of(item));
      if (pins.#forgotten.has(tombstone.wingId)) {
        throw twice(tombstone.wingId);
      }
      pins.#forgotten.set(tombstone.wingId, tombstone);
    }
    pins.#unknown = file.rest();
    return pins;
  }

  async #read(entry: Members): Promise<void> {
    const id = entry.parsed("wing_id", wingId);
    const identity = entry.parsed("identity", (text) => fixedFromText<IdentityKey>(32, text));
    const noiseKey = entry.parsed("noise_key", (text) => fixedFromText<NoiseKey>(32, text));
    const seq = entry.number("seq");
    const label = entry.optional("label", wingLabel);
    const roost = entry.optional("roost", (text) => text);
    const firstSeenMs = entry.number("first_seen_ms");
    const lastSeenMs = entry.number("last_seen_ms");
    const verified = entry.has("verified") && entry.boolean("verified");
    const comparedMs = entry.has("compared") ? entry.list("compared").map(whole) : [];
    const wing = await fromPinned(identity, noiseKey, seq).catch((error: unknown) => {
      if (error instanceof KeyError) {
        return undefined;
      }
      throw error;
    });
    if (wing?.wingId !== id) {
      throw new PinFileError("entry", `the entry of ${id} does not hold its own keys`);
    }
    if (label && this.byLabel(label)) {
      throw twice(label);
    }
    if (this.#wings.has(id)) {
      throw twice(id);
    }
    this.#wings.set(id, { wing, label, roost, firstSeenMs, lastSeenMs, verified, comparedMs, unknown: entry.rest() });
  }

  /** Writes the file: the same pins always give the same bytes. */
  toJson(): Bytes {
    const wings = sorted(this.#wings).map(([id, pin]) =>
      members(
        [
          ["wing_id", id],
          ["identity", base32(pin.wing.identity)],
          ["noise_key", base32(pin.wing.noiseKey)],
          ["seq", number(pin.wing.seq)],
          ["label", pin.label],
          ["roost", pin.roost],
          ["first_seen_ms", number(pin.firstSeenMs)],
          ["last_seen_ms", number(pin.lastSeenMs)],
          ["verified", pin.verified],
          ["compared", pin.comparedMs.length > 0 ? pin.comparedMs.map(number) : undefined],
        ],
        pin.unknown,
      ),
    );
    const forgotten = sorted(this.#forgotten).map(([id, tombstone]) =>
      members(
        [
          ["wing_id", id],
          ["label", tombstone.label],
          ["seq", number(tombstone.seq)],
          ["forgotten_at_ms", number(tombstone.forgottenAtMs)],
          ["successor", tombstone.successor],
          ["revoked", tombstone.revoked || undefined],
        ],
        tombstone.unknown,
      ),
    );
    const file = members(
      [
        ["version", number(VERSION)],
        ["wings", wings],
        ["forgotten", forgotten.length > 0 ? forgotten : undefined],
      ],
      this.#unknown,
    );
    return utf8(`${writeJson(file)}\n`);
  }

  /** All pins, by id. */
  all(): Pin[] {
    return sorted(this.#wings).map(([, pin]) => pin);
  }

  /** The pin of a wing. */
  get(wing: WingId): Pin | undefined {
    return this.#wings.get(wing);
  }

  /** The pin with this name. */
  byLabel(label: WingLabel): Pin | undefined {
    return this.all().find((pin) => pin.label === label);
  }

  /**
   * Compares a wing with its pin, and pins it if it is unknown.
   *
   * A label is bound to a wing that has none, if it is free: neither another pinned wing's nor
   * a forgotten one's. A name that this client has is never changed here.
   *
   * Throws {@link PinRefusal}; nothing is changed then, and the wing must not be used.
   */
  observe(wing: VerifiedWing, label: WingLabel | undefined, roost: string | undefined, nowMs: number): Observation {
    const id = wing.wingId;
    const change = this.compare(wing);
    const conflict = label && this.#conflict(label, id);
    const binds = label && !conflict && this.#isFree(label, id) ? label : undefined;
    const now = BigInt(Math.trunc(nowMs));

    this.#forgotten.delete(id);
    const known = this.#wings.get(id);
    this.#wings.set(id, {
      wing,
      label: known?.label ?? binds,
      roost: roost ?? known?.roost,
      firstSeenMs: known?.firstSeenMs ?? now,
      lastSeenMs: known && known.lastSeenMs > now ? known.lastSeenMs : now,
      verified: known?.verified ?? false,
      comparedMs: known?.comparedMs ?? [],
      unknown: known?.unknown ?? new Map(),
    });
    return { change, conflict };
  }

  /**
   * Compares a wing with its pin without changing anything: what must pass before message 1
   * of a handshake goes out. Throws {@link PinRefusal}: the wing must not be used.
   */
  compare(wing: VerifiedWing): Change {
    const pin = this.#wings.get(wing.wingId);
    const left = pin ? undefined : this.#forgotten.get(wing.wingId);
    if (left?.revoked) {
      const name = fingerprintOfWing(wing.wingId);
      throw new PinRefusal("revoked", `wing ${name} said that its identity must not be used any more`);
    }
    if (left?.successor) {
      const [name, successor] = [wing.wingId, left.successor].map(fingerprintOfWing);
      throw new PinRefusal("succeeded", `wing ${name} said that it is wing ${successor} from now on`);
    }
    const seen = pin?.wing.seq ?? left?.seq;
    if (seen !== undefined && wing.seq < seen) {
      const name = fingerprintOfWing(wing.wingId);
      throw new PinRefusal(
        "outdated",
        `wing ${name} showed an outdated key: seq ${wing.seq}, after seq ${seen} was seen`,
      );
    }
    if (!pin) {
      return { type: "FirstSeen" };
    }
    if (wing.seq > pin.wing.seq) {
      return { type: "Rotated", from: pin.wing.seq, to: wing.seq };
    }
    if (!equal(wing.noiseKey, pin.wing.noiseKey)) {
      const [offered, pinned] = [wing.noiseKey, pin.wing.noiseKey].map(fingerprintOfNoiseKey);
      const name = fingerprintOfWing(wing.wingId);
      throw new PinRefusal(
        "mismatch",
        `wing ${name} showed key ${offered}, and key ${pinned} was seen under the same seq`,
      );
    }
    return { type: "Match" };
  }

  /**
   * Finds the one wing that a name stands for.
   *
   * `presented` are the wings that were reached and proved themselves, with the labels they
   * gave inside the seal. It may be empty: an id, a prefix and a pinned label need none. A
   * pinned wing that could not be reached should be looked up again with the others in
   * `presented`, so that an impostor of its name is told from an absence.
   *
   * Throws {@link ResolveError}.
   */
  resolve(name: string, presented: readonly Presented[]): Resolved {
    const id = wingIdFromTyped(name);
    if (id) {
      return plain(id);
    }
    const label = wingLabel(name);
    const pin = label && this.byLabel(label);
    const candidates = distinct([...this.#byPrefix(name), ...(pin ? [pin.wing.wingId] : [])]);
    if (candidates.length > 1) {
      throw ambiguous(name, candidates);
    }
    if (label && pin) {
      return resolvePinned(label, pin.wing.wingId, presented);
    }
    const [only] = candidates;
    if (only) {
      return plain(only);
    }
    if (label) {
      return this.#resolveUnpinned(label, presented);
    }
    throw notFound(name);
  }

  #resolveUnpinned(label: WingLabel, presented: readonly Presented[]): Resolved {
    const candidates = presenting(label, presented);
    const [only] = candidates;
    if (!only) {
      throw notFound(label);
    }
    if ([...this.#forgotten.values()].some((tombstone) => tombstone.label === label)) {
      const message = `${label} was forgotten; the full id is needed to reach ${shown(candidates)}`;
      throw new ResolveError("forgotten", message, candidates);
    }
    if (candidates.length > 1) {
      throw ambiguous(label, candidates);
    }
    const knownAs = this.get(only)?.label;
    if (knownAs) {
      const message = `the wing that calls itself ${label} is known here as ${knownAs}`;
      throw new ResolveError("known-as", message, candidates);
    }
    return { wingId: only, binds: label, conflicts: [] };
  }

  /**
   * Gives a pinned wing a name, because the user said so. Returns whether it is pinned.
   * Throws {@link LabelTaken} when another wing has the name.
   */
  setLabel(wing: WingId, label: WingLabel): boolean {
    const conflict = this.#conflict(label, wing);
    if (conflict) {
      throw new LabelTaken(label, conflict.pinned);
    }
    const pin = this.#wings.get(wing);
    if (!pin) {
      return false;
    }
    // The user's word ends what a forgotten wing of that name left behind.
    for (const [id, tombstone] of this.#forgotten) {
      if (tombstone.label === label) {
        this.#forgotten.set(id, { ...tombstone, label: undefined });
      }
    }
    this.#wings.set(wing, { ...pin, label });
    return true;
  }

  /**
   * Pins a wing that the user named by its full id or a link, and gives it a name, because the
   * user said so. Without a label it keeps the one it has. Throws {@link PinRefusal} and
   * {@link LabelTaken}; nothing is changed then.
   */
  add(wing: VerifiedWing, label: WingLabel | undefined, roost: string | undefined, nowMs: number): Change {
    const taken = label && this.#conflict(label, wing.wingId);
    if (taken) {
      throw new LabelTaken(taken.label, taken.pinned);
    }
    const { change } = this.observe(wing, undefined, roost, nowMs);
    if (label) {
      this.setLabel(wing.wingId, label);
    }
    return change;
  }

  /**
   * Takes note of what identities said when they stepped down. `wings` are those that the relay
   * lists now. A revocation counts before any successor does, so nobody follows an identity that
   * was revoked. Statements about wings that this client does not know do nothing.
   */
  takeStatements(statements: CheckedStatements, wings: readonly VerifiedWing[], nowMs: number): Notice[] {
    const now = BigInt(Math.trunc(nowMs));
    const notices = [...statements.revoked].flatMap((wing) => this.#revoke(wing, now));
    for (const wing of wings) {
      const from = this.#predecessor(wing, statements);
      if (from) {
        notices.push(this.#follow(from, wing, nowMs));
      }
    }
    return notices;
  }

  /** The pinned wing that this one takes the place of, if there is one. */
  #predecessor(wing: VerifiedWing, statements: CheckedStatements): Pin | undefined {
    try {
      this.compare(wing);
    } catch {
      return undefined;
    }
    let current: WingId | undefined = wing.wingId;
    for (let step = 0; step < MAX_SUCCESSORS; step++) {
      current = statements.predecessor(current, wing.wingId);
      if (!current || statements.revoked.has(current) || this.#forgotten.get(current)?.revoked) {
        return undefined;
      }
      const pin = this.#wings.get(current);
      if (pin) {
        return pin;
      }
    }
    return undefined;
  }

  /** Puts a wing in the place of a pinned one. */
  #follow(old: Pin, wing: VerifiedWing, nowMs: number): Notice {
    const [from, to] = [old.wing.wingId, wing.wingId];
    this.#wings.delete(from);
    // The name goes over, unless the user has another one for the wing already.
    const label = this.#wings.get(to)?.label ? undefined : old.label;
    const left = tombstoneOf(old, BigInt(Math.trunc(nowMs)));
    this.#forgotten.set(from, { ...left, successor: to, label: label ? undefined : left.label });
    this.observe(wing, label, old.roost, nowMs);
    return { type: "Followed", from, to, label: this.#wings.get(to)?.label };
  }

  #revoke(wing: WingId, now: bigint): Notice[] {
    const pin = this.#wings.get(wing);
    if (pin) {
      this.#wings.delete(wing);
      this.#forgotten.set(wing, { ...tombstoneOf(pin, now), revoked: true });
      return [{ type: "Revoked", wing, label: pin.label }];
    }
    // Of a wing that was never known nothing is kept: anybody can make such ones.
    const left = this.#forgotten.get(wing);
    if (!left) {
      return [];
    }
    this.#forgotten.set(wing, { ...left, revoked: true, successor: undefined });
    let doubted = left.successor;
    for (let step = 0; step < MAX_SUCCESSORS && doubted; step++) {
      const known = this.#wings.get(doubted);
      if (known) {
        // Whom the user compared is known by more than that word.
        if (known.verified) {
          return [];
        }
        this.#wings.delete(doubted);
        this.#forgotten.set(doubted, tombstoneOf(known, now));
        return [{ type: "Doubted", wing: doubted, label: known.label }];
      }
      const between = this.#forgotten.get(doubted);
      if (between) {
        this.#forgotten.set(doubted, { ...between, successor: undefined });
      }
      doubted = between?.successor;
    }
    return [];
  }

  /** The identity that took the place of one that was pinned, as it said itself. */
  successorOf(wing: WingId): WingId | undefined {
    return this.#forgotten.get(wing)?.successor;
  }

  /**
   * Begins a comparison of digits with a pinned wing, which counts however it ends. Returns
   * whether the wing is pinned. Throws {@link TooManyCompares}.
   */
  beginCompare(wing: WingId, nowMs: number): boolean {
    const pin = this.#wings.get(wing);
    if (!pin) {
      return false;
    }
    const now = BigInt(Math.trunc(nowMs));
    // A clock that was set back does not give more of them.
    const recent = pin.comparedMs.filter((began) => now < began + COMPARE_WINDOW);
    if (recent.length >= MAX_COMPARES) {
      const oldest = recent.reduce((first, began) => (began < first ? began : first));
      throw new TooManyCompares(oldest + COMPARE_WINDOW);
    }
    this.#wings.set(wing, { ...pin, comparedMs: [...recent, now] });
    return true;
  }

  /** What was forgotten, given up or succeeded, by id. */
  tombstones(): Tombstone[] {
    return sorted(this.#forgotten).map(([, tombstone]) => tombstone);
  }

  /** Notes that the user compared the wing with itself. Returns whether it is pinned. */
  setVerified(wing: WingId): boolean {
    const pin = this.#wings.get(wing);
    if (pin) {
      this.#wings.set(wing, { ...pin, verified: true });
    }
    return pin !== undefined;
  }

  /**
   * Forgets a pinned wing by label, id or prefix, leaving a tombstone. Returns its id and the
   * name it had.
   *
   * A wing that named a successor can be forgotten by its full id as well: then it may be pinned
   * again, as one whose machine was set back may have to be.
   *
   * Throws {@link ResolveError}: `not-found` or `ambiguous`.
   */
  forget(name: string, nowMs: number): { readonly wingId: WingId; readonly label: WingLabel | undefined } {
    const { wingId } = this.resolve(name, []);
    const pin = this.#wings.get(wingId);
    if (pin) {
      this.#wings.delete(wingId);
      this.#forgotten.set(wingId, tombstoneOf(pin, BigInt(Math.trunc(nowMs))));
      return { wingId, label: pin.label };
    }
    const left = this.#forgotten.get(wingId);
    if (!left?.successor) {
      throw notFound(name);
    }
    this.#forgotten.set(wingId, { ...left, successor: undefined });
    return { wingId, label: undefined };
  }

  #byPrefix(typed: string): WingId[] {
    const prefix = typed.replaceAll("-", "").replace(/[A-Z]/g, (letter) => letter.toLowerCase());
    return prefix.length < MIN_PREFIX ? [] : [...this.#wings.keys()].filter((id) => id.startsWith(prefix));
  }

  #conflict(label: WingLabel, offered: WingId): LabelConflict | undefined {
    const pinned = this.byLabel(label)?.wing.wingId;
    return pinned && pinned !== offered ? { label, pinned, offered } : undefined;
  }

  /** Whether no other wing left this label behind. */
  #isFree(label: WingLabel, wing: WingId): boolean {
    return [...this.#forgotten.values()].every((left) => left.label !== label || left.wingId === wing);
  }
}

function tombstoneOf(pin: Pin, forgottenAtMs: bigint): Tombstone {
  const { label, wing } = pin;
  const { wingId, seq } = wing;
  return { wingId, label, seq, forgottenAtMs, successor: undefined, revoked: false, unknown: new Map() };
}

function plain(wingId: WingId): Resolved {
  return { wingId, binds: undefined, conflicts: [] };
}

function resolvePinned(label: WingLabel, pinned: WingId, presented: readonly Presented[]): Resolved {
  const isThere = presented.some((wing) => wing.wingId === pinned);
  const offered = presenting(label, presented).filter((id) => id !== pinned);
  if (!isThere && offered.length > 0) {
    const known = fingerprintOfWing(pinned);
    const message = `the wing that calls itself ${label} is ${shown(offered)}, and the one known by that name is ${known}`;
    throw new ResolveError("mismatch", message, offered);
  }
  return { wingId: pinned, binds: undefined, conflicts: offered.map((offered) => ({ label, pinned, offered })) };
}

/** The wings that present a label, each once. */
function presenting(label: WingLabel, presented: readonly Presented[]): WingId[] {
  return distinct(presented.filter((wing) => wing.label === label).map((wing) => wing.wingId));
}

function distinct(ids: readonly WingId[]): WingId[] {
  return [...new Set(ids)].sort();
}

function shown(ids: readonly WingId[]): string {
  return ids.map(fingerprintOfWing).join(", ");
}

function notFound(name: string): ResolveError {
  return new ResolveError("not-found", `no wing is known as ${JSON.stringify(name)}`);
}

function ambiguous(name: string, candidates: readonly WingId[]): ResolveError {
  return new ResolveError("ambiguous", `${JSON.stringify(name)} could be any of ${shown(candidates)}`, candidates);
}

// The file's values.

function twice(name: string): PinFileError {
  return new PinFileError("twice", `${name} is in it twice`);
}

function parsed(bytes: Uint8Array): Json {
  try {
    return parseJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (error) {
    if (error instanceof JsonError || error instanceof TypeError) {
      throw new PinFileError("json", `it does not parse: ${error.message}`);
    }
    throw error;
  }
}

/** Takes known members out of an object, and keeps the others. */
class Members {
  readonly #members: Map<string, Json>;

  private constructor(members: Map<string, Json>) {
    this.#members = members;
  }

  static of(value: Json): Members {
    if (!(value instanceof Map)) {
      throw new PinFileError("json", "it does not parse: an object is missing");
    }
    return new Members(new Map(value));
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }

  #take<T>(name: string, read: (value: Json) => T | undefined): T {
    const value = this.#members.get(name);
    const taken = value === undefined ? undefined : read(value);
    if (taken === undefined) {
      throw new PinFileError("json", `it does not parse: ${name} is missing or not what it must be`);
    }
    this.#members.delete(name);
    return taken;
  }

  parsed<T>(name: string, parse: (text: string) => T | undefined): T {
    return this.#take(name, (value) => (typeof value === "string" ? parse(value) : undefined));
  }

  optional<T>(name: string, parse: (text: string) => T | undefined): T | undefined {
    if (this.#members.get(name) === null) {
      this.#members.delete(name);
    }
    return this.has(name) ? this.parsed(name, parse) : undefined;
  }

  boolean(name: string): boolean {
    return this.#take(name, (value) => (typeof value === "boolean" ? value : undefined));
  }

  list(name: string): Json[] {
    return this.#take(name, (value) => (Array.isArray(value) ? value : undefined));
  }

  /** A whole number below 2^64. */
  number(name: string): bigint {
    return this.#take(name, wholeNumber);
  }

  rest(): ReadonlyMap<string, Json> {
    return this.#members;
  }
}

/** A whole number below 2^64; nothing for anything else. */
function wholeNumber(value: Json): bigint | undefined {
  if (!(value instanceof JsonNumber) || !/^[0-9]{1,20}$/.test(value.text)) {
    return undefined;
  }
  const number = BigInt(value.text);
  return number >> 64n === 0n ? number : undefined;
}

function whole(value: Json): bigint {
  const number = wholeNumber(value);
  if (number === undefined) {
    throw new PinFileError("json", "it does not parse: a time is not what it must be");
  }
  return number;
}

function readTombstone(entry: Members): Tombstone {
  const id = entry.parsed("wing_id", wingId);
  const label = entry.optional("label", wingLabel);
  const seq = entry.number("seq");
  const forgottenAtMs = entry.number("forgotten_at_ms");
  const successor = entry.optional("successor", wingId);
  const revoked = entry.has("revoked") && entry.boolean("revoked");
  return { wingId: id, label, seq, forgottenAtMs, successor, revoked, unknown: entry.rest() };
}

/** An object of members that are there, then what nobody here knows, by name. */
function members(known: readonly (readonly [string, Json | undefined])[], unknown: ReadonlyMap<string, Json>): Json {
  const all = new Map<string, Json>();
  for (const [name, value] of known) {
    if (value !== undefined) {
      all.set(name, value);
    }
  }
  for (const [name, value] of sorted(unknown)) {
    all.set(name, value);
  }
  return all;
}

function number(value: bigint): JsonNumber {
  return new JsonNumber(value.toString());
}

function sorted<K extends string, V>(map: ReadonlyMap<K, V>): [K, V][] {
  return [...map].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
