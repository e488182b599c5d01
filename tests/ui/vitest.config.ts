import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["*.test.ts"],
    environment: "node",
    env: { TZ: "UTC" },
    expect: { poll: { timeout: 30_000 } },
    globalSetup: "lib/setup.ts",
    // The browser is one; more pages at once only wait for each other.
    maxWorkers: 2,
    // Waits are for conditions; these bounds only end what hangs, on a machine as busy as it may be.
    testTimeout: 240_000,
    hookTimeout: 120_000,
  },
});
