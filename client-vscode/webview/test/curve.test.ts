import { expect, test } from "vitest";
import { curvePoints } from "../src/curve.js";

const checkpoints = [{ at: 0, tokens: 0 }, { at: 4, tokens: 6_950 }];

test("the curve ends at the number of tokens that stands above the conversation", () => {
  expect(curvePoints([[3, 6_950]], checkpoints, { messages: 9, tokens: 18_000 })).toEqual([[3, 6_950], [9, 18_000]]);
  expect(curvePoints([], checkpoints, { messages: 9, tokens: 18_000 }).at(-1)).toEqual([9, 18_000]);
});

test("a timeline has what was reported, and an empty conversation no point at all", () => {
  expect(curvePoints([], checkpoints, { messages: 9, tokens: 18_000, timeline: "1" })).toEqual([[0, 0], [4, 6_950]]);
  expect(curvePoints([], [], { messages: 0, tokens: 0 })).toEqual([]);
});
