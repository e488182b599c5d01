// Names of teams, people and machines as the protocol takes them (crates/wire, name.rs): said here before
// anything is sent, checked again by the server.

import { t } from "../text";
import { NAME_CHARS } from "../wire/tables";

/** What is wrong with a name, in a sentence; empty where nothing is. */
export function nameFault(name: string): string {
  const trimmed = name.trim().normalize("NFC");
  if (trimmed === "") return t.names.empty;
  if ([...trimmed].length > NAME_CHARS) return t.names.tooLong(NAME_CHARS);
  return /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/.test(trimmed) ? t.names.hidden : "";
}
