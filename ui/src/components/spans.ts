// Where rows of known heights lie in a long list. Pure.

/** The top of each row, and at the end the whole height. */
export function tops(heights: number[]): Float64Array {
  const out = new Float64Array(heights.length + 1);
  heights.forEach((height, i) => (out[i + 1] = (out[i] as number) + height));
  return out;
}

/** The row that lies at a position: the last whose top is not below it. */
export function rowAt(at: Float64Array, position: number): number {
  let low = 0;
  let high = Math.max(0, at.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((at[middle] as number) <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The rows to draw for a view: those in it and some beyond each edge. `[first, end)`. */
export function drawn(at: Float64Array, top: number, height: number, beyond: number): [number, number] {
  const count = at.length - 1;
  if (count <= 0) return [0, 0];
  const first = Math.max(0, rowAt(at, top) - beyond);
  const end = Math.min(count, rowAt(at, top + height) + 1 + beyond);
  return [first, end];
}
