import { describe, expect, it } from "vitest";

import { type End, fill, frames, pair } from "../../test/support.ts";
import { type Bytes, concat, u16be, utf8 } from "./bytes.ts";
import { encode } from "./codec.ts";
import { Deframer, frame } from "./deframer.ts";
import { MAX_MESSAGE, MAX_RECORD_PLAINTEXT, MAX_SEALED_RECORD } from "./limits.ts";
import { padded } from "./padding.ts";
import { RecordCodec, type SealedRecord } from "./records.ts";
import { SessionDead } from "./session.ts";

const message = (value: Uint8Array) => ({ type: "Message", value });

describe("messages", () => {
  it("of every size arrive whole in both directions", async () => {
    const { client, wing } = await pair();

    for (const size of [0, 1, 60, 61, 62, 16_380, 16_381, 16_382, 32_762, 32_763, MAX_MESSAGE]) {
      const sent = Uint8Array.from({ length: size }, (_, at) => at & 0xff);
      for (const [from, to] of [[client, wing], [wing, client]] as [End, End][]) {
        const opened = await to.receive(await from.seal(sent));
        const last = opened.pop();
        expect(last?.type === "Message" && Buffer.from(last.value).equals(sent)).toBe(true);
        expect(new Set(opened.map(({ type }) => type))).toEqual(new Set(size > 16_381 ? ["Partial"] : []));
      }
    }
  });

  it("over the cap are not sealed and end nothing", async () => {
    const { client, wing } = await pair();

    await expect(client.seal(new Uint8Array(MAX_MESSAGE + 1))).rejects.toMatchObject({ reason: "too-large" });

    expect(await wing.receive(await client.seal("on"))).toEqual([message(utf8("on"))]);
  });

  it("that are sealed at once keep the order of the calls", async () => {
    const { client, wing } = await pair({ rekeyRecords: 3 });
    const sent = Array.from({ length: 20 }, (_, at) => fill(at * 997, at));

    const sealed = await Promise.all(sent.map((bytes) => client.seal(bytes)));
    const records = frames(concat(...sealed));
    const opened = await Promise.all(records.map((record) => wing.opener.open(record)));

    const arrived = opened.flatMap((one) => (one.type === "Message" ? [Buffer.from(one.value).toString("base64")] : []));
    expect(arrived).toEqual(sent.map((bytes) => Buffer.from(bytes).toString("base64")));
  });

  it("with pings, pongs, covers and the close arrive", async () => {
    const { client, wing } = await pair();

    const sealed = concat(
      await client.sealer.ping(fill(16, 7), 0),
      await client.sealer.pong(fill(16, 8), 0),
      await client.sealer.cover(0),
      await client.sealer.close({ type: "Done" }),
    );

    expect(await wing.receive(sealed)).toEqual([
      { type: "Ping", value: fill(16, 7) },
      { type: "Pong", value: fill(16, 8) },
      { type: "Cover" },
      { type: "Close", value: { type: "Done" } },
    ]);
    expect(wing.opener.isClosed).toBe(true);
    await expect(client.seal("after")).rejects.toMatchObject({ reason: "dead" });
  });
});

describe("records", () => {
  it("have the sizes of buckets whatever they hold", async () => {
    const { client } = await pair();
    const sizes = async (size: number) => frames(await client.seal(fill(size, 0))).map((record) => record.length);

    expect(await sizes(0)).toEqual([80]);
    expect(await sizes(61)).toEqual([80]);
    // From here on the message's length takes a second byte as soon as it has 128 bytes.
    expect(await sizes(63)).toEqual([272]);
    expect(await sizes(16_381)).toEqual([16_400]);
    expect(await sizes(16_382)).toEqual([16_400, 80]);
    expect(frames(await client.sealer.message(fill(1, 0), 0, "full")).map((record) => record.length)).toEqual([16_400]);
    client.sealer.padding = "off";
    expect(await sizes(1)).toEqual([19]);
  });

  it("are padded to five sizes and no other", () => {
    const sizes = new Set(Array.from({ length: MAX_RECORD_PLAINTEXT + 1 }, (_, used) => padded("buckets", used)));

    expect([...sizes]).toEqual([64, 256, 1_024, 4_096, 16_384]);
    expect([padded("buckets", 64), padded("buckets", 65), padded("off", 65)]).toEqual([64, 256, 65]);
  });

  it("open in the order of sending alone", async () => {
    for (const order of [[0, 0], [0, 1, 0], [1, 0], [1], [0, 2]]) {
      const { client, wing } = await pair();
      const records = [await client.seal("0"), await client.seal("1"), await client.seal("2")];
      await expect(wing.receive(concat(...order.map((at) => records[at] as Bytes))), `${order}`).rejects.toThrow(SessionDead);
    }
    const { client, wing } = await pair();
    const all = concat(await client.seal("0"), await client.seal("1"), await client.seal("2"));
    expect(await wing.receive(all)).toHaveLength(3);
  });

  it("with any changed byte are fatal to both directions", async () => {
    for (const at of [0, 1, 40, 63, 64, 79]) {
      const { client, wing } = await pair();
      const [record] = frames(await client.seal("x")) as [Bytes];
      record[at] = (record[at] as number) ^ 1;

      await expect(wing.opener.open(record)).rejects.toThrow(SessionDead);

      await expect(wing.seal("after")).rejects.toMatchObject({ reason: "dead" });
      await expect(wing.opener.open(record)).rejects.toThrow(SessionDead);
    }
  });

  it("that are cut, longer, empty or too large are fatal", async () => {
    const changes: ((record: Bytes) => Bytes)[] = [
      (record) => record.slice(0, -1),
      (record) => concat(record, fill(1, 0)),
      (record) => record.slice(0, 15),
      () => fill(0, 0),
      (record) => concat(record, fill(MAX_SEALED_RECORD, 0)),
    ];
    for (const change of changes) {
      const { client, wing } = await pair();
      const [record] = frames(await client.seal("x")) as [Bytes];
      await expect(wing.opener.open(change(record))).rejects.toThrow(SessionDead);
    }
  });

  it("that come back or belong to another session are fatal", async () => {
    const [one, other] = [await pair(), await pair()];

    await expect(one.client.receive(await one.client.seal("x"))).rejects.toThrow(SessionDead);
    await expect(other.wing.receive(await (await pair()).client.seal("x"))).rejects.toThrow(SessionDead);
  });

  it("after the close are fatal", async () => {
    const { wing, raw } = await forger();
    const [closed, after] = [await raw({ type: "Close", value: { type: "Done" } }), await raw(text("after"))];

    expect(await wing.receive(closed)).toHaveLength(1);
    await expect(wing.receive(after)).rejects.toThrow(SessionDead);
  });

  it("whose padding is not zero, or that do not parse, are fatal", async () => {
    const good = encode(RecordCodec, text("x"), 64);
    for (const [plain, fatal] of [
      [concat(good, Uint8Array.of(0, 0)), false],
      [concat(good, Uint8Array.of(0, 1)), true],
      [fill(0, 0), true],
      [Uint8Array.of(99), true],
      [Uint8Array.of(0, 200), true],
      [Uint8Array.of(5, 99), true],
      [Uint8Array.of(1, 0), true],
    ] as [Bytes, boolean][]) {
      const { wing, plain: sealPlain } = await forger();
      const opened = wing.receive(await sealPlain(plain));
      await (fatal ? expect(opened).rejects.toThrow(SessionDead) : expect(opened).resolves.toHaveLength(1));
    }
  });

  it("that close in the middle of a message are fatal", async () => {
    const { wing, raw } = await forger();

    expect(await wing.receive(await raw({ type: "Part", value: utf8("half") }))).toEqual([{ type: "Partial" }]);
    await expect(wing.receive(await raw({ type: "Close", value: { type: "Done" } }))).rejects.toThrow(SessionDead);
  });

  it("of a message over the receiver's cap are fatal", async () => {
    const receive = async (...records: SealedRecord[]) => {
      const { wing, raw } = await forger({ maxMessage: 10 });
      const sealed: Bytes[] = [];
      for (const record of records) {
        sealed.push(await raw(record));
      }
      return wing.receive(concat(...sealed));
    };
    const part = (value: string): SealedRecord => ({ type: "Part", value: utf8(value) });

    expect(await receive(part("12345"), text("67890"))).toEqual([{ type: "Partial" }, message(utf8("1234567890"))]);
    await expect(receive(part("12345"), text("67890a"))).rejects.toThrow(SessionDead);
    await expect(receive(part("12345"), part("67890a"))).rejects.toThrow(SessionDead);
    await expect(receive(text("1234567890a"))).rejects.toThrow(SessionDead);
  });
});

describe("keys", () => {
  it("change in both directions under load on their own", async () => {
    const { client, wing } = await pair({ rekeyRecords: 5, maxRecords: 10 });
    const rekeys = { client: 0, wing: 0 };
    const pass = async (from: End, to: End, sent: Bytes) => {
      const opened = await to.receive(await from.seal(sent));
      const last = opened.at(-1);
      expect(last?.type === "Message" && Buffer.from(last.value).equals(sent)).toBe(true);
      return opened.filter(({ type }) => type === "Rekeyed").length;
    };

    for (let round = 0; round < 40; round++) {
      rekeys.client += await pass(client, wing, u16be(round));
      if (round % 3 === 0) {
        rekeys.wing += await pass(wing, client, fill(100_000, round));
      }
    }

    expect(rekeys.client).toBeGreaterThanOrEqual(6);
    expect(rekeys.wing).toBeGreaterThanOrEqual(12);
  });

  it("change by bytes and by age", async () => {
    const byBytes = await pair({ rekeyBytes: 200 });
    const counts: number[] = [];
    for (let round = 0; round < 4; round++) {
      counts.push(frames(await byBytes.client.seal("x")).length);
    }
    expect(counts).toEqual([1, 1, 1, 2]);

    const { client, wing } = await pair();
    for (const [at, records] of [[0, 1], [3_599_999, 1], [3_600_000, 2], [3_600_001, 1], [7_200_000, 2]] as [number, number][]) {
      const sealed = await client.sealer.message(utf8("x"), at);
      expect(frames(sealed), `after ${at} ms`).toHaveLength(records);
      await wing.receive(sealed);
    }
  });

  it("that the sender gave up open nothing more", async () => {
    const { wing, raw } = await forger();
    const rekey = await raw({ type: "Rekey" });
    // The sender did not change its key, though it said so.
    const stale = await raw(text("x"));

    expect(await wing.receive(rekey)).toEqual([{ type: "Rekeyed" }]);
    await expect(wing.receive(stale)).rejects.toThrow(SessionDead);
  });

  it("that are used for too long are given up by the receiver", async () => {
    for (const limits of [{ maxRecords: 3 }, { maxBytes: 3 * 80 }]) {
      const { client, wing } = await pair(limits);
      for (let round = 0; round < 3; round++) {
        await wing.receive(await client.seal("x"));
      }
      await expect(wing.receive(await client.seal("x"))).rejects.toThrow(SessionDead);
    }
  });
});

describe("frames", () => {
  it("are the same however the bytes were cut", () => {
    const payloads = [fill(1, 1), fill(200, 2), fill(17, 3)];
    const bytes = concat(...payloads.map(frame));

    for (let step = 1; step < bytes.length; step += 3) {
      const deframer = new Deframer(200);
      const seen: Bytes[] = [];
      for (let at = 0; at < bytes.length; at += step) {
        deframer.extend(bytes.slice(at, at + step));
        for (let next = deframer.next(); next; next = deframer.next()) {
          seen.push(next);
        }
      }
      expect(seen).toEqual(payloads);
      expect(deframer.isBetweenFrames).toBe(true);
    }
  });

  it("that are empty or over the cap are refused before their bytes come", () => {
    for (const length of [0, 101]) {
      const deframer = new Deframer(100);
      deframer.extend(u16be(length));
      expect(() => deframer.next()).toThrow();
      expect(() => deframer.next()).toThrow();
    }
    const deframer = new Deframer(100);
    deframer.extend(concat(u16be(100), fill(99, 1)));
    expect(deframer.next()).toBeUndefined();
    expect(deframer.isBetweenFrames).toBe(false);
  });
});

function text(value: string): SealedRecord {
  return { type: "Message", value: utf8(value) };
}

/**
 * A wing whose client seals what no honest one does. The client's first key is found by its
 * own platform: it is the first of two that the last step of the handshake imports.
 */
async function forger(changes: Parameters<typeof pair>[0] = {}) {
  const importKey = crypto.subtle.importKey.bind(crypto.subtle);
  const imported: CryptoKey[] = [];
  const spied = async (...parts: Parameters<typeof importKey>) => {
    const key = await importKey(...parts);
    if ((parts[2] as unknown) === "AES-GCM") {
      imported.push(key);
    }
    return key;
  };
  crypto.subtle.importKey = spied as typeof importKey;
  const { wing } = await pair(changes).finally(() => {
    crypto.subtle.importKey = importKey;
  });
  const key = imported.at(-2) as CryptoKey;
  let counter = 0n;
  const plain = async (bytes: Bytes) => {
    const iv = new Uint8Array(12);
    new DataView(iv.buffer).setBigUint64(4, counter++);
    return frame(new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, key, bytes)));
  };
  return { wing, plain, raw: (record: SealedRecord) => plain(encode(RecordCodec, record, MAX_RECORD_PLAINTEXT)) };
}
