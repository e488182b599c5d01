// Names and events that try to be more than text.

import { event, machine, session } from "../../../ui/src/testing";

const MARKUP = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
const BIDI = "invoice\u202Egpj.exe\u202C";
const ESCAPES = "\u001b[2J\u001b]0;owned\u0007\u0000\u009b31m";

export const hostile = {
  machines: [machine("m", { name: `${MARKUP}` }), machine("n", { name: BIDI })],
  sessions: [
    session("s", "m", { root: MARKUP, harness: "<b>harness</b>", title: "{@html 1}" }),
    session("t", "n", { root: BIDI, turn: "waiting_input" }),
  ],
  feed: [
    event(1, { data: { text: MARKUP } }),
    event(2, { data: { text: `${BIDI}${ESCAPES}` } }),
    event(3, { kind: "session.turn", resource: { kind: "session", id: "s" }, data: { root: MARKUP, from: MARKUP, to: MARKUP, harness: MARKUP, machine_id: MARKUP } }),
    event(4, { actor: { principal_id: null, kind: "person", name: MARKUP }, data: { text: "javascript:alert(1) https://example.org" } }),
    event(5, { kind: "__proto__", data: JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') as Record<string, unknown> }),
    event(6, { data: { text: "x".repeat(16_000) } }),
  ],
};
