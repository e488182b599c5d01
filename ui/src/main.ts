// The window as the app shows it.

import { tauri } from "./backend/tauri";
import { open } from "./mount";
import { applyTheme, savedTheme } from "./styles/theme";

applyTheme(savedTheme());
open(tauri);
