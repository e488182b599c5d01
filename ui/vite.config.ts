import { svelte } from "@sveltejs/vite-plugin-svelte";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// `--mode recorded` builds the same interface over the recorded store of tests/ui, for a plain browser.
export default defineConfig(({ mode }) => {
  const recorded = mode === "recorded";
  return {
    root: here(recorded ? "../tests/ui/page" : "."),
    base: "./",
    publicDir: false,
    plugins: [svelte({ configFile: here("svelte.config.js") })],
    build: {
      outDir: here(recorded ? "../target/ui-recorded" : "dist"),
      emptyOutDir: true,
      // The content security policy allows no data: fonts, so nothing is inlined.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      target: "safari18",
      chunkSizeWarningLimit: 400,
    },
    server: { port: 5713, strictPort: true },
    test: { include: ["src/**/*.test.ts"], environment: "node", env: { TZ: "UTC" } },
  };
});
