import { describe, expect, it } from "vitest";

import { fill, Wing } from "../../test/support.ts";
import { base32, utf8 } from "./bytes.ts";
import { fingerprintOfNoiseKey, fingerprintOfWing, type WingLabel } from "./ids.ts";
import { parseJson, writeJson } from "./json.ts";
import type { VerifiedWing } from "./keys.ts";
import { MemoryPinStorage, PinStore } from "./pin_store.ts";
import { CheckedStatements, Pins, type WingStatements } from "./pins.ts";
import type { SuccessorStatement } from "./records.ts";

const label = (text: string) => text as WingLabel;
const presents = (wing: VerifiedWing, text: string) => ({ wingId: wing.wingId, label: label(text) });
const plain = (wing: VerifiedWing) => ({ wingId: wing.wingId, binds: undefined, conflicts: [] });

describe("a wing", () => {
  it("is pinned at first sight and matches afterwards", async () => {
    const [pins, a] = [new Pins(), await wing(1)];

    expect(pins.observe(a, label("box"), "https://r", 10)).toEqual(observation({ type: "FirstSeen" }));
    expect(pins.observe(a, label("box"), undefined, 20)).toEqual(observation({ type: "Match" }));

    expect(pins.get(a.wingId)).toEqual({
      wing: a,
      label: "box",
      roost: "https://r",
      firstSeenMs: 10n,
      lastSeenMs: 20n,
      verified: false,
      comparedMs: [],
      unknown: new Map(),
    });
  });

  it("may raise its seq, and never lower it ever after", async () => {
    const [old, rotated] = [await wing(1), await wing(1, 99, 2n)];
    const pins = new Pins();
    pins.observe(old, undefined, undefined, 1);

    expect(pins.observe(rotated, undefined, undefined, 2)).toEqual(
      observation({ type: "Rotated", from: 1n, to: 2n }),
    );

    const before = pins.toJson();
    expect(() => pins.observe(old, undefined, undefined, 3)).toThrow("seq 1, after seq 2");
    expect(pins.toJson()).toEqual(before);
    expect(pins.get(old.wingId)?.wing).toEqual(rotated);
    pins.forget(old.wingId, 4);
    expect(() => pins.observe(old, undefined, undefined, 5)).toThrow("seq 1, after seq 2");
    expect(pins.observe(rotated, undefined, undefined, 6)).toBeDefined();
  });

  it("with another key under the same seq is refused with both shown", async () => {
    const [real, other] = [await wing(1), await wing(1, 99)];
    const pins = new Pins();
    pins.observe(real, undefined, undefined, 1);
    const before = pins.toJson();

    for (const key of [real.noiseKey, other.noiseKey]) {
      expect(() => pins.observe(other, undefined, undefined, 2)).toThrow(fingerprintOfNoiseKey(key));
    }

    expect(pins.toJson()).toEqual(before);
  });

  it("that presents the label of another one is warned of, and gets no name", async () => {
    const [a, b] = [await wing(1), await wing(2)];
    const pins = new Pins();
    pins.observe(a, label("box"), undefined, 1);

    const observed = pins.observe(b, label("box"), undefined, 2);

    const conflict = { label: "box", pinned: a.wingId, offered: b.wingId };
    expect(observed).toEqual({ change: { type: "FirstSeen" }, conflict });
    expect(pins.get(b.wingId)?.label).toBeUndefined();
    expect(pins.byLabel(label("box"))?.wing.wingId).toBe(a.wingId);
  });

  it("that renames itself keeps the client's name", async () => {
    const [pins, a] = [await pinned(["box", 1]), await wing(1)];

    pins.observe(a, label("bank"), undefined, 2);

    expect(pins.get(a.wingId)?.label).toBe("box");
    expect(() => pins.resolve("bank", [presents(a, "bank")])).toThrow("known here as box");
  });

  it("is verified when its user says so, and keeps that", async () => {
    const [pins, a] = [await pinned(["box", 1]), await wing(1)];

    expect(pins.setVerified((await wing(2)).wingId)).toBe(false);
    expect(pins.setVerified(a.wingId)).toBe(true);
    pins.observe(a, undefined, undefined, 2);

    expect((await Pins.parse(pins.toJson())).get(a.wingId)?.verified).toBe(true);
  });
});

describe("a name", () => {
  it("that is pinned stands for its id whoever else presents it", async () => {
    const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];

    expect(pins.resolve("box", [])).toEqual(plain(a));
    expect(pins.resolve("box", [presents(a, "box")])).toEqual(plain(a));
    expect(pins.resolve("box", [presents(b, "box"), presents(a, "renamed")])).toEqual({
      ...plain(a),
      conflicts: [{ label: "box", pinned: a.wingId, offered: b.wingId }],
    });
    const absent = () => pins.resolve("box", [presents(b, "box")]);
    expect(absent).toThrow(fingerprintOfWing(a.wingId));
    expect(absent).toThrow(fingerprintOfWing(b.wingId));
  });

  it("binds at its first use if one wing presents it", async () => {
    const [pins, a, b] = [new Pins(), await wing(1), await wing(2)];

    expect(pins.resolve("box", [presents(a, "box"), presents(b, "other")])).toEqual({ ...plain(a), binds: "box" });
    expect(() => pins.resolve("box", [presents(a, "box"), presents(b, "box")])).toThrow("could be any of");
    expect(() => pins.resolve("box", [])).toThrow("no wing is known");
  });

  it("that is a full id is always an id, and a prefix counts among pinned wings alone", async () => {
    const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];

    expect(pins.resolve(b.wingId, [])).toEqual(plain(b));
    expect(pins.resolve(a.wingId.slice(0, 8), [])).toEqual(plain(a));
    expect(pins.resolve(a.wingId.slice(0, 25), [])).toEqual(plain(a));
    // As people type and paste them.
    expect(pins.resolve(fingerprintOfWing(b.wingId).toUpperCase(), [])).toEqual(plain(b));
    expect(pins.resolve(fingerprintOfWing(a.wingId).slice(0, 12).toUpperCase(), [])).toEqual(plain(a));
    for (const name of [a.wingId.slice(0, 7), b.wingId.slice(0, 8), "no such name!"]) {
      expect(() => pins.resolve(name, [])).toThrow("no wing is known");
    }
  });

  it("that looks like the start of a pinned id is ambiguous", async () => {
    const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];
    const prefix = a.wingId.slice(0, 8);
    // A claim of a stranger does not count.
    expect(pins.resolve(prefix, [presents(b, prefix)])).toEqual(plain(a));

    pins.observe(b, label(prefix), undefined, 1);

    expect(() => pins.resolve(prefix, [])).toThrow("could be any of");
  });

  it("of a forgotten wing needs the full id of whoever presents it next", async () => {
    const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];

    expect(pins.forget("box", 5)).toEqual({ wingId: a.wingId, label: "box" });

    expect(() => pins.resolve("box", [presents(b, "box")])).toThrow("full id is needed");
    expect(pins.resolve(b.wingId, [])).toEqual(plain(b));
    pins.observe(b, label("box"), undefined, 6);
    expect(pins.get(b.wingId)?.label).toBeUndefined();
    expect(pins.setLabel(b.wingId, label("box"))).toBe(true);
    expect(pins.resolve("box", [])).toEqual(plain(b));
    expect((await Pins.parse(pins.toJson())).toJson()).toEqual(pins.toJson());
  });

  it("is given to one wing at a time", async () => {
    const pins = await pinned(["box", 1], ["car", 2]);

    const [a, b, c] = [await wing(1), await wing(2), await wing(3)];
    expect(() => pins.setLabel(b.wingId, label("box"))).toThrow(fingerprintOfWing(a.wingId));
    expect(pins.setLabel(a.wingId, label("box"))).toBe(true);
    expect(pins.setLabel(c.wingId, label("new"))).toBe(false);
  });
});

describe("an identity that steps down", () => {
  it("is followed to its successor, with its name and unverified", async () => {
    const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];
    pins.setVerified(a.wingId);

    const notices = pins.takeStatements(await said([[1, 2]]), [b], 5);

    expect(notices).toEqual([{ type: "Followed", from: a.wingId, to: b.wingId, label: "box" }]);
    expect(pins.get(b.wingId)).toMatchObject({ label: "box", verified: false });
    expect([pins.get(a.wingId), pins.successorOf(a.wingId)]).toEqual([undefined, b.wingId]);
    expect(() => pins.compare(a)).toThrow(`it is wing ${fingerprintOfWing(b.wingId)}`);
    expect(pins.takeStatements(await said([[1, 2]]), [b], 6)).toEqual([]);
    expect((await Pins.parse(pins.toJson())).toJson()).toEqual(pins.toJson());
    // Its user may want it back, by its full id.
    expect(pins.forget(a.wingId, 7)).toEqual({ wingId: a.wingId, label: undefined });
    expect(pins.compare(a)).toEqual({ type: "FirstSeen" });
  });

  it("is followed through a chain to its end, and through a loop nowhere", async () => {
    const [pins, a, c] = [await pinned(["box", 1]), await wing(1), await wing(3)];

    expect(pins.takeStatements(await said([[3, 2], [2, 3]]), [c], 5)).toEqual([]);
    const notices = pins.takeStatements(await said([[1, 2], [2, 3]]), [c], 5);

    expect(notices).toEqual([{ type: "Followed", from: a.wingId, to: c.wingId, label: "box" }]);
  });

  it("is not followed through one that was revoked, though nobody here knew that", async () => {
    const [pins, c] = [await pinned(["box", 1]), await wing(3)];
    const before = pins.toJson();

    expect(pins.takeStatements(await said([[1, 2], [2, 3]], [2]), [c], 5)).toEqual([]);

    expect(pins.toJson()).toEqual(before);
  });

  it("is not followed to one that it did not name itself", async () => {
    const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];
    const [honest] = (await said([[1, 2]], [], (statements) => statements)).successors;
    const forged = { ...(honest as SuccessorStatement), signature: fill(64, 1) as never };
    const before = pins.toJson();

    const statements = await CheckedStatements.check({ successors: [forged], revocations: [] });

    expect(pins.takeStatements(statements, [b], 5)).toEqual([]);
    expect(pins.toJson()).toEqual(before);
    expect(pins.get(a.wingId)).toBeDefined();
  });

  it("and is revoked is followed by nobody and never used again", async () => {
    const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];

    const notices = pins.takeStatements(await said([[1, 2]], [1, 9]), [b], 5);

    expect(notices).toEqual([{ type: "Revoked", wing: a.wingId, label: "box" }]);
    expect(pins.all()).toEqual([]);
    expect(pins.tombstones()).toHaveLength(1);
    const again = await Pins.parse(pins.toJson());
    expect(() => again.observe(a, undefined, undefined, 6)).toThrow("must not be used any more");
    expect(again.takeStatements(await said([[1, 2]]), [b], 7)).toEqual([]);
    // Its name is free for a wing that the user adds.
    expect(again.add(b, label("box"), undefined, 8)).toEqual({ type: "FirstSeen" });
    expect(again.resolve("box", [])).toEqual(plain(b));
  });

  it("and is revoked later casts doubt on its successor, unless that was compared", async () => {
    for (const verified of [false, true]) {
      const [pins, b] = [await pinned(["box", 1]), await wing(2)];
      pins.takeStatements(await said([[1, 2]]), [b], 5);
      if (verified) {
        pins.setVerified(b.wingId);
      }

      const notices = pins.takeStatements(await said([[1, 2]], [1]), [b], 6);

      expect(notices).toEqual(verified ? [] : [{ type: "Doubted", wing: b.wingId, label: "box" }]);
      expect(pins.get(b.wingId) !== undefined).toBe(verified);
    }
  });
});

describe("a comparison of digits", () => {
  it("may begin three times an hour, whatever the clock does", async () => {
    const [pins, a] = [await pinned(["box", 1]), await wing(1)];

    for (const at of [1_000, 2_000, 3_000]) {
      expect(pins.beginCompare(a.wingId, at)).toBe(true);
    }
    for (const at of [4_000, 0, 3_600_999]) {
      expect(() => pins.beginCompare(a.wingId, at)).toThrow("3 times an hour");
    }
    expect((await Pins.parse(pins.toJson())).get(a.wingId)?.comparedMs).toEqual([1_000n, 2_000n, 3_000n]);
    expect(pins.beginCompare(a.wingId, 3_601_000)).toBe(true);
    expect(pins.beginCompare((await wing(2)).wingId, 1)).toBe(false);
  });
});

it("a wing that is added gets the name its user gave, unless another has it", async () => {
  const [pins, a, b] = [await pinned(["box", 1]), await wing(1), await wing(2)];
  const before = pins.toJson();

  expect(() => pins.add(b, label("box"), undefined, 2)).toThrow(fingerprintOfWing(a.wingId));
  expect(pins.toJson()).toEqual(before);
  expect(pins.add(b, label("car"), "https://r", 2)).toEqual({ type: "FirstSeen" });
  expect(pins.resolve("car", [])).toEqual(plain(b));
});

describe("the file", () => {
  it("survives a rewrite with what a newer build put in, to the last digit", async () => {
    const pins = await pinned(["box", 1], ["car", 2], ["old", 3]);
    pins.forget("old", 9);
    const file = text(pins)
      .replace('"verified": false', '"verified": false,\n      "colour": {\n        "a": [\n          1.50,\n          18446744073709551615\n        ]\n      }')
      .replace(/\n}\n$/, ',\n  "later": "k\u00e9pt\\u0001"\n}\n');

    const parsed = await Pins.parse(utf8(file));
    parsed.observe(await wing(4), undefined, undefined, 1);

    expect(text(parsed)).not.toBe(file);
    expect(text(await Pins.parse(utf8(file)))).toBe(file);
    expect(text(parsed)).toContain("18446744073709551615");
  });

  it("keeps the largest seq that there is", async () => {
    const pins = new Pins();
    pins.observe(await wing(1, 1, 2n ** 64n - 1n), undefined, undefined, 1);

    const again = await Pins.parse(pins.toJson());

    expect(again.get((await wing(1)).wingId)?.wing.seq).toBe(2n ** 64n - 1n);
  });

  it("that does not parse is an error that says why, and is never reset", async () => {
    const good = text(await pinned(["box", 1]));
    const other = base32((await wing(2)).identity);
    const change = (from: string | RegExp, to: string) => Pins.parse(utf8(good.replace(from, to)));
    const entry = good.slice(good.indexOf("{", 1), good.lastIndexOf("}\n  ]") + 1);

    await expect(Pins.parse(utf8(good))).resolves.toBeDefined();
    for (const bad of ["", "{}", "[]", good.slice(0, good.length / 2), `${good}x`, '{"version": 1, "wings": {}}']) {
      await expect(Pins.parse(utf8(bad)), bad).rejects.toMatchObject({ reason: "json" });
    }
    await expect(Pins.parse(fill(1, 0xff))).rejects.toMatchObject({ reason: "json" });
    await expect(Pins.parse(fill((8 << 20) + 1, 32))).rejects.toMatchObject({ reason: "too-large" });
    await expect(change('"version": 1', '"version": 2')).rejects.toMatchObject({ reason: "version" });
    await expect(Pins.parse(utf8('{"version": 7, "wings": {}}'))).rejects.toMatchObject({ reason: "version" });
    await expect(change(/"identity": "[^"]+"/, `"identity": "${other}"`)).rejects.toMatchObject({ reason: "entry" });
    const weak = `"noise_key": "${base32(fill(32, 0))}"`;
    await expect(change(/"noise_key": "[^"]+"/, weak)).rejects.toMatchObject({ reason: "entry" });
    await expect(change(entry, `${entry}, ${entry}`)).rejects.toMatchObject({ reason: "twice" });
    const renamed = entry.replace('"box"', '"car"');
    await expect(change(entry, `${entry}, ${renamed}`)).rejects.toMatchObject({ reason: "twice" });
    await expect(change('"seq": 1', '"seq": 1, "seq": 2')).rejects.toMatchObject({ reason: "json" });
    for (const seq of ["-1", "1.0", "1e3", '"1"', "18446744073709551616"]) {
      await expect(change('"seq": 1', `"seq": ${seq}`), seq).rejects.toMatchObject({ reason: "json" });
    }
    await expect(change('"box"', '"b x"')).rejects.toMatchObject({ reason: "json" });
    await expect(change('"label": "box"', '"label": null')).resolves.toBeDefined();
  });
});

describe("the store", () => {
  it("loses no change of writers at the same time", async () => {
    const store = new PinStore(new MemoryPinStorage());
    const wings = await Promise.all([1, 2, 3, 4, 5].map((number) => wing(number)));

    await Promise.all(wings.map((wing) => store.update((pins) => pins.observe(wing, undefined, undefined, 1))));

    expect((await store.read()).all()).toHaveLength(5);
  });

  it("leaves the file as it was when a change is refused, and goes on", async () => {
    const store = new PinStore(new MemoryPinStorage((await pinned(["box", 1])).toJson()));
    const other = await wing(1, 99);

    await expect(store.update((pins) => pins.observe(other, undefined, undefined, 2))).rejects.toThrow("same seq");

    await store.update((pins) => pins.forget("box", 3));
    expect((await store.read()).all()).toEqual([]);
  });

  it("never goes on with a file that does not parse", async () => {
    const storage = new MemoryPinStorage(utf8("{"));
    const store = new PinStore(storage);

    await expect(store.read()).rejects.toMatchObject({ name: "PinFileError" });
    await expect(store.update(() => undefined)).rejects.toMatchObject({ name: "PinFileError" });
    expect(await storage.read()).toEqual(utf8("{"));
  });
});

describe("JSON", () => {
  it("is what the platform reads, member for member", () => {
    for (const value of [null, true, -1.5e300, "a\"\\\n\u2028é😀", [], {}, [1, [2, {}]], { a: { b: [null] }, "": 0 }]) {
      for (const written of [JSON.stringify(value), JSON.stringify(value, null, "\t")]) {
        expect(JSON.parse(writeJson(parseJson(written)))).toEqual(value);
        expect(writeJson(parseJson(JSON.stringify(value, null, 2)))).toBe(JSON.stringify(value, null, 2));
      }
    }
  });

  it("has no other form", () => {
    const bad = ["", "01", "+1", "1.", ".5", "tru", "'a'", '"a', '"\n"', '"\\x"', '"\\ud800"', "[1,]", "{,}", '{"a"}', '{"a":1,}', '{"a":1,"a":1}', "1 2", "NaN", `${"[".repeat(200)}${"]".repeat(200)}`];
    for (const text of bad) {
      expect(() => parseJson(text), text).toThrow();
    }
    expect(parseJson(`${"[".repeat(100)}${"]".repeat(100)}`)).toBeDefined();
  });
});

/** The same wing for the same number. */
async function wing(number: number, noise = number, seq = 1n): Promise<VerifiedWing> {
  return (await Wing.number(number, noise, seq)).verified();
}

async function pinned(...wings: [string, number][]): Promise<Pins> {
  const pins = new Pins();
  for (const [name, number] of wings) {
    pins.observe(await wing(number), label(name), undefined, 1);
  }
  return pins;
}

/** What identities, by their numbers, say of their successors and of themselves. */
async function said(successors: [number, number][], revoked?: number[]): Promise<CheckedStatements>;
async function said<T>(successors: [number, number][], revoked: number[], as: (raw: WingStatements) => T): Promise<T>;
async function said(successors: [number, number][], revoked: number[] = [], as?: (raw: WingStatements) => unknown) {
  const raw: WingStatements = {
    successors: await Promise.all(
      successors.map(async ([old, next]) => (await Wing.number(old)).successor((await wing(next)).wingId)),
    ),
    revocations: await Promise.all(revoked.map(async (number) => (await Wing.number(number)).revocation())),
  };
  return as ? as(raw) : CheckedStatements.check(raw);
}

function observation(change: object) {
  return { change, conflict: undefined };
}

function text(pins: Pins): string {
  return new TextDecoder().decode(pins.toJson());
}
