// First run and joining: one decision each, nothing before the person confirmed, every failure a sentence.

import { describe, expect, it } from "vitest";
import { answer, calls, patch, scene, useBrowser } from "./lib/window";

useBrowser();

const LINK = "teamlamp://join?server=https%3A%2F%2Fteams.acme.example&code=7K3QF-9XW2M";
const joined = { value: { context: "acme", team: "Acme", machine: "ada-laptop" } };

describe("starting a team", () => {
  it("is one press with the names that the computer knows", async () => {
    const page = await scene("first");
    await page.getByText("Ada’s team, with you as Ada on ada-laptop.").waitFor();
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByText("Starting the server, making the team, enrolling this machine.").waitFor();
    expect(await page.getByRole("button", { name: "Starting" }).isDisabled()).toBe(true);
    expect(await calls(page)).toEqual([{ command: "start_team", request: { team_name: "Ada’s team", person: "Ada", machine: "ada-laptop" } }]);
  });

  it("takes other names, and asks for those that are missing", async () => {
    const page = await scene("first-nameless");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByText("Give a name.").first().waitFor();
    expect(await calls(page)).toEqual([]);
    await page.getByLabel("Team").fill(" Acme ");
    await page.getByLabel("Your name").fill("Ada");
    await page.keyboard.press("Enter");
    expect(await calls(page)).toEqual([{ command: "start_team", request: { team_name: "Acme", person: "Ada", machine: "ada-laptop" } }]);
  });

  it("says why it failed and what to do, and can be tried again", async () => {
    const page = await scene("first-failing");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByRole("alert").getByText("Port 8720 is in use by another program. End it").waitFor();
    await page.getByRole("button", { name: "Start", exact: true }).click();
    expect(await calls(page)).toHaveLength(2);
  });

  it("asks what to do without a keyring, and goes on after the answer", async () => {
    const page = await scene("first-keyring");
    await page.getByText("The keyring is locked.").waitFor();
    await page.getByRole("button", { name: "Keep it in a private file instead" }).click();
    await expect.poll(() => calls(page)).toEqual([
      { command: "set_custody", request: { file: true } },
      { command: "start_team", request: { team_name: "Ada’s team", person: "Ada", machine: "ada-laptop" } },
    ]);
  });
});

describe("joining", () => {
  it("with a link shows what the server says, and joins on one confirmation", async () => {
    const page = await scene("join");
    await page.getByLabel("Link or code").fill(`  ${LINK}\n`);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Join Acme?" }).waitFor();
    const facts = (await page.locator("dl").textContent()) ?? "";
    for (const fact of ["Acme", "https://teams.acme.example", "Ben", "member", "in 23 h"]) expect(facts).toContain(fact);
    expect(await page.getByText("can be read by others").count()).toBe(0);
    expect((await calls(page)).map(({ command }) => command)).toEqual(["join_preview"]);
    await page.getByLabel("Your name").fill("Ada L");
    await page.getByRole("button", { name: "Join Acme" }).click();
    expect((await calls(page))[1]).toEqual({
      command: "join_accept",
      request: { invitation: { from: "link", link: LINK }, person: "Ada L", machine: "ada-laptop", team_name: null },
    });
    expect(await page.getByRole("button", { name: "Joining" }).isDisabled()).toBe(true);
    await answer(page, "join_accept", joined);
  });

  it("with a code asks for the server, and says what is missing", async () => {
    const page = await scene("join");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("Paste a link, or type a code").waitFor();
    await page.getByLabel("Link or code").fill("7k3qf 9xw2m");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("Type the server’s address").waitFor();
    expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-invalid"))).toBe("true");
    await page.getByLabel("Server address").fill("http://127.0.0.1:8720");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Join Acme?" }).waitFor();
    expect(await calls(page)).toEqual([{ command: "join_preview", request: { from: "code", code: "7k3qf 9xw2m", server: "http://127.0.0.1:8720" } }]);
  });

  it("says in a sentence why a code is of no use, and keeps what was typed", async () => {
    const page = await scene("join-failing");
    await page.getByLabel("Link or code").fill(LINK);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("alert").getByText("The code has been used. Ask for a new one.").waitFor();
    expect(await page.getByLabel("Link or code").inputValue()).toBe(LINK);
  });

  it("says why joining failed, beside the confirmation", async () => {
    const page = await scene("join");
    await answer(page, "join_accept", { failure: { code: "conflict", message: "A machine of this name is another person’s.", next: "Enroll under another name." } });
    await page.getByLabel("Link or code").fill(LINK);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Join Acme" }).click();
    await page.getByRole("alert").getByText("Enroll under another name.").waitFor();
    expect(await page.getByRole("button", { name: "Join Acme" }).isEnabled()).toBe(true);
  });

  it("without a keyring asks what to do, and joins once after the answer", async () => {
    const page = await scene("join-keyring");
    await page.getByRole("button", { name: "Keep it in a private file instead" }).click();
    await page.getByRole("button", { name: "Joining" }).waitFor();
    await page.getByLabel("Your name").press("Enter");
    expect((await calls(page)).map(({ command }) => command)).toEqual(["join_preview", "set_custody", "join_accept"]);
  });

  it("with an owner’s code names the new team", async () => {
    const page = await scene("join-owner");
    await page.getByLabel("The new team’s name").fill("Acme");
    await page.getByRole("button", { name: "Make the team" }).click();
    const accepted = (await calls(page)).find(({ command }) => command === "join_accept");
    expect(accepted?.request).toMatchObject({ team_name: "Acme" });
  });
});

describe("a deep link", () => {
  it("asks and waits, warns of plain http, and can be turned away", async () => {
    const page = await scene("join-clear");
    await page.getByText("Nothing happens before you confirm.").waitFor();
    await page.getByText("it uses plain http").waitFor();
    expect((await calls(page)).map(({ command }) => command)).toEqual(["join_preview"]);
    await page.getByRole("button", { name: "Don’t join" }).click();
    await expect.poll(async () => (await calls(page)).map(({ command }) => command)).toContain("join_dismiss");
    expect((await calls(page)).some(({ command }) => command === "join_accept")).toBe(false);
  });

  it("brings up the question wherever the person is", async () => {
    const page = await scene("join-second");
    await page.getByRole("button", { name: /^Now/ }).click();
    await patch(page, { change: "pending_join", join: { link: LINK } });
    await page.getByRole("heading", { name: "Join Acme?" }).waitFor();
    expect((await calls(page)).map(({ command }) => command)).toEqual(["join_preview"]);
  });

  it("that is newer replaces an older one, whose late answer is nobody’s", async () => {
    const page = await scene("join-second");
    await answer(page, "join_preview", "never");
    await patch(page, { change: "pending_join", join: { link: "teamlamp://join?old" } });
    await page.getByText("Asking the server").waitFor();
    await answer(page, "join_preview", { failure: { code: "bad_link", message: "The link is damaged.", next: null } });
    await page.getByRole("alert").getByText("The link is damaged.").waitFor();
    await patch(page, { change: "pending_join", join: { link: "teamlamp://join?newer" } });
    await expect.poll(async () => (await calls(page)).length).toBe(2);
  });
});
