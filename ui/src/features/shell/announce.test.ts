import { describe, expect, it } from "vitest";
import { machine, NOW, session, windowState } from "../../testing";
import { waiting } from "../now/cards";
import { announce } from "./announce";

const lines = (...ids: string[]) =>
  waiting(
    windowState({ machines: [machine("m")], sessions: ids.map((id) => session(id, "m", { turn: "waiting_input", turn_since: 1 })) }),
    NOW,
  );

describe("what is announced", () => {
  it("is nothing at first, and nothing twice", () => {
    const first = announce(null, lines("a"), "live");
    expect(first.say).toBe("");
    expect(announce(first.told, lines("a"), "live").say).toBe("");
  });

  it("is one session by name, several by number", () => {
    const { told } = announce(null, lines(), "live");
    expect(announce(told, lines("billing-api"), "live").say).toBe("billing-api on m asks a question.");
    expect(announce(told, lines("a", "b"), "live").say).toBe("2 sessions wait for a person.");
  });

  it("is a change of the connection", () => {
    const { told } = announce(null, lines(), "live");
    expect(announce(told, lines(), "offline").say).toBe("offline.");
  });
});
