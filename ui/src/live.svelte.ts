// Keeps the window's state current: sends its channel, reads the whole state, applies patches, and reads
// the whole state again when one is missing. One reading at a time.

import { asFailure, type Backend } from "./backend";
import { apply, catchUp, reread } from "./store";
import type { Failure } from "./wire/Failure";
import type { Patch } from "./wire/Patch";
import type { WindowState } from "./wire/WindowState";

/** Patches that wait for the whole state; with more, it is read once more instead. */
const WAITING_MAX = 256;

export class Live {
  /** Null until it was read. */
  state = $state.raw<WindowState | null>(null);
  /** Why it can't be read. */
  failure = $state.raw<Failure | null>(null);

  #backend: Backend;
  #waiting: Patch[] | null = null;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** Begins, or begins again after a failure. */
  async start(): Promise<void> {
    this.failure = null;
    try {
      await this.#backend.patches((patch) => this.#take(patch));
    } catch (thrown) {
      this.failure = asFailure(thrown);
      return;
    }
    await this.#read();
  }

  #take(patch: Patch): void {
    if (this.#waiting !== null) {
      if (this.#waiting.length < WAITING_MAX) this.#waiting.push(patch);
      return;
    }
    if (this.state === null) return;
    const applied = apply(this.state, patch);
    if (applied === "stale") void this.#read();
    else if (applied !== "old") this.state = applied.to;
  }

  /** Reads the whole state. Two tries: a patch may be lost while the first answer travels. */
  async #read(): Promise<void> {
    this.#waiting = [];
    try {
      for (let tries = 0; tries < 2; tries++) {
        const whole = reread(this.state, await this.#backend.call("state"));
        const caught = catchUp(whole, this.#waiting);
        this.state = caught ?? whole;
        this.failure = null;
        if (caught !== null) break;
      }
    } catch (thrown) {
      this.failure = asFailure(thrown);
    } finally {
      this.#waiting = null;
    }
  }
}
