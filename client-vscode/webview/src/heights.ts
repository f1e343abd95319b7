/** Where rows are, of which only some have been measured. Sums and searches take time by the logarithm of how many rows there are. */

export class Heights {
  private heights: Float64Array;
  /** A Fenwick tree over the heights. */
  private sums: Float64Array;
  private known: Uint8Array;

  constructor(
    private size: number,
    private readonly estimate: number,
  ) {
    this.heights = new Float64Array(size).fill(estimate);
    this.known = new Uint8Array(size);
    this.sums = summed(this.heights);
  }

  get count(): number {
    return this.size;
  }

  get total(): number {
    return this.offset(this.size);
  }

  /** Another number of rows; of the first `keep` what was measured stays. */
  resize(size: number, keep = Math.min(size, this.size)): void {
    const heights = new Float64Array(size).fill(this.estimate);
    const known = new Uint8Array(size);
    const kept = Math.min(keep, size, this.size);
    heights.set(this.heights.subarray(0, kept));
    known.set(this.known.subarray(0, kept));
    this.size = size;
    this.heights = heights;
    this.known = known;
    this.sums = summed(heights);
  }

  isKnown(index: number): boolean {
    return this.known[index] === 1;
  }

  height(index: number): number {
    return this.heights[index] ?? 0;
  }

  /** Takes a measured height; whether that changed anything. */
  set(index: number, height: number): boolean {
    if (index < 0 || index >= this.size) {
      return false;
    }
    this.known[index] = 1;
    const change = height - this.height(index);
    if (Math.abs(change) < 0.01) {
      return false;
    }
    this.heights[index] = height;
    for (let at = index + 1; at <= this.size; at += at & -at) {
      this.sums[at] = (this.sums[at] ?? 0) + change;
    }
    return true;
  }

  /** The top of a row: the heights of all before it. */
  offset(index: number): number {
    let sum = 0;
    for (let at = Math.max(0, Math.min(index, this.size)); at > 0; at -= at & -at) {
      sum += this.sums[at] ?? 0;
    }
    return sum;
  }

  /** The row at a place; the first or the last one beyond the ends. Rows without height are never at a place, but at the end. */
  at(offset: number): number {
    let index = 0;
    let left = Math.max(0, offset);
    for (let step = 1 << Math.floor(Math.log2(Math.max(1, this.size))); step > 0; step >>= 1) {
      const sum = this.sums[index + step];
      if (index + step <= this.size && sum !== undefined && sum <= left) {
        index += step;
        left -= sum;
      }
    }
    return Math.max(0, Math.min(index, this.size - 1));
  }
}

function summed(heights: Float64Array): Float64Array {
  const sums = new Float64Array(heights.length + 1);
  for (let at = 1; at <= heights.length; at += 1) {
    sums[at] = (sums[at] ?? 0) + (heights[at - 1] ?? 0);
    const parent = at + (at & -at);
    if (parent <= heights.length) {
      sums[parent] = (sums[parent] ?? 0) + (sums[at] ?? 0);
    }
  }
  return sums;
}
