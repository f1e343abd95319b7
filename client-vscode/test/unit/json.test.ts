import { expect, test } from "vitest";
import { elementsOf, indented, memberOf, membersOf } from "../../src/shared/text/json.js";

const VALUES: unknown[] = [
  null,
  "",
  'a "quoted" \\ one\n{[,:]}',
  [],
  {},
  [1, [], {}, [[]]],
  { a: { b: [1, { c: "}" }] }, "": null, "x:y": "1,2" },
  { text: "x".repeat(200_000) + "\\\"" },
];

test.each(VALUES)("what JavaScript can hold is written as it would write it: %#", (value) => {
  expect(indented(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2));
  expect(indented(` ${JSON.stringify(value, null, "\t")}\n`)).toBe(JSON.stringify(value, null, 2));
});

test("numbers stay as they are written, and so do repeated names and their order", () => {
  expect(indented('{"id":12345678901234567890,"x":1.10,"e":1E400,"2":0,"1":0,"x":2}')).toBe(
    '{\n  "id": 12345678901234567890,\n  "x": 1.10,\n  "e": 1E400,\n  "2": 0,\n  "1": 0,\n  "x": 2\n}',
  );
});

test("elements and members are the texts they are written with", () => {
  expect(elementsOf(' [ 12345678901234567890 , {"a": [1, 2]},"]," ] ')).toEqual(["12345678901234567890", '{"a": [1, 2]}', '"],"']);
  expect(membersOf('{"a\\u0041" : 1.0, "b":{"c":"}"} , "a": true}')).toEqual([["aA", "1.0"], ["b", '{"c":"}"}'], ["a", "true"]]);
  expect([elementsOf("[]"), elementsOf("{}"), elementsOf(""), membersOf("[1]"), membersOf("{ }")]).toEqual([[], [], [], [], []]);
  expect([memberOf('{"a":1,"a":2}', "a"), memberOf('{"a":1}', "b")]).toEqual(["2", undefined]);
});
