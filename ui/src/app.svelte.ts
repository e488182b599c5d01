// What all places share: the live state, the time, where the window is, and the calls to the app.

import { getContext, setContext } from "svelte";
import type { Backend } from "./backend";
import { asFailure } from "./backend";
import { shownContext } from "./features/now/cards";
import { Live } from "./live.svelte";
import { NowClock } from "./now.svelte";
import type { Failure } from "./wire/Failure";
import type { Place } from "./wire/Place";

const KEY = Symbol("app");

export class App {
  readonly backend: Backend;
  readonly live: Live;
  readonly clock: NowClock;
  /** Where the window is. */
  place = $state<Place>("now");
  /** A session that is to be brought into view; anew each time that somebody asks. */
  session = $state.raw<{ id: string } | null>(null);
  /** Whether the connection's dialog is open. */
  whyOpen = $state(false);
  /** Whether the palette is open. */
  paletteOpen = $state(false);
  /** The last command that failed outside a form. */
  failure = $state.raw<Failure | null>(null);

  readonly state = $derived.by(() => this.live.state);
  readonly context = $derived.by(() => (this.live.state ? shownContext(this.live.state) : null));
  /** The server's time now, as far as it is known. */
  readonly now = $derived.by(() => this.clock.now - (this.context?.clock_offset_ms ?? 0));

  constructor(backend: Backend, clock = new NowClock()) {
    this.backend = backend;
    this.live = new Live(backend);
    this.clock = clock;
  }

  /** Goes to a place, and tells the app, which opens a new window there. */
  go(place: Place, session: string | null = null): void {
    this.show(place, session);
    void this.attempt(() => this.backend.call("open_place", { place, session }));
  }

  /** Goes to a place that the app named. */
  show(place: Place, session: string | null): void {
    this.place = place;
    this.session = session === null ? null : { id: session };
  }

  /** Runs a command whose failure is said at the top of the window. */
  async attempt(command: () => Promise<unknown>): Promise<boolean> {
    try {
      await command();
      this.failure = null;
      return true;
    } catch (thrown) {
      this.failure = asFailure(thrown);
      return false;
    }
  }
}

export const provideApp = (app: App): App => setContext(KEY, app);
export const useApp = (): App => getContext<App>(KEY);
