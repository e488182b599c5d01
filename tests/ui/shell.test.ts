// What surrounds the places: navigation, palette, pausing, the connection, what the app says by itself.

import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { context, machine, NOW, session, windowState } from "../../ui/src/testing";
import { answer, calls, patch, picture, scene, useBrowser } from "./lib/window";

useBrowser();

const heading = (page: Page, name: string) => page.getByRole("heading", { level: 1, name });
const focused = (page: Page) => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "");

describe("by keyboard", () => {
  it.each(["now-full", "now-offline", "feed-full", "invite", "join-second", "first", "now-keyring"])("everything in %s is reached and shows the focus", async (name) => {
    const page = await scene(name);
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    const wanted = await page.evaluate(() => {
      const all = [...document.querySelectorAll<HTMLElement>("a[href], button, input, select, [tabindex='0']")];
      const reachable = all.filter((element) => element.tabIndex >= 0 && !element.matches(":disabled") && element.checkVisibility());
      reachable.forEach((element, i) => (element.dataset["walk"] = String(i)));
      return reachable.length;
    });
    const reached = new Set<string>();
    for (let i = 0; i < wanted + 2; i++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const element = document.activeElement as HTMLElement;
        return { walk: element.dataset["walk"] ?? "", outline: getComputedStyle(element).outlineStyle, name: element.outerHTML.slice(0, 80) };
      });
      if (at.walk === "") continue;
      reached.add(at.walk);
      expect(at.outline, at.name).not.toBe("none");
    }
    expect(reached.size).toBe(wanted);
  });

  it("the content is one press away", async () => {
    const page = await scene("now-full");
    await page.keyboard.press("Tab");
    expect(await focused(page)).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    expect(await focused(page)).toContain("Live for 2 h 10");
  });

  it("the palette finds places and actions, and gives the focus back", async () => {
    const page = await scene("now-full");
    await page.getByRole("button", { name: "Invite" }).focus();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("zzz");
    await page.getByText("Nothing is called that.").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await focused(page)).toBe("Invite");
    await page.keyboard.press("Meta+k");
    await page.keyboard.type("feed");
    await page.keyboard.press("Enter");
    await heading(page, "Feed").waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("pause hour");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Control+k");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.evaluate(() => document.documentElement.dataset["theme"])).toBe("dark");
    expect(await calls(page)).toEqual([{ command: "pause", request: { for_seconds: 3600 } }]);
  });

  it("the pause menu is walked with the arrows", async () => {
    const page = await scene("now-full");
    await page.getByRole("button", { name: "Pause reporting" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("menu").waitFor();
    await picture(page, "pause-menu");
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
    await page.keyboard.press("Enter");
    await page.keyboard.press("ArrowUp");
    expect(await focused(page)).toBe("Until I resume");
    await page.keyboard.press("Enter");
    expect(await calls(page)).toEqual([{ command: "pause", request: { for_seconds: null } }]);
  });
});

describe("the connection", () => {
  it("is dialled at once when asked to", async () => {
    const page = await scene("now-offline");
    await page.getByRole("main").getByRole("button", { name: "Connect now" }).click();
    expect(await calls(page)).toEqual([{ command: "connect_now", request: null }]);
  });

  it("that ends greys what is known, with its age, and comes back", async () => {
    const page = await scene("now-full");
    const status = { ...windowState().status };
    const offline = context({ state: { state: "offline", why: "The network is unreachable.", since: NOW, next_try_at: NOW + 5000 }, state_since: NOW });
    await patch(page, { change: "status", status: { ...status, contexts: [offline] } });
    await page.getByText("The network is unreachable. What you see is from just now.").waitFor();
    expect(await page.locator(".card:not(.off)").count()).toBe(0);
    await page.clock.setFixedTime(NOW + 240_000);
    await page.getByText("What you see is from 4 min ago.").waitFor();
    await page.getByText("Waited for a person 4 min ago").waitFor();
    await patch(page, { change: "status", status: { ...status, contexts: [context()] } });
    await page.getByText("What you see is from").waitFor({ state: "detached" });
    expect(await page.locator(".card.off").count()).toBe(1);
  });

  it("that failed to answer a command says so, until one works", async () => {
    const page = await scene("now-offline");
    await answer(page, "connect_now", { failure: { code: "unreachable", message: "Nothing answers at 127.0.0.1:8720.", next: null } });
    const button = page.getByRole("main").getByRole("button", { name: "Connect now" });
    await button.click();
    await page.getByRole("alert").getByText("Nothing answers").waitFor();
    await answer(page, "connect_now", { value: null });
    await button.click();
    await page.getByRole("alert").waitFor({ state: "detached" });
  });
});

describe("the app", () => {
  it("brings a waiting session into view and focus", async () => {
    const page = await scene("now-crowd");
    await patch(page, { change: "place", open: { place: "now", session: "c23-5" } });
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("data-session"))).toBe("c23-5");
    expect(await page.locator("[data-session='c23-5']").evaluate((line) => line.getBoundingClientRect().bottom <= innerHeight)).toBe(true);
  });

  it("shows a session again to whoever asks again", async () => {
    const page = await scene("now-crowd");
    const show = page.getByRole("button", { name: /^Show/ }).first();
    await show.click();
    const shown = () => page.evaluate(() => document.activeElement?.getAttribute("data-session") ?? "");
    await expect.poll(shown).not.toBe("");
    const first = await shown();
    await show.click();
    await expect.poll(shown).toBe(first);
  });

  it("moves nobody when it tells everything anew", async () => {
    const page = await scene("now-full");
    await page.getByRole("button", { name: "Feed" }).click();
    const status = { ...windowState().status, contexts: [context({ team_name: "Acme, renamed" })] };
    await page.evaluate((state) => window.recorded.lose(state), windowState({ status }));
    await patch(page, { change: "notices", notices: [] });
    await page.getByRole("navigation").getByTitle("Acme, renamed").waitFor();
    await heading(page, "Feed").waitFor();
  });

  it("shows an invitation under its own team only", async () => {
    const page = await scene("invite");
    await page.getByRole("button", { name: "Make invitation" }).click();
    await page.getByText("7K3QF-9XW2M", { exact: true }).waitFor();
    const other = context({ id: "other", team_id: "team_2", team_name: "Night shift" });
    const state = windowState({ status: { ...windowState().status, contexts: [other] } });
    await page.evaluate((state) => window.recorded.lose(state), { ...state, team: { ...state.team!, context: "other" } });
    await patch(page, { change: "notices", notices: [] });
    await page.getByRole("navigation").getByTitle("Night shift").waitFor();
    expect(await page.getByText("7K3QF-9XW2M", { exact: true }).count()).toBe(0);
  });

  it("lists the teams of this computer", async () => {
    const page = await scene("now-teams");
    const teams = page.getByLabel("Team").locator("option");
    expect(await teams.allTextContents()).toEqual(["Acme", "Night shift"]);
  });

  it("is asked for everything when a patch is missing", async () => {
    const page = await scene("now-full");
    await page.evaluate((state) => window.recorded.lose(state), windowState({ machines: [machine("late-machine")] }));
    expect(await page.getByText("late-machine").count()).toBe(0);
    await patch(page, { change: "notices", notices: [] });
    await page.getByText("late-machine").waitFor();
  });

  it("can be unreachable at first", async () => {
    const page = await scene("unreachable");
    await page.evaluate((state) => window.recorded.mend(state), windowState());
    await page.getByRole("button", { name: "Try again" }).click();
    await heading(page, "Now").waitFor();
  });

  it("announces who newly waits, once and politely", async () => {
    const page = await scene("now-full");
    const region = page.locator("body > #app > [role=status]");
    await expect.poll(() => region.count()).toBe(1);
    await patch(page, { change: "sessions", changed: [session("s2", "ada-laptop", { root: "teamlamp", turn: "waiting_input", turn_since: NOW })], gone: [] });
    await expect.poll(() => region.textContent(), { timeout: 30_000 }).toBe("teamlamp on ada-laptop asks a question.");
    expect(await page.getByRole("button", { name: /^Now/ }).textContent()).toContain("3");
  });

  it("shows another team when asked to", async () => {
    const page = await scene("now-teams");
    await page.getByLabel("Team").selectOption("Night shift");
    expect(await calls(page)).toEqual([{ command: "show_team", request: { context: "other" } }]);
  });

  it("tells of its desktop until the person has read it", async () => {
    const page = await scene("now-notices");
    await page.getByRole("button", { name: "Dismiss this notice" }).first().click();
    await page.getByText("This desktop shows no tray").waitFor({ state: "detached" });
    await page.getByText("contexts.json").waitFor();
  });
});

describe("an invitation", () => {
  it("is made as chosen, and copied whole", async () => {
    const page = await scene("invite");
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByLabel("They will be").selectOption("viewer");
    await page.getByLabel("It ends after").selectOption("1 hour");
    await page.getByLabel("For", { exact: true }).selectOption("5 people");
    await page.getByRole("button", { name: "Make invitation" }).click();
    await page.getByRole("heading", { name: "The invitation is ready" }).waitFor();
    expect(await calls(page)).toEqual([{ command: "invite", request: { role: "viewer", expires_in_seconds: 3600, max_uses: 5 } }]);
    await page.getByRole("button", { name: "Copy: Code" }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("7K3QF-9XW2M");
    expect(await page.getByAltText("QR code of the link").evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBeGreaterThan(0);
    await page.clock.setFixedTime(NOW + 25 * 3_600_000);
    await page.getByRole("heading", { name: "This invitation has ended." }).waitFor();
  });
});

describe("motion", () => {
  it.each([
    ["reduce", "none"],
    ["no-preference", "running"],
  ] as const)("with %s is %s", async (motion, expected) => {
    const page = await scene("now-full", { motion });
    const animation = await page.locator(".card .ring").first().evaluate((ring) => {
      const style = getComputedStyle(ring);
      return style.animationName === "none" ? "none" : style.animationPlayState;
    });
    expect(animation).toBe(expected);
  });
});
