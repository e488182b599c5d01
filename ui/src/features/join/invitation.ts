// What a person typed or pasted, as the invitation that it may be. The app and the server judge it; this
// only knows what to ask for next.

import { t } from "../../text";
import type { JoinFrom } from "../../wire/JoinFrom";

/** Whether the text is a link, which says itself where its server is. */
export const isLink = (text: string): boolean => /^\s*teamlamp:/i.test(text);

/** The invitation, or the sentence that says what is missing and in which field. */
export function read(text: string, server: string): JoinFrom | { field: "text" | "server"; fault: string } {
  const typed = text.trim();
  if (isLink(typed)) return { from: "link", link: typed };
  const code = typed.replace(/[\s\u2010-\u2015-]/g, "");
  if (!/^[0-9a-z]{10}$/i.test(code)) return { field: "text", fault: t.join.incomplete };
  const origin = server.trim();
  if (origin === "") return { field: "server", fault: t.join.serverMissing };
  return { from: "code", code: typed, server: origin };
}
