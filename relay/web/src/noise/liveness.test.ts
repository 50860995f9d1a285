import { expect, it } from "vitest";

import { fill } from "../../test/support.ts";
import { Liveness, uptime } from "./liveness.ts";

const s = (seconds: number) => seconds * 1_000;

it("a session whose pings are answered lives", () => {
  const liveness = new Liveness(s(100));

  for (let round = 1; round < 100; round++) {
    const due = liveness.nextWake;
    expect(due).toBe(s(100 + 15 * round));
    expect([liveness.isPingDue(due), liveness.isDead(due)]).toEqual([true, false]);
    liveness.pinged(due, fill(16, round));
    expect(liveness.isPingDue(due)).toBe(false);
    expect(liveness.pong(fill(16, round))).toBe(true);
  }
});

it("without an answer a session is dead 40 seconds after the last proof", () => {
  const liveness = new Liveness(s(0));
  liveness.pinged(s(15), fill(16, 1));
  expect(liveness.isDead(s(39.999))).toBe(false);
  expect(liveness.isDead(s(40))).toBe(true);

  // A late answer proves the time of its ping, and no later one.
  expect(liveness.pong(fill(16, 1))).toBe(true);
  expect([liveness.isDead(s(54.999)), liveness.isDead(s(55))]).toEqual([false, true]);
});

it("foreign and repeated pongs are no sign of life", () => {
  const liveness = new Liveness(s(0));
  liveness.pinged(s(15), fill(16, 1));
  liveness.pinged(s(30), fill(16, 2));

  expect(liveness.pong(fill(16, 9))).toBe(false);
  expect(liveness.pong(fill(16, 2))).toBe(true);
  expect(liveness.pong(fill(16, 2))).toBe(false);
  // An older ping is closed by a newer pong.
  expect(liveness.pong(fill(16, 1))).toBe(false);
  expect(liveness.isDead(s(70))).toBe(true);
});

it("a clock that goes back kills nothing", () => {
  const liveness = new Liveness(s(100));

  expect([liveness.isDead(0), liveness.isPingDue(0)]).toEqual([false, false]);
});

it("the clock goes on", () => {
  expect(uptime()).toBeGreaterThan(0);
});
