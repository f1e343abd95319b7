/** BLAKE2b (RFC 7693) with any digest size: the one of `node:crypto` has 64 bytes, and a shorter one is no part of it. */

const MASK = (1n << 64n) - 1n;
const BLOCK = 128;
const START: readonly bigint[] = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const ORDER: readonly (readonly number[])[] = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const ROUNDS = 12;
/** Columns, then diagonals of the state. */
const LANES: readonly (readonly [number, number, number, number])[] = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
];

/** The digest of `data`, without a key, of `size` bytes (1 to 64). */
export function blake2b(data: Uint8Array, size: number): Uint8Array {
  const state = BigUint64Array.from(START);
  state[0] = START[0]! ^ 0x01010000n ^ BigInt(size);
  const blocks = Math.max(1, Math.ceil(data.length / BLOCK));
  for (let block = 0; block < blocks; block++) {
    const done = Math.min(data.length, (block + 1) * BLOCK);
    mix(state, words(data.subarray(block * BLOCK, done)), BigInt(done), block === blocks - 1);
  }
  const digest = new Uint8Array(64);
  const view = new DataView(digest.buffer);
  state.forEach((word, at) => view.setBigUint64(8 * at, word, true));
  return digest.subarray(0, size);
}

/** The 16 words of a block, filled up with zeros. */
function words(block: Uint8Array): bigint[] {
  const whole = new Uint8Array(BLOCK);
  whole.set(block);
  const view = new DataView(whole.buffer);
  return Array.from({ length: 16 }, (_, at) => view.getBigUint64(8 * at, true));
}

function mix(state: BigUint64Array, message: readonly bigint[], done: bigint, last: boolean): void {
  const v = BigUint64Array.from([...state, ...START]);
  v[12]! ^= done; // its upper half, word 13, is for data of more than 2^64 bytes
  if (last) {
    v[14]! ^= MASK;
  }
  for (let round = 0; round < ROUNDS; round++) {
    const order = ORDER[round % ORDER.length]!;
    LANES.forEach(([a, b, c, d], lane) => {
      v[a] = v[a]! + v[b]! + message[order[2 * lane]!]!;
      v[d] = turned(v[d]! ^ v[a]!, 32n);
      v[c] = v[c]! + v[d]!;
      v[b] = turned(v[b]! ^ v[c]!, 24n);
      v[a] = v[a]! + v[b]! + message[order[2 * lane + 1]!]!;
      v[d] = turned(v[d]! ^ v[a]!, 16n);
      v[c] = v[c]! + v[d]!;
      v[b] = turned(v[b]! ^ v[c]!, 63n);
    });
  }
  for (let at = 0; at < 8; at++) {
    state[at]! ^= v[at]! ^ v[at + 8]!;
  }
}

function turned(word: bigint, bits: bigint): bigint {
  return ((word >> bits) | (word << (64n - bits))) & MASK;
}
