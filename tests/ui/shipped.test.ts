// The interface as it ships: under its policy, without the app, and without anything of the tests.

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, inject, it } from "vitest";
import { accessible, picture, useBrowser, visit } from "./lib/window";

useBrowser();

describe("what ships", () => {
  it("says that it can't reach the app when there is none", async () => {
    const page = await visit(inject("shipped"));
    await page.getByRole("heading", { name: "The window can’t reach the app" }).waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "The window can’t reach the app" }).waitFor();
    await picture(page, "shipped-alone");
    await accessible(page);
  });

  it("holds no recorded store, no other origin and nothing inline", () => {
    const dist = fileURLToPath(new URL("../../ui/dist", import.meta.url));
    const page = readFileSync(`${dist}/index.html`, "utf8");
    expect(page).not.toMatch(/<style|style=|<script(?![^>]*src=)|https?:/);
    for (const name of readdirSync(`${dist}/assets`).filter((file) => /\.(js|css)$/.test(file))) {
      const text = readFileSync(`${dist}/assets/${name}`, "utf8");
      expect(text).not.toContain("recorded");
      expect(text.match(/https?:\/\/(?!svelte\.dev|www\.w3\.org|teams\.example\.org)[a-z0-9.]+/g) ?? [], name).toEqual([]);
    }
  });
});
