// Puts the window into its page, over whichever backend it is given.

import "./styles/base.css";
import { mount } from "svelte";
import { App } from "./app.svelte";
import type { Backend } from "./backend";
import Window from "./Window.svelte";

export function open(backend: Backend): void {
  const target = document.getElementById("app");
  if (target) mount(Window, { target, props: { app: new App(backend) } });
}
