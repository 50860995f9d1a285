import { describe, expect, it } from "vitest";

import { fill, Wing } from "../../test/support.ts";
import { base32, utf8 } from "./bytes.ts";
import { fingerprintOfNoiseKey, fingerprintOfWing, type WingLabel } from "./ids.ts";
import { parseJson, writeJson } from "./json.ts";
import type { VerifiedWing } from "./keys.ts";
import { MemoryPinStorage, PinStore } from "./pin_store.ts";
import { Pins } from "./pins.ts";

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

    expect(pins.forget("box", 5).wing).toEqual(a);

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

function observation(change: object) {
  return { change, conflict: undefined };
}

function text(pins: Pins): string {
  return new TextDecoder().decode(pins.toJson());
}
