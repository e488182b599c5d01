// The one way from the window to the app: typed commands and a stream of patches. `tauri.ts` is the app;
// tests bring a recorded one.

import type { Failure } from "../wire/Failure";
import type { HistoryAsk } from "../wire/HistoryAsk";
import type { HistoryPage } from "../wire/HistoryPage";
import type { Invite } from "../wire/Invite";
import type { Invited } from "../wire/Invited";
import type { JoinAccept } from "../wire/JoinAccept";
import type { Joined } from "../wire/Joined";
import type { JoinFrom } from "../wire/JoinFrom";
import type { JoinPreview } from "../wire/JoinPreview";
import type { OpenPlace } from "../wire/OpenPlace";
import type { Patch } from "../wire/Patch";
import type { PauseFor } from "../wire/PauseFor";
import type { SetCustody } from "../wire/SetCustody";
import type { ShowTeam } from "../wire/ShowTeam";
import type { StartTeam } from "../wire/StartTeam";
import type { WindowState } from "../wire/WindowState";
import { t } from "../text";

/** Each command's request and answer, as the table in crates/wire (window.rs) has them. */
export interface Commands {
  state: [undefined, WindowState];
  start_team: [StartTeam, Joined];
  join_preview: [JoinFrom, JoinPreview];
  join_accept: [JoinAccept, Joined];
  join_dismiss: [undefined, null];
  invite: [Invite, Invited];
  connect_now: [undefined, null];
  pause: [PauseFor, null];
  resume: [undefined, null];
  history: [HistoryAsk, HistoryPage];
  set_custody: [SetCustody, null];
  retry_custody: [undefined, null];
  open_place: [OpenPlace, null];
  show_team: [ShowTeam, null];
}

/** What a command takes: nothing, or its request. */
export type Request<C extends keyof Commands> = Commands[C][0] extends undefined ? [] : [Commands[C][0]];

export interface Backend {
  /** Patches from now on come to `take`; a new call replaces the one before. */
  patches(take: (patch: Patch) => void): Promise<void>;
  /** Calls a command; it rejects with what {@link asFailure} reads. */
  call<C extends keyof Commands>(command: C, ...request: Request<C>): Promise<Commands[C][1]>;
}

/** Whatever was thrown, as a code and a sentence. */
export function asFailure(thrown: unknown): Failure {
  if (typeof thrown === "object" && thrown !== null && "code" in thrown && "message" in thrown) {
    const { code, message, next } = thrown as Partial<Failure>;
    if (typeof code === "string" && typeof message === "string") {
      return { code, message, next: typeof next === "string" ? next : null };
    }
  }
  return { code: "internal", message: t.unexpected, next: null };
}
