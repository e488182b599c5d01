import { describe, expect, it } from "vitest";
import type { Backend } from "./backend";
import { Live } from "./live.svelte";
import { windowState } from "./testing";
import type { Change } from "./wire/Change";
import type { Patch } from "./wire/Patch";
import type { WindowState } from "./wire/WindowState";

const why = (question: string): Change => ({ change: "custody", question: { why: question } });

/** A backend whose answers the test gives. */
function scripted() {
  let take: (patch: Patch) => void = () => {};
  const asked: ((state: WindowState | Error) => void)[] = [];
  const backend = {
    patches: async (to: (patch: Patch) => void) => void (take = to),
    call: () => new Promise((answer, refuse) => asked.push((s) => (s instanceof Error ? refuse(s) : answer(s)))),
  } as unknown as Backend;
  return { backend, asked, patch: (version: number, ...changes: Change[]) => take({ version, changes }) };
}

const settled = () => new Promise<void>((done) => setImmediate(done));

describe("the live state", () => {
  it("applies what came while the whole state was read", async () => {
    const { backend, asked, patch } = scripted();
    const live = new Live(backend);
    const started = live.start();
    await settled();
    patch(5, why("five"));
    patch(6, why("six"));
    asked[0]?.(windowState({ version: 5 }));
    await started;
    expect(live.state).toMatchObject({ version: 6, custody: { why: "six" } });
  });

  it("asks for everything once when patches are missing, and is right again", async () => {
    const { backend, asked, patch } = scripted();
    const live = new Live(backend);
    const started = live.start();
    await settled();
    asked[0]?.(windowState({ version: 1 }));
    await started;
    patch(3, why("lost two"));
    patch(4, why("four"));
    expect(asked).toHaveLength(2);
    asked[1]?.(windowState({ version: 3 }));
    await settled();
    expect(live.state).toMatchObject({ version: 4, custody: { why: "four" } });
    patch(5, why("five"));
    expect(live.state?.custody?.why).toBe("five");
    expect(asked).toHaveLength(2);
  });

  it("keeps what it knew when the app does not answer, and says so", async () => {
    const { backend, asked, patch } = scripted();
    const live = new Live(backend);
    const started = live.start();
    await settled();
    asked[0]?.(windowState({ version: 1 }));
    await started;
    patch(9);
    asked[1]?.(new Error("gone"));
    await settled();
    expect(live.state?.version).toBe(1);
    expect(live.failure?.message).toContain("Try again");
  });
});
