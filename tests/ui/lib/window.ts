// Opens a scene in the browser, and the questions that every test asks of it.

import axe from "axe-core";
import { mkdirSync } from "node:fs";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, inject } from "vitest";
import type { Change } from "../../../ui/src/wire/Change";
import type { Answer, Recorded } from "../page/recorded";
import { screenshots } from "./setup";

/** Tuesday, 24 November 2026, 09:38:31 UTC: the moment of every scene. */
export const NOW = Date.UTC(2026, 10, 24, 9, 38, 31);

export interface Look {
  width?: number;
  height?: number;
  theme?: "light" | "dark";
  motion?: "reduce" | "no-preference";
}

let browser: Browser;
let contexts: BrowserContext[] = [];
let problems: string[] = [];

/** Connects to the browser of this run, and fails a test in which the page complained. */
export function useBrowser(): void {
  beforeAll(async () => {
    browser = await chromium.connect(inject("browser"));
  });
  afterAll(() => browser.close());
  afterEach(async () => {
    const said = problems;
    [problems, contexts] = [[], await closeAll()];
    expect(said, "what the page complained of").toEqual([]);
  });
}

async function closeAll(): Promise<BrowserContext[]> {
  for (const context of contexts) await context.close();
  return [];
}

/** A page of an address; errors, and what the content security policy blocked, fail the test. */
export async function visit(address: string, look: Look = {}): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: look.width ?? 1100, height: look.height ?? 720 },
    colorScheme: look.theme ?? "light",
    reducedMotion: look.motion ?? "reduce",
    timezoneId: "UTC",
    locale: "en-GB",
  });
  contexts.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(45_000);
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.clock.setFixedTime(NOW);
  // As the app does it (`freezePrototype`).
  await page.addInitScript(() => Object.freeze(Object.prototype));
  await page.goto(address);
  await page.evaluate(() => document.fonts.ready);
  return page;
}

/** A scene in the window. */
export async function scene(name: string, look: Look = {}): Promise<Page> {
  const page = await visit(`${inject("origin")}/?scene=${name}`, look);
  await page.waitForSelector("main");
  return page;
}

declare global {
  interface Window {
    recorded: Recorded;
  }
}

/** The app tells the window of changes. */
export const patch = (page: Page, ...changes: Change[]) => page.evaluate((all) => window.recorded.patch(...all), changes);

/** The same page in another size and theme. */
export async function seen(page: Page, width: number, theme: "light" | "dark"): Promise<void> {
  await page.emulateMedia({ colorScheme: theme });
  await page.setViewportSize({ width, height: width === 360 ? 640 : 720 });
}

/** From now on a command answers so. */
export const answer = (page: Page, command: string, to: Answer) =>
  page.evaluate(([name, value]) => window.recorded.answer(name as string, value as Answer), [command, to] as const);

/** What the window asked of the app so far, without the places that it went to. */
export async function calls(page: Page): Promise<{ command: string; request: unknown }[]> {
  const all = await page.evaluate(() => window.recorded.calls);
  return all.filter(({ command }) => command !== "open_place");
}

/** Fails where axe finds anything against WCAG 2.2 AA or its own best practices. */
export async function accessible(page: Page): Promise<void> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const run = (window as unknown as { axe: typeof axe }).axe;
    const { violations } = await run.run(document, {
      resultTypes: ["violations"],
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    return violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target.join(" ")} (${n.failureSummary ?? ""})`).join("; ")}`);
  });
  expect(found).toEqual([]);
}

/** Nothing is wider than the window. */
export async function fits(page: Page): Promise<void> {
  const wide = await page.evaluate(() => {
    const limit = document.documentElement.clientWidth;
    return [...document.querySelectorAll("main *, .side *, .foot *")]
      .filter((element) => element.getBoundingClientRect().right > limit + 1 && !element.closest(".chips, .unseen, select, .says *, .cut *"))
      .map((element) => `${element.tagName}.${element.getAttribute("class") ?? ""}`);
  });
  expect(wide).toEqual([]);
}

/** Keeps a picture of the window under target/ui-screenshots. */
export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: `${screenshots}/${name}.png` });
}
