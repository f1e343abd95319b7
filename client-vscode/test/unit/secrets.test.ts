import { expect, test } from "vitest";
import { messageLines, pieces } from "../../src/features/chat/reading.js";
import { MASK, masked, maskedPiece } from "../../src/shared/secrets.js";
import * as table from "../../../protocol/timeleap_protocol/secret_masks.json";

const word = (length: number): string => "aB3".repeat(length).slice(0, length);
const SIGNS: Readonly<Record<string, string>> = { a: "aB3", A: "ABCD2345", d: "1234567890", h: "0123456789abcdef" };
/** A case of the table: `«a36»` stands for 36 characters, so that no such file holds what looks like a key. */
const written = (text: string): string =>
  text.replace(/«([aAdh])(\d+)»/gu, (_, kind: string, length: string) => SIGNS[kind]!.repeat(Number(length)).slice(0, Number(length)));

test("a piece of a text shows no half of a secret at its ends", () => {
  expect(maskedPiece(`${word(30)} the key ${word(30)}`)).toBe("… the key …");
  expect(maskedPiece("the port is 8080")).toBe("the port is 8080");
});

test("hostile text takes no longer than its length", () => {
  // Of the processor, in milliseconds: others may keep the machine busy.
  const time = (text: string): number => {
    const before = process.cpuUsage();
    masked(text);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
  for (const piece of ["eyJ", "://a:", "sk-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\naaaaaaaaaaaaaaaaaaaa", "-eyJ", "token=a1", "token=\n", "token='a", "Cookie: a=b", "authorization: ", "a", " : "]) {
    const [short, long] = [50_000, 400_000].map((length) => Math.min(...[1, 2, 3].map(() => time(piece.repeat(length / piece.length)))));
    expect(long! / Math.max(short!, 1)).toBeLessThan(40); // eight times as long; what is quadratic takes 64 times as long
  }
});

test.each(table.masked)("the table's %s is masked, and nothing around it", (text, secret) => {
  expect(masked(written(text))).toBe(written(text).replace(written(secret), MASK));
});

test.each(table.repeatedly)("the table's %s is masked where it is repeated, too", (text, shown) => {
  expect(masked(text)).toBe(shown);
});

test.each(table.unmasked)("the table's %s is no secret", (text) => {
  expect(masked(written(text))).toBe(written(text));
});

const PASSWORD = "correcthorse42staple";
const entries = [`I use ${PASSWORD} for it.`, `password=${PASSWORD}`, `${PASSWORD} did not work`].map((content, index) => ({ index, message: { role: "user", content } }));

test("a password that stands in one message is masked in all of an answer, those before it too", () => {
  expect(messageLines(entries)).toEqual([`[0] user: I use ${MASK} for it.`, `[1] user: password=${MASK}`, `[2] user: ${MASK} did not work`]);
});

test("a password of one match of a search is masked in all of them", () => {
  expect(pieces(entries.map(({ message }) => message.content)).join(" ")).not.toContain(PASSWORD);
});

test("arguments of a call give a password away as well", () => {
  const call = { id: "1", type: "function" as const, function: { name: "sh", arguments: JSON.stringify({ password: PASSWORD }) } };
  const lines = messageLines([...entries.slice(0, 1), { index: 1, message: { role: "assistant", content: "", tool_calls: [call] } }]);
  expect(lines.join()).not.toContain(PASSWORD);
});
