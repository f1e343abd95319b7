import { expect, test } from "vitest";
import { Heights } from "../src/heights.js";

/** The same, slowly. */
const naive = (heights: readonly number[], offset: number): number => {
  let top = 0;
  for (let index = 0; index < heights.length; index += 1) {
    top += heights[index]!;
    if (top > Math.max(0, offset)) {
      return index;
    }
  }
  return Math.max(0, heights.length - 1);
};

test("tops and rows at places are those of the sums, whatever was measured", () => {
  for (const count of [0, 1, 2, 7, 64, 65, 300]) {
    const rows = new Heights(count, 100);
    const real = Array.from({ length: count }, () => 100);
    for (let turn = 0; turn < count * 2; turn += 1) {
      const index = (turn * 37) % count;
      const height = (turn * 53) % 211 === 0 ? 0 : ((turn * 53) % 211) / 2;
      rows.set(index, height);
      real[index] = height;
    }
    expect(rows.total).toBeCloseTo(real.reduce((sum, height) => sum + height, 0), 6);
    for (let index = 0; index <= count; index += 1) {
      expect(rows.offset(index)).toBeCloseTo(real.slice(0, index).reduce((sum, height) => sum + height, 0), 6);
    }
    for (let offset = -50; offset < rows.total + 100; offset += 17) {
      expect(rows.at(offset)).toBe(naive(real, offset));
    }
  }
});

test("rows without height are passed over", () => {
  const rows = new Heights(5, 10);
  rows.set(1, 0);
  rows.set(2, 0);
  expect([rows.at(9), rows.at(10), rows.at(19), rows.at(20)]).toEqual([0, 3, 3, 4]);
});

test("another number of rows keeps what was measured of the first, and no more", () => {
  const rows = new Heights(10, 100);
  rows.set(2, 30);
  rows.set(8, 30);
  rows.resize(12, 5);
  expect([rows.height(2), rows.height(8), rows.isKnown(2), rows.isKnown(8), rows.total]).toEqual([30, 100, true, false, 1_130]);
  rows.resize(0);
  expect([rows.total, rows.at(100)]).toEqual([0, 0]);
});

test("beyond the ends nothing is measured", () => {
  const rows = new Heights(3, 10);
  expect([rows.set(3, 50), rows.set(-1, 50), rows.set(1, 10), rows.total]).toEqual([false, false, false, 30]);
});
