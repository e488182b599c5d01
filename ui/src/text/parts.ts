// A sentence whose important word stands out: languages put that word where they like.

/** A piece of a sentence; `strong` is the name that the sentence is about. */
export type Part = string | { strong: string };

/** The name that a sentence is about. */
export const strong = (text: string): Part => ({ strong: text });

/** The sentence as plain text. */
export const plain = (parts: Part[]): string =>
  parts.map((part) => (typeof part === "string" ? part : part.strong)).join("");
