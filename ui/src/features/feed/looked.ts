// How far the person has looked in each team's feed, kept in this web view.

const key = (team: string) => `teamlamp.looked.${team}`;

/** The newest sequence that was seen; null where the feed was never open. */
export function lookedAt(team: string): number | null {
  const saved = localStorage.getItem(key(team));
  const sequence = saved === null ? NaN : Number(saved);
  return Number.isSafeInteger(sequence) ? sequence : null;
}

export const saveLooked = (team: string, sequence: number): void => localStorage.setItem(key(team), String(sequence));
