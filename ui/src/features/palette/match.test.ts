import { describe, expect, it } from "vitest";
import { match } from "./match";

const actions = ["Go to Now", "Go to Feed", "Pause reporting: 1 hour", "Connect now"].map((words) => ({ id: words, words, run: () => {} }));
const found = (typed: string) => match(actions, typed).map((action) => action.words);

describe("the palette", () => {
  it("shows all, in order, before anything is typed", () => {
    expect(found(" ")).toEqual(actions.map((action) => action.words));
  });

  it("finds by parts of words, whatever their order and case", () => {
    expect(found("NOW go")).toEqual(["Go to Now"]);
    expect(found("now")).toEqual(["Go to Now", "Connect now"]);
    expect(found("hour pau")).toEqual(["Pause reporting: 1 hour"]);
    expect(found("ee")).toEqual(["Go to Feed"]);
    expect(found("nothing")).toEqual([]);
  });
});
