// The window over a recorded store, for a plain browser: `?scene=now-full`. The test drives it through
// `window.recorded`.

import { open } from "../../../ui/src/mount";
import { Recorded } from "./recorded";
import { scenes } from "./scenes";

const name = new URLSearchParams(location.search).get("scene") ?? "now-full";
const scene = scenes[name];
if (!scene) throw new Error(`there is no scene ${name}`);

const recorded = new Recorded(scene());
Object.assign(window, { recorded });
open(recorded);
