import { expect, test } from "vitest";
import { plain, runsOf } from "../src/terminal.js";

const ESC = "\u001b";

test.each([
  ["a link of a terminal", `${ESC}]8;;https://harm.invalid${ESC}\\text${ESC}]8;;${ESC}\\`, "text"],
  ["the title of a window", `${ESC}]0;title\u0007done`, "done"],
  ["the clipboard", `${ESC}]52;c;aGFybQ==\u0007done`, "done"],
  ["a command that nothing ends", `${ESC}]0;never ended\nnext`, "\nnext"],
  ["a device's command", `${ESC}P1;2|payload${ESC}\\done`, "done"],
  ["moves of the cursor", `${ESC}[2J${ESC}[1;1Hdone${ESC}[K${ESC}[?25l`, "done"],
  ["eight-bit controls", "\u009b31mred\u009b0m\u009d0;title\u009c", "red"],
  ["other escapes", `${ESC}(B${ESC}=${ESC}cdone`, "done"],
  ["single controls", "a\u0000\u0007\b\u007fb", "ab"],
  ["an escape at the end", `done${ESC}`, "done"],
  ["ends of lines", "one\r\ntwo\rthree", "one\ntwo\nthree"],
  ["nothing at all", "tab\tand\nline", "tab\tand\nline"],
])("%s is taken out", (_, text, shown) => {
  expect(plain(text)).toBe(shown);
  expect(runsOf(text).map((run) => run.text).join("")).toBe(shown);
});

test("colours and marks are kept, and end where they end", () => {
  expect(runsOf(`a${ESC}[31mred${ESC}[1mbold${ESC}[22m${ESC}[39m plain ${ESC}[4;32mgreen${ESC}[m end`)).toEqual([
    { text: "a", look: "" },
    { text: "red", look: "sgr-red" },
    { text: "bold", look: "sgr-red sgr-bold" },
    { text: " plain ", look: "" },
    { text: "green", look: "sgr-green sgr-under" },
    { text: " end", look: "" },
  ]);
});

test("of many colours the nearest of the theme's; greys and backgrounds are the text's own", () => {
  const look = (numbers: string): string => runsOf(`${ESC}[${numbers}mx`)[0]!.look;
  expect([look("38;5;196"), look("38;5;9"), look("38;2;20;200;30"), look("38:2:20:30:220"), look("38;5;240"), look("90"), look("97"), look("41"), look("48;5;196"), look("48;2;1;2;3;34"), look("38;5"), look("7")]).toEqual(
    ["sgr-red", "sgr-red", "sgr-green", "sgr-blue", "", "", "", "", "", "sgr-blue", "", ""],
  );
});

test("ten megabytes of colours take no longer than a moment", () => {
  const begun = performance.now();
  plain(`${ESC}[31mx${ESC}[0m`.repeat(1 << 20));
  plain(`${ESC}]`.repeat(1 << 20));
  plain(ESC.repeat(1 << 20));
  expect(performance.now() - begun).toBeLessThan(10_000);
});
