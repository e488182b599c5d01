// Everything that the palette can do, from the state of the moment.

import type { App } from "../../app.svelte";
import { saveTheme, THEMES } from "../../styles/theme";
import { t } from "../../text";
import { visible } from "../../text/visible";
import { waiting } from "../now/cards";
import type { Action } from "./match";

export function actions(app: App): Action[] {
  const { state, context } = app;
  if (!state || !context) return [];
  const call = (run: () => Promise<unknown>) => () => void app.attempt(run);
  const out: Action[] = [
    ...(["now", "feed", "invite"] as const).map((place) => ({
      id: `go-${place}`,
      words: t.palette.go(t.places[place]),
      run: () => app.go(place),
    })),
    ...waiting(state, app.now).map((line) => ({
      id: `show-${line.id}`,
      words: t.palette.waiting(line.name, line.machine),
      run: () => app.go("now", line.id),
    })),
    { id: "connect", words: t.connection.connectNow, run: call(() => app.backend.call("connect_now")) },
    { id: "why", words: t.palette.why, run: () => (app.whyOpen = true) },
  ];
  if (context.machine_id !== null) {
    if (state.status.paused) out.push({ id: "resume", words: t.shell.resume, run: call(() => app.backend.call("resume")) });
    else {
      for (const seconds of [900, 3600, 0]) {
        out.push({
          id: `pause-${seconds}`,
          words: t.palette.pause(t.shell.pauseFor[seconds] ?? ""),
          run: call(() => app.backend.call("pause", { for_seconds: seconds === 0 ? null : seconds })),
        });
      }
    }
  }
  out.push({ id: "join", words: t.join.title, run: () => app.go("join") });
  for (const other of state.status.contexts) {
    if (other.id === context.id) continue;
    out.push({
      id: `team-${other.id}`,
      words: t.palette.showTeam(visible(other.team_name)),
      run: call(() => app.backend.call("show_team", { context: other.id })),
    });
  }
  for (const theme of THEMES) out.push({ id: `theme-${theme}`, words: t.palette.theme(t.palette.themes[theme]), run: () => saveTheme(theme) });
  return out;
}
