// A backend that answers what the scene and the test told it to, and remembers what it was asked.

import type { Backend, Commands, Request } from "../../../ui/src/backend";
import type { Change } from "../../../ui/src/wire/Change";
import type { Failure } from "../../../ui/src/wire/Failure";
import type { Patch } from "../../../ui/src/wire/Patch";
import type { WindowState } from "../../../ui/src/wire/WindowState";

/** What a command answers: a value, a failure, or nothing yet. */
export type Answer = { value: unknown } | { failure: Failure } | "never";

export interface Scene {
  state: WindowState | "never" | "unreachable";
  answers?: Record<string, Answer>;
}

const refusal: Failure = { code: "internal", message: "The recorded store has no answer to this.", next: null };

export class Recorded implements Backend {
  /** Every command but `state`, in order, with its request. */
  readonly calls: { command: string; request: unknown }[] = [];
  #scene: Scene;
  #version = 1;
  #take: (patch: Patch) => void = () => {};
  #waiting = new Map<string, { answer: (value: unknown) => void; refuse: (failure: Failure) => void }>();

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  async patches(take: (patch: Patch) => void): Promise<void> {
    if (this.#scene.state === "unreachable") throw refusal;
    this.#take = take;
  }

  call<C extends keyof Commands>(command: C, ...request: Request<C>): Promise<Commands[C][1]> {
    if (command === "state") return this.#state() as Promise<Commands[C][1]>;
    this.calls.push({ command, request: request[0] ?? null });
    const answer = this.#scene.answers?.[command];
    if (answer === "never") {
      return new Promise((resolve, reject) => this.#waiting.set(command, { answer: resolve as (value: unknown) => void, refuse: reject }));
    }
    if (answer && "failure" in answer) return Promise.reject(answer.failure);
    return Promise.resolve((answer ? answer.value : null) as Commands[C][1]);
  }

  #state(): Promise<WindowState> {
    const { state } = this.#scene;
    return state === "never" || state === "unreachable" ? new Promise(() => {}) : Promise.resolve({ ...state, version: this.#version });
  }

  /** The app says that something changed. */
  patch(...changes: Change[]): void {
    this.#version += 1;
    this.#take({ version: this.#version, changes });
  }

  /** Something changed that the window never hears of, but in the whole state. */
  lose(state: WindowState): void {
    this.#version += 1;
    this.#scene.state = state;
  }

  /** From now on a command answers so; one that waits is answered now. */
  answer(command: string, answer: Answer): void {
    this.#scene.answers = { ...this.#scene.answers, [command]: answer };
    const waiting = this.#waiting.get(command);
    if (!waiting || answer === "never") return;
    this.#waiting.delete(command);
    if ("failure" in answer) waiting.refuse(answer.failure);
    else waiting.answer(answer.value);
  }

  /** The app is reachable from now on. */
  mend(state: WindowState): void {
    this.#scene.state = state;
  }
}
