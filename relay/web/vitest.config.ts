import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // A bound for a busy machine; every test here takes under a second on an idle one.
    testTimeout: 60_000,
    reporters: ["default"],
  },
});
