// Every place, full, empty, loading, offline and failing, in light and dark, narrow to wide: accessible,
// inside its window, without a complaint; a picture of each is kept.

import type { Page } from "playwright-core";
import { describe, it } from "vitest";
import { accessible, fits, picture, scene, seen, useBrowser } from "./lib/window";

useBrowser();

const press = (name: string) => async (page: Page) => {
  await page.getByRole("button", { name, exact: true }).click();
};
async function joinLooked(page: Page) {
  await page.getByLabel("Link or code").fill("teamlamp://join?server=https%3A%2F%2Fteams.acme.example&code=7K3QF-9XW2M");
  await page.getByRole("button", { name: "Continue" }).click();
}

/** A scene, what must be seen in it, and what to press before. */
const shown: [string, string, ((page: Page) => Promise<void>)?][] = [
  ["opening", "Opening"],
  ["unreachable", "The window can’t reach the app"],
  ["first", "Start a team on this computer"],
  ["first-nameless", "Your name"],
  ["first-notices", "This desktop shows no tray"],
  ["first-keyring", "The keyring can’t be used"],
  ["first-failing", "Port 8720 is in use", press("Start")],
  ["join", "Link or code"],
  ["join", "Join Acme?", joinLooked],
  ["join-clear", "can be read by others on the network"],
  ["join-failing", "The code has been used.", joinLooked],
  ["join-owner", "Make the first team of this server?"],
  ["join-keyring", "The keyring can’t be used"],
  ["join-second", "Link or code"],
  ["now-full", "billing-api"],
  ["now-crowd", "machine-00"],
  ["now-alone", "You are the first here."],
  ["now-empty", "No machine reports yet"],
  ["now-loading", "Reading the team’s machines"],
  ["now-offline", "What you see is from"],
  ["now-error", "This machine was revoked by an admin."],
  ["now-keyring", "The keyring can’t be used"],
  ["now-notices", "This desktop shows no tray"],
  ["now-paused", "Resume"],
  ["now-teams", "Now"],
  ["now-hostile", "onerror="],
  ["feed-full", "deploy 4f2a91c finished"],
  ["feed-empty", "Nothing has happened yet"],
  ["feed-loading", "Reading the team’s events"],
  ["feed-offline", "What you see is from"],
  ["feed-error", "Older events could not be loaded.", press("Load older events")],
  ["feed-10000", "event 10000"],
  ["feed-hostile", "onerror="],
  ["invite", "Make invitation"],
  ["invite", "7K3QF-9XW2M", press("Make invitation")],
  ["invite-failing", "Only admins invite in this team.", press("Make invitation")],
  ["invite-viewer", "Viewers can’t invite."],
  ["invite-offline", "which can’t be reached now"],
  ["invite-loading", "Making it", press("Make invitation")],
];

const widths = [360, 1100, 1600];
const themes = ["light", "dark"] as const;

describe("a place", () => {
  it.each(shown)("%s shows “%s”", async (name, text, before) => {
    const page = await scene(name);
    await before?.(page);
    await page.getByText(text).filter({ visible: true }).first().waitFor();
    for (const width of widths) {
      for (const theme of themes) {
        await seen(page, width, theme);
        await picture(page, `${name}${before ? "-then" : ""}-${width}-${theme}`);
        await accessible(page);
        await fits(page);
      }
    }
  });
});

describe("over every place", () => {
  it.each(themes)("the connection’s dialog, %s", async (theme) => {
    const page = await scene("now-offline", { theme });
    await page.getByRole("button", { name: /Connection: what it is and why/ }).click();
    await page.getByRole("dialog").getByText("Last changes").waitFor();
    await picture(page, `why-${theme}`);
    await accessible(page);
  });

  it.each(themes)("the palette, %s", async (theme) => {
    const page = await scene("now-full", { theme });
    await page.keyboard.press("Control+k");
    await page.getByRole("option", { name: "Go to Feed" }).waitFor();
    await picture(page, `palette-${theme}`);
    await accessible(page);
  });

  it.each(themes)("an event as JSON, %s", async (theme) => {
    const page = await scene("feed-full", { theme });
    await page.getByRole("button", { name: /deploy 4f2a91c/ }).click();
    await page.getByRole("dialog").getByText('"sequence"').waitFor();
    await picture(page, `event-${theme}`);
    await accessible(page);
  });
});
