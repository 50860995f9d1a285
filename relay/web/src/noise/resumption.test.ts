import { describe, expect, it } from "vitest";

import { fill } from "../../test/support.ts";
import { concat, utf8 } from "./bytes.ts";
import type { AttachmentId, EggEpoch } from "./ids.ts";
import { INPUT_WINDOW } from "./limits.ts";
import type { History, WingMessage } from "./messages.ts";
import { Place } from "./resumption.ts";

const EPOCH = fill(16, 1) as EggEpoch;
const id = (value: number) => fill(16, value) as AttachmentId;

describe("input", () => {
  it("keeps within the window until it is applied", () => {
    const place = attachedPlace();
    place.typed(fill(INPUT_WINDOW + 5, 7));

    let sent = 0n;
    for (let next = place.nextInput(); next; next = place.nextInput()) {
      expect(next.offset).toBe(sent);
      sent += BigInt(next.bytes.length);
    }
    expect(sent).toBe(BigInt(INPUT_WINDOW));

    place.take(output(100n, 3n, ""));
    expect(place.nextInput()).toEqual({ offset: BigInt(INPUT_WINDOW), bytes: fill(3, 7) });
    expect(place.nextInput()).toBeUndefined();
  });

  it("that was not applied before a cut is sent again", () => {
    const place = attachedPlace();
    place.typed(utf8("abcdef"));
    place.nextInput();
    place.take(output(100n, 2n, "ab"));
    place.typed(utf8("gh"));

    expect(place.resume()).toEqual({ epoch: EPOCH, next: 8n, acked: 2n, have: 102n });
    place.take(attached({ type: "Continued" }, 4n, 102n));

    expect(place.nextInput()).toEqual({ offset: 4n, bytes: utf8("efgh") });
  });

  it("under way is not sent to another life of the session, but shown", () => {
    const place = attachedPlace();
    place.typed(utf8("rm x"));
    place.nextInput();

    const taken = place.take(attached({ type: "Differs" }, 0n, 500n));

    expect(taken).toMatchObject({ type: "Attached", undelivered: utf8("rm x") });
    expect(place.nextInput()).toBeUndefined();
    place.typed(utf8("y"));
    expect(place.nextInput()).toEqual({ offset: 0n, bytes: utf8("y") });
  });

  it("is not sent again when the session goes back behind what it said it applied", () => {
    const place = attachedPlace();
    place.typed(utf8("abc"));
    place.nextInput();
    place.take(output(100n, 2n, ""));

    const taken = place.take(attached({ type: "Continued" }, 1n, 100n));

    expect(taken).toMatchObject({ undelivered: utf8("c") });
    expect(place.nextInput()).toBeUndefined();
  });

  it("that was held for too long is given back and never sent", () => {
    const place = attachedPlace();
    place.typed(utf8("rm x"));
    place.nextInput();
    place.take(output(100n, 1n, "r"));
    place.typed(utf8("; ls"));

    expect(place.giveUp(id(3))).toEqual(utf8("m x; ls"));

    // The session may have more than it said: a new attachment takes no part in that.
    expect([place.attachment, place.resume(), place.refuses]).toEqual([id(3), null, true]);
    place.take(attached({ type: "Fresh" }, 0n, 500n));
    expect([place.refuses, place.nextInput()]).toEqual([false, undefined]);
    place.typed(utf8("y"));
    expect(place.nextInput()).toEqual({ offset: 0n, bytes: utf8("y") });
  });

  it("goes on under the same attachment after any time when none was held", () => {
    const place = attachedPlace();
    const resume = place.resume();

    expect(place.giveUp(id(3))).toEqual(fill(0, 0));

    expect([place.attachment, place.resume(), place.refuses]).toEqual([id(2), resume, true]);
  });

  it("that is the rest of a paste is ended when it is refused", () => {
    const place = attachedPlace();
    place.typed(utf8("\x1b[200~half"));
    place.nextInput();
    place.take(output(100n, 10n, ""));
    place.typed(utf8(" rest\x1b[201~"));

    expect(place.giveUp(id(3))).toEqual(utf8(" rest\x1b[201~"));
    place.take(attached({ type: "Fresh" }, 0n, 500n));

    expect(place.nextInput()).toEqual({ offset: 0n, bytes: utf8("\x1b[201~") });
    const whole = attachedPlace();
    whole.typed(utf8("\x1b[200~all\x1b[201~"));
    whole.giveUp(id(3));
    expect(whole.nextInput()).toBeUndefined();
  });

  it("that was not sent is told of, and a watcher's goes nowhere", () => {
    const place = attachedPlace();
    place.typed(fill(INPUT_WINDOW + 5, 7));
    while (place.nextInput()) {
      // All that the window takes.
    }
    expect(place.unsent()).toEqual(fill(5, 7));

    const watching = attachedPlace();
    watching.take({ type: "Writer", value: false });
    watching.typed(utf8("x"));
    expect(watching.nextInput()).toBeUndefined();
  });

  it("has no room beyond the largest paste", () => {
    const place = attachedPlace();
    expect(place.hasRoom).toBe(true);
    place.typed(new Uint8Array(8 << 20));
    expect(place.hasRoom).toBe(false);
  });
});

describe("output", () => {
  it("is counted, and refused out of its place", () => {
    const place = attachedPlace();

    expect(place.take(output(100n, 0n, "hi"))).toEqual({ type: "Output", bytes: utf8("hi") });
    expect(place.resume()?.have).toBe(102n);
    for (const offset of [100n, 101n, 103n]) {
      expect(() => place.take(output(offset, 0n, "x"))).toThrow("protocol");
    }
    expect(place.take(output(102n, 0n, "x"))).toMatchObject({ type: "Output" });
  });

  it("cannot acknowledge what was never sent", () => {
    const place = attachedPlace();
    place.typed(utf8("ab"));

    expect(() => place.take(output(100n, 1n, ""))).toThrow("protocol");
    place.nextInput();
    expect(place.take(output(100n, 1n, ""))).toEqual({ type: "Nothing" });
  });

  it("that was skipped is told of, and a snapshot comes whole", () => {
    const place = attachedPlace();

    expect(place.take(attached({ type: "Skipped", bytes: 9n }, 0n, 300n))).toMatchObject({ skipped: 9n });
    expect(place.take({ type: "Snapshot", last: false, bytes: utf8("a") })).toEqual({ type: "Nothing" });
    expect(place.take({ type: "Snapshot", last: true, bytes: utf8("b") })).toEqual({ type: "Repaint", bytes: utf8("ab") });
    expect(place.take(output(300n, 0n, "c"))).toEqual({ type: "Output", bytes: utf8("c") });
  });

  it("ends by the session, by a newer stream or by a refusal, and never by an answer to nothing", () => {
    const place = attachedPlace();
    const exit = { code: 0, signal: null, atMs: 1n };

    expect(place.take({ type: "Exited", value: exit })).toEqual({ type: "Exited", exit });
    expect(place.take({ type: "Replaced" })).toEqual({ type: "Replaced" });
    const failure = { kind: "NotFound", message: "m", hint: null } as const;
    expect(place.take({ type: "Refused", value: failure })).toEqual({ type: "Refused", failure });
    expect(place.take({ type: "Resized", value: { cols: 1, rows: 2 } })).toMatchObject({ size: { cols: 1, rows: 2 } });
    const reply = { type: "Reply", id: fill(16, 1) as never, result: { type: "Err", value: failure } } as const;
    expect(() => place.take(reply)).toThrow("protocol");
  });
});

it("over a thousand cuts at random nothing typed is lost, doubled or reordered", () => {
  const seed = Date.now() % 100_000;
  const random = generator(seed);
  const place = new Place(id(2));
  const egg = { applied: utf8(""), output: 0n };
  let typed = utf8("");
  let history: History = { type: "Fresh" };

  for (let round = 0; round < 1_000; round++) {
    place.take(attached(history, BigInt(egg.applied.length), egg.output));
    history = { type: "Continued" };
    for (let step = random(6); step > 0; step--) {
      const bytes = fill(random(40), random(256));
      typed = concat(typed, bytes);
      place.typed(bytes);
      const sent = place.nextInput();
      // The stream may be cut before the input arrives, or before its acknowledgement does.
      if (sent && random(4) > 0) {
        const skip = Number(BigInt(egg.applied.length) - sent.offset);
        if (skip < 0) {
          break;
        }
        egg.applied = concat(egg.applied, sent.bytes.slice(skip));
        if (random(3) > 0) {
          place.take(output(egg.output, BigInt(egg.applied.length), "o"));
          egg.output += 1n;
        }
      }
    }
    egg.output = place.resume()?.have ?? 0n;
  }
  place.take(attached(history, BigInt(egg.applied.length), egg.output));
  for (let sent = place.nextInput(); sent; sent = place.nextInput()) {
    egg.applied = concat(egg.applied, sent.bytes);
  }

  expect(Buffer.from(egg.applied).equals(typed), `seed ${seed}`).toBe(true);
});

function attached(history: History, applied: bigint, output: bigint): WingMessage {
  const size = { cols: 80, rows: 24 };
  const value = { session: "aaaaaaaaaaaa" as never, name: "work", epoch: EPOCH, history, applied, output, size, writer: true };
  return { type: "Attached", value };
}

function output(offset: bigint, applied: bigint, text: string): WingMessage {
  return { type: "Output", offset, applied, bytes: utf8(text) };
}

function attachedPlace(): Place {
  const place = new Place(id(2));
  place.take(attached({ type: "Fresh" }, 0n, 100n));
  return place;
}

/** Numbers below a bound, the same for the same seed. */
function generator(seed: number): (below: number) => number {
  let state = seed + 1;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 16) % below;
  };
}
