// Text that came from others, made safe to show, by the rule of crates/wire (text.rs): control and bidi
// characters become visible, so that an event can't disguise what it says.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** `text` as one line in which every control and bidi character has a visible stand-in. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => {
    const code = char.charCodeAt(0);
    if (code === 0x09 || code === 0x0a || code === 0x0d) return " ";
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : "\ufffd";
  });
}

/** A value as indented JSON in which what can't be seen is written as an escape. */
export function visibleJson(value: unknown): string {
  const escape = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, null, 2).replace(HIDDEN, (char) => (char === "\n" ? char : escape(char)));
}

/** The `name`d field of an event's data as visible text; empty where it is no text. */
export function textField(data: Record<string, unknown>, name: string): string {
  const value = data[name];
  return typeof value === "string" ? visible(value) : "";
}
