import { describe, expect, it } from "vitest";
import { t } from "../../text";
import { plain } from "../../text/parts";
import { event, machine, NOW, session } from "../../testing";
import type { FeedItem } from "../../wire/FeedItem";
import { KINDS } from "../../wire/tables";
import { fold } from "./fold";
import { names } from "./names";
import { absorb, ask, joined, nothingOlder, withPage } from "./older";
import { admits, everything, rows, type Filter } from "./rows";
import { sentence } from "./sentence";
import cases from "../../../../crates/wire/vectors/flapping.json";

const vectors = cases as { what: string; transitions: [string, number, string, string][]; lines: [string, number, string | number][] }[];

const presence = (sequence: number, at: number, from: string, to: string, id = "m") =>
  event(sequence, { at: NOW + at, kind: `machine.${to}`, resource: { kind: "machine", id }, data: { name: id, from, to } });

const turn = (sequence: number, at: number, from: string, to: string) =>
  event(sequence, {
    at: NOW + at,
    kind: "session.turn",
    resource: { kind: "session", id: "s" },
    data: { harness: "claude-code", machine_id: "m", root: "billing-api", from, to, since: NOW + at },
  });

const known = names([machine("m", { name: "ada-laptop" })], [session("s", "m", { root: "billing-api" })], []);
const build = (items: FeedItem[], more: Partial<Parameters<typeof rows>[2]> = {}) =>
  rows(items, fold(items), { filter: everything, names: known, looked: null, now: NOW, narrow: false, ...more });

describe("flapping", () => {
  it("is one line, and a lasting change stays one", () => {
    const folded = fold([
      presence(1, 0, "online", "unlinked"),
      presence(2, 1000, "offline", "online", "other"),
      presence(3, 5000, "unlinked", "online"),
      presence(4, 9000, "online", "unlinked"),
      presence(5, 12_000, "unlinked", "online"),
      presence(6, 100_000, "online", "offline"),
    ]);
    expect(folded.map((item) => (item.item === "flap" ? `flap ${item.events.length}` : item.item === "event" ? item.sequence : "gap"))).toEqual([
      "flap 4",
      2,
      6,
    ]);
  });

  it.each(vectors)("follows the rule of crates/wire: $what", ({ transitions, lines }) => {
    const items = transitions.map(([id, at, from, to], i) => presence(i + 1, at, from, to, id));
    const told = fold(items).map((item) => {
      if (item.item === "gap") throw new Error("a gap");
      const first = item.item === "flap" ? item.events[0] : item;
      const what = item.item === "flap" ? item.events.length : first.event.data["to"];
      return [first.event.resource.id, first.event.at - NOW, what];
    });
    expect(told).toEqual(lines);
  });
});

describe("a machine that comes and goes", () => {
  const sequences = (items: FeedItem[]) => fold(items).map((item) => (item.item === "event" ? item.sequence : item.item));
  const leaving = (item: ReturnType<typeof presence>) => {
    item.event.data["away"] = { reason: "shutdown", since: NOW };
    return item;
  };

  it("comes online in one line, though its report comes before its link", () => {
    expect(sequences([presence(1, 0, "offline", "unlinked"), presence(2, 900, "unlinked", "online")])).toEqual([2]);
  });

  it("that reports and gets no link for long is told as that", () => {
    const slow = [presence(1, 0, "offline", "unlinked"), presence(2, 30_000, "unlinked", "online")] as const;
    expect(sequences([...slow])).toEqual([1, 2]);
    expect(plain(sentence(slow[0].event, known).parts)).toBe("m reports, without a live link");
  });

  it("leaves in one line that says why", () => {
    const left = [leaving(presence(1, 0, "online", "unlinked")), leaving(presence(2, 45_000, "unlinked", "offline"))] as const;
    expect(sequences([...left])).toEqual([1]);
    expect(plain(sentence(left[0].event, known).parts)).toBe("m quit Teamlamp");
  });

  it("and is lost without a word in two", () => {
    expect(sequences([presence(1, 0, "online", "unlinked"), presence(2, 45_000, "unlinked", "offline")])).toEqual([1, 2]);
  });
});

describe("an event's sentence", () => {
  it.each(Object.keys(KINDS))("is there for %s", (kind) => {
    const e = event(1, { kind, resource: { kind: KINDS[kind as keyof typeof KINDS], id: "x" }, data: { name: "Name", role: "member" } });
    const said = plain(sentence(e.event, known).parts);
    expect(said).not.toContain("undefined");
    expect(said.length).toBeGreaterThan(4);
  });

  it("says what a turn means", () => {
    const say = (from: string, to: string) => {
      const { parts, detail } = sentence(turn(1, 0, from, to).event, known);
      return `${plain(parts)} · ${detail}`;
    };
    expect(say("working", "waiting_approval")).toBe("billing-api asks for approval · Claude Code on ada-laptop");
    expect(say("waiting_input", "working")).toBe("billing-api works again · Claude Code on ada-laptop");
    expect(say("working", "idle")).toBe("billing-api finished its turn · Claude Code on ada-laptop");
    expect(say("working", "dreaming")).toContain("can’t be read");
    expect(sentence(turn(1, 0, "working", "dreaming").event, known).sign).toBe("unknown");
  });

  it("takes a script's own words, as text with nothing hidden", () => {
    const said = sentence(event(1, { data: { text: "<b>done</b>\u001b[2J\u202e" } }).event, known);
    expect(plain(said.parts)).toBe("<b>done</b>␛[2J\ufffd");
    expect(said.kind).toBe("custom.cli.deploy");
    expect(said.by).toBe("Ben");
  });

  it("is the kind's own name where a later version speaks", () => {
    expect(plain(sentence(event(1, { kind: "moon.rose" }).event, known).parts)).toBe("moon.rose");
  });

  it("survives data of another shape than expected", () => {
    for (const data of [{ away: "no object" }, { away: null, name: 7 }, { root: ["x"] }]) {
      expect(() => sentence(event(1, { kind: "machine.offline", resource: { kind: "machine", id: "m" }, data }).event, known)).not.toThrow();
    }
  });
});

describe("the feed's rows", () => {
  it("are grouped by day, with a line before what is new", () => {
    const day = 86_400_000;
    const made = build([event(1, { at: NOW - day }), event(2, { at: NOW - 1000 }), event(3, { at: NOW })], { looked: 2 });
    expect(made.map((row) => (row.row === "day" ? row.label : row.row))).toEqual(["Yesterday", "event", "Today", "event", "new", "event"]);
  });

  it("name a day twice where an event is of an earlier day than the one before it, each row by itself", () => {
    const day = 86_400_000;
    const made = build([event(1, { at: NOW }), event(2, { at: NOW - day }), event(3, { at: NOW })]);
    expect(made.map((row) => (row.row === "day" ? row.label : row.row))).toEqual(["Today", "event", "Yesterday", "event", "Today", "event"]);
    expect(new Set(made.map((row) => row.key)).size).toBe(made.length);
  });

  it("have no line where all or nothing is new", () => {
    const items = [event(1), event(2)];
    for (const looked of [0, 2, null]) expect(build(items, { looked }).some((row) => row.row === "new")).toBe(false);
  });

  it("say after how long a turn ended", () => {
    const made = build([turn(1, 0, "idle", "working"), turn(2, 360_000, "working", "idle")]);
    expect(made.map((row) => (row.row === "event" ? row.aside : ""))).toEqual(["", "", "after 6 min"]);
  });

  it("show gaps as receipts, but not between filtered events", () => {
    const gap: FeedItem = { item: "gap", at: NOW - 1, reason: "retention", missed: 41, pruned_through: 41 };
    expect(build([gap, event(42)]).some((row) => row.row === "gap")).toBe(true);
    expect(build([gap, event(42)], { filter: { ...everything, text: "deploy" } }).some((row) => row.row === "gap")).toBe(false);
    expect(t.feed.gap(41, 7)).toBe("41 older events are gone: the team keeps 7 days");
  });

  it.each<[string, Partial<Filter>, number[]]>([
    ["all", {}, [1, 2, 3, 4]],
    ["waiting", { chosen: "waiting" }, [2]],
    ["sessions", { chosen: "sessions" }, [2, 3]],
    ["machines", { chosen: "machines" }, [1]],
    ["scripts", { chosen: "scripts" }, [4]],
    ["a machine", { who: "machine:m" }, [1, 2, 3]],
    ["a person", { who: "actor:Ben" }, [1, 2, 3, 4]],
    ["nobody", { who: "actor:Eve" }, []],
    ["text of a sentence", { text: " ADA-laptop " }, [2, 3]],
    ["text of data", { text: "deploy 4" }, [4]],
  ])("are filtered by %s", (_, more, expected) => {
    const items = [presence(1, 0, "offline", "online"), turn(2, 1, "working", "waiting_input"), turn(3, 2, "waiting_input", "working"), event(4)];
    const filter = { ...everything, ...more };
    expect(items.filter((item) => admits(filter, item.event, known)).map((item) => item.sequence)).toEqual(expected);
  });
});

describe("older events", () => {
  const feed = [event(10), event(11)];
  const page = (sequences: number[], next_before: number | null) => ({
    items: sequences.map((n) => ({ sequence: n, event: event(n).event })),
    next_before,
  });

  it("are asked for from where the feed begins, page by page, to the beginning", () => {
    let older = nothingOlder("");
    expect(ask(older, feed)).toBe(10);
    older = withPage(older, page([9, 8], 8), feed);
    expect(older.items.map((item) => item.sequence)).toEqual([8, 9]);
    expect(ask(older, feed)).toBe(8);
    older = withPage(older, page([7], null), feed);
    expect(older.items.map((item) => item.sequence)).toEqual([7, 8, 9]);
    expect(ask(older, feed)).toBeUndefined();
  });

  it("never come twice, and a server that repeats itself ends the way back", () => {
    const once = withPage(nothingOlder(""), page([9, 8], 8), feed);
    const twice = withPage(once, page([9, 8], 8), feed);
    expect(twice.items.map((item) => item.sequence)).toEqual([8, 9]);
    expect(ask(twice, feed)).toBeUndefined();
  });

  it("are shown once where the live feed reaches back to them", () => {
    const older = withPage(nothingOlder(""), page([9, 8], 8), feed);
    const sequences = joined(older, [event(9), ...feed]).map((item) => (item.item === "event" ? item.sequence : 0));
    expect(sequences).toEqual([8, 9, 10, 11]);
  });

  it("keep what falls out of the live feed, so that there is no hole", () => {
    const older = withPage(nothingOlder(""), page([9], 9), feed);
    expect(absorb(older, feed, [event(11), event(12)]).items.map((item) => item.sequence)).toEqual([9, 10]);
    expect(absorb(nothingOlder(""), feed, [event(11)]).items).toEqual([]);
  });
});
