// The app itself, through Tauri's commands and one channel.

import { Channel, invoke } from "@tauri-apps/api/core";
import type { Patch } from "../wire/Patch";
import type { Backend, Commands, Request } from "./index";

export const tauri: Backend = {
  async patches(take) {
    const channel = new Channel<Patch>();
    channel.onmessage = take;
    await invoke("patches", { channel });
  },
  call<C extends keyof Commands>(command: C, ...request: Request<C>): Promise<Commands[C][1]> {
    return invoke<Commands[C][1]>(command, request.length > 0 ? { request: request[0] } : {});
  },
};
