// Finding an action by a few letters. Pure.

export interface Action {
  id: string;
  words: string;
  run: () => void;
}

/** Those in which each typed word occurs; words that begin with one come first, else the order stays. */
export function match(actions: Action[], typed: string): Action[] {
  const asked = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (asked.length === 0) return actions;
  return actions
    .map((action, order) => ({ action, order, rank: rank(action.words.toLowerCase(), asked) }))
    .filter(({ rank }) => rank > 0)
    .sort((a, b) => b.rank - a.rank || a.order - b.order)
    .map(({ action }) => action);
}

function rank(words: string, asked: string[]): number {
  if (!asked.every((part) => words.includes(part))) return 0;
  return 1 + asked.filter((part) => words.split(/\s+/).some((word) => word.startsWith(part))).length;
}
