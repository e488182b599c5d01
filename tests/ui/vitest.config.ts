import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["*.test.ts"],
    environment: "node",
    env: { TZ: "UTC" },
    globalSetup: "lib/setup.ts",
    // One browser at a time: the machines that run this have two cores.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
