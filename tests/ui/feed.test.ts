// The feed as a person uses it: 10,000 events, reading while more come, filters, history, pausing.

import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { event } from "../../ui/src/testing";
import { answer, calls, NOW, patch, scene, useBrowser } from "./lib/window";

useBrowser();

const list = (page: Page) => page.getByRole("list", { name: "Events, newest last" });
const rowOf = (page: Page, text: string) => list(page).getByRole("button", { name: new RegExp(`\\b${text}\\b`) });
const said = (n: number) => ({ change: "feed" as const, items: [event(n, { at: NOW, data: { text: `event ${n}` } })] });

/** The scrolling box's position and sizes. */
const scroll = (page: Page) => list(page).evaluate((ul) => {
  const box = ul.parentElement as HTMLElement;
  return { top: box.scrollTop, view: box.clientHeight, length: box.scrollHeight };
});
const scrollTo = (page: Page, top: number) => list(page).evaluate((ul, to) => ((ul.parentElement as HTMLElement).scrollTop = to), top);
const isAtEnd = async (page: Page) => {
  const { top, view, length } = await scroll(page);
  return top + view >= length - 2;
};

/** The first event that is wholly in view, and where it stands. */
const reading = (page: Page) => list(page).evaluate((ul) => {
  const box = (ul.parentElement as HTMLElement).getBoundingClientRect();
  const rows = [...ul.querySelectorAll("[data-row]")].map((row) => ({ text: row.querySelector(".says")?.textContent ?? "", y: row.getBoundingClientRect().y }));
  return rows.filter(({ y }) => y >= box.y).sort((a, b) => a.y - b.y)[0];
});

describe("10,000 events", () => {
  it("are a few rows in the page, wherever the reader is", async () => {
    const page = await scene("feed-10000");
    await rowOf(page, "event 10000").waitFor();
    const { length } = await scroll(page);
    for (const part of [1, 0.5, 0.1, 0]) {
      await scrollTo(page, part * length);
      await expect.poll(async () => (await reading(page))?.text).toBeTruthy();
      expect(await list(page).getByRole("listitem").count()).toBeLessThan(60);
    }
    await rowOf(page, "event 1").waitFor();
    expect(await list(page).getByRole("listitem").last().getAttribute("aria-setsize")).toBe("10002");
  });

  it("stay within their bound when more come, and what is read stays where it is", async () => {
    const page = await scene("feed-10000");
    await scrollTo(page, 100_000);
    await expect.poll(async () => (await reading(page))?.text).not.toContain("event 9");
    const before = await reading(page);
    await patch(page, { change: "feed", items: Array.from({ length: 50 }, (_, i) => event(10_001 + i, { at: NOW })) });
    await page.getByRole("button", { name: "50 new events below" }).waitFor();
    expect(await reading(page)).toEqual(before);
    await rowOf(page, "event 51").waitFor({ state: "detached" });
  });
});

describe("the end", () => {
  it("is kept in view while the reader is there", async () => {
    const page = await scene("feed-10000");
    await rowOf(page, "event 10000").waitFor();
    await patch(page, said(10_001));
    await rowOf(page, "event 10001").waitFor();
    expect(await isAtEnd(page)).toBe(true);
  });

  it("is left alone while the reader reads, and is one press away", async () => {
    const page = await scene("feed-10000");
    await rowOf(page, "event 10000").waitFor();
    await list(page).hover();
    await page.mouse.wheel(0, -900);
    await page.getByRole("button", { name: "To the newest" }).waitFor();
    const before = await reading(page);
    await patch(page, said(10_001));
    const button = page.getByRole("button", { name: "1 new event below" });
    await button.waitFor();
    expect(await reading(page)).toEqual(before);
    await button.click();
    await rowOf(page, "event 10001").waitFor();
    await expect.poll(() => isAtEnd(page)).toBe(true);
    await button.waitFor({ state: "detached" });
  });

  it("stays the end when the window gets smaller", async () => {
    const page = await scene("feed-10000");
    await rowOf(page, "event 10000").waitFor();
    await page.setViewportSize({ width: 400, height: 500 });
    await expect.poll(() => isAtEnd(page)).toBe(true);
    await rowOf(page, "event 10000").waitFor();
  });
});

describe("what is new", () => {
  it("begins at a line where the reader left", async () => {
    const page = await scene("feed-full");
    await rowOf(page, "mobile asks a question").waitFor();
    expect(await page.getByText("new since you looked").count()).toBe(0);
    await page.getByRole("button", { name: /^Now/ }).click();
    await patch(page, said(900), said(901));
    await page.getByRole("button", { name: "Feed" }).click();
    await page.getByText("new since you looked").waitFor();
    const order = await list(page).evaluate((ul) =>
      [...ul.querySelectorAll("li")].sort((a, b) => a.getBoundingClientRect().y - b.getBoundingClientRect().y).map((li) => li.textContent?.trim() ?? ""),
    );
    const line = order.indexOf("new since you looked");
    expect(order[line - 1]).toContain("mobile asks a question");
    expect(order[line + 1]).toContain("event 900");
  });
});

describe("rows", () => {
  it("tell of a gap, and fold flapping into one", async () => {
    const page = await scene("feed-full");
    await page.getByText("41 older events are gone: the team keeps 7 days").waitFor();
    const flap = rowOf(page, "ci-runner-2 flapped 4 times");
    expect(await list(page).getByRole("button", { name: /ci-runner-2/ }).count()).toBe(1);
    await flap.click();
    const dialog = page.getByRole("dialog", { name: "4 events folded into one line" });
    expect(JSON.parse((await dialog.locator("pre").textContent()) ?? "")).toHaveLength(4);
  });

  it("open as JSON by keyboard, and give the focus back", async () => {
    const page = await scene("feed-full");
    const row = rowOf(page, "mobile asks a question");
    await row.focus();
    await page.keyboard.press("ArrowUp");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("billing-api asks for approval");
    await page.keyboard.press("Home");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("chen-air went to sleep");
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").getByText('"waiting_input"').waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("mobile asks a question");
  });

  it("say how long an agent waits, as long as it does", async () => {
    const page = await scene("feed-full");
    expect(await rowOf(page, "billing-api asks for approval").textContent()).toContain("waiting 4 min");
    await page.clock.setFixedTime(NOW + 60_000);
    await expect.poll(() => rowOf(page, "billing-api asks for approval").textContent()).toContain("waiting 5 min");
  });
});

describe("filters", () => {
  it("show some kinds, one machine, one person, or what contains a text", async () => {
    const page = await scene("feed-full");
    const shown = () => list(page).getByRole("button").count();
    await page.getByRole("button", { name: "Waiting", exact: true }).click();
    await expect.poll(shown).toBe(2);
    await page.getByRole("button", { name: "Machines", exact: true }).click();
    await expect.poll(shown).toBe(3);
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.getByLabel("From").selectOption("ben-desk");
    await expect.poll(shown).toBe(2);
    await page.getByLabel("From").selectOption("Dana");
    await expect.poll(shown).toBe(1);
    await page.getByLabel("From").selectOption("");
    await page.getByRole("searchbox").fill("4F2A91C");
    await expect.poll(shown).toBe(1);
  });

  it("say that nothing matches, and search older events on the server", async () => {
    const page = await scene("feed-full");
    await page.getByRole("searchbox").fill("no such thing");
    await page.getByText("No loaded event matches").waitFor();
    await answer(page, "history", { value: { items: [{ sequence: 3, event: event(3, { data: { text: "no such thing, found" } }).event }], next_before: null } });
    await page.getByRole("button", { name: "Search older events on the server" }).click();
    await rowOf(page, "no such thing, found").waitFor();
    expect(await calls(page)).toEqual([{ command: "history", request: { before: 42, limit: 200, text: "no such thing" } }]);
    await page.getByText("This is where the team’s kept events begin.").waitFor();
    await page.getByRole("searchbox").fill("");
    await rowOf(page, "mobile asks a question").waitFor();
    expect(await rowOf(page, "no such thing, found").count()).toBe(0);
  });
});

describe("history", () => {
  it("comes before what is there, and what is read stays where it is", async () => {
    const page = await scene("feed-history");
    await rowOf(page, "event 300").waitFor();
    await scrollTo(page, 20);
    await rowOf(page, "event 201").waitFor();
    await expect.poll(async () => (await reading(page))?.text).toContain("event 201");
    const before = await reading(page);
    await page.getByRole("button", { name: "Load older events" }).click();
    await rowOf(page, "event 200").waitFor();
    expect((await reading(page))?.text).toContain("event 201");
    expect(Math.abs(((await reading(page))?.y ?? 0) - (before?.y ?? 99))).toBeLessThan(1);
    expect(await calls(page)).toEqual([{ command: "history", request: { before: 201, limit: 200, text: null } }]);
  });

  it("is asked for when the reader reaches the top, once", async () => {
    const page = await scene("feed-history");
    await rowOf(page, "event 300").waitFor();
    await scrollTo(page, 200);
    await rowOf(page, "event 201").waitFor();
    await scrollTo(page, 0);
    await rowOf(page, "event 200").waitFor();
    expect(await calls(page)).toHaveLength(1);
  });

  it("has no hole where the live feed lets its oldest go", async () => {
    const page = await scene("feed-history");
    await rowOf(page, "event 300").waitFor();
    await page.getByRole("button", { name: "Load older events" }).click();
    await expect.poll(() => list(page).getByRole("listitem").last().getAttribute("aria-setsize")).toBe("201");
    await patch(page, { change: "feed", items: Array.from({ length: 10_000 }, (_, i) => event(301 + i, { at: NOW })) });
    await expect.poll(() => list(page).getByRole("listitem").last().getAttribute("aria-setsize")).toBe("10201");
    await rowOf(page, "deploy 10300").waitFor();
  });

  it("that fails says so and can be tried again", async () => {
    const page = await scene("feed-error");
    await page.getByRole("button", { name: "Load older events" }).click();
    await page.getByRole("alert").getByText("The server is busy. Try again in a minute.").waitFor();
    await answer(page, "history", { value: { items: [], next_before: null } });
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("This is where the team’s kept events begin.").waitFor();
  });
});

describe("pausing the display", () => {
  it("holds what is shown, counts what comes, and catches up", async () => {
    const page = await scene("feed-full");
    await rowOf(page, "mobile asks a question").waitFor();
    await page.getByRole("main").getByRole("button", { name: "Pause", exact: true }).click();
    await patch(page, said(900), said(901));
    await page.getByText("Paused. 2 new events.").waitFor();
    expect(await rowOf(page, "event 901").count()).toBe(0);
    await page.getByRole("main").getByRole("button", { name: "Resume", exact: true }).click();
    await rowOf(page, "event 901").waitFor();
  });
});

describe("foreign content", () => {
  it("stays text, and hides nothing", async () => {
    const page = await scene("feed-hostile");
    await rowOf(page, "invoice").waitFor();
    const within = (selector: string) => page.getByRole("main").locator(selector).count();
    expect(await within("img, script, b, iframe, a[href^=javascript]")).toBe(0);
    expect(await rowOf(page, "invoice").textContent()).toContain("invoice\ufffdgpj.exe\ufffd␛[2J␛]0;owned␇␀\ufffd31m");
    await rowOf(page, "invoice").click();
    const json = (await page.getByRole("dialog").locator("pre").textContent()) ?? "";
    expect(json).toContain("\\u202egpj.exe\\u202c");
    expect(json).toContain("\\u001b[2J");
    expect(json).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
    await page.keyboard.press("Escape");
    expect(await page.title()).toBe("Feed · Acme · Teamlamp");
    expect(await page.evaluate(() => ({} as { polluted?: boolean }).polluted)).toBeUndefined();
  });
});
