import { expect, test } from "vitest";
import { MASK, masked, maskedPiece } from "../../src/agents/secrets.js";
import * as table from "../../../protocol/timeleap_protocol/secret_masks.json";

const word = (length: number): string => "aB3".repeat(length).slice(0, length);

test.each([
  `ghp_${word(36)}`,
  `github_pat_${word(40)}`,
  `glpat-${word(20)}`,
  `xoxb-${word(24)}`,
  `sk-ant-api03-${word(40)}`,
  `sk-${word(48)}`,
  `sk_live_${word(24)}`,
  `AIza${word(35)}`,
  `AKIA${"ABCD2345".repeat(2)}`,
  `npm_${word(36)}`,
  `pypi-${word(60)}`,
  `hf_${word(34)}`,
  `SG.${word(22)}.${word(43)}`,
  `eyJ${word(20)}.eyJ${word(40)}.${word(43)}`,
  `-----BEGIN RSA PRIVATE KEY-----\n${word(60)}\n-----END RSA PRIVATE KEY-----`,
  `-----BEGIN PRIVATE KEY-----\n${word(60)}\n`,
])("%s is masked, and nothing around it", (secret) => {
  expect(masked(`before ${secret}`)).toBe(`before ${MASK}`);
  if (!secret.includes("BEGIN")) {
    expect(masked(`KEY="${secret}", after`)).toBe(`KEY="${MASK}", after`);
  }
});

test.each([
  ["postgresql://agent:hunter2@db/timeleap", `postgresql://agent:${MASK}@db/timeleap`],
  ["curl -H 'Authorization: Bearer 0123456789abcdef01'", `curl -H 'Authorization: Bearer ${MASK}'`],
  ['{"x-api-key": "0123456789abcdef01"}', `{"x-api-key": "${MASK}"}`],
  ["AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY", `AWS_SECRET_ACCESS_KEY=${MASK}`],
  ['password = "correct4horse7battery"', `password = "${MASK}"`],
])("the value in %s is masked, its name is not", (text, expected) => {
  expect(masked(text)).toBe(expected);
});

test.each([
  "token_count = 1234567890123",
  "token = read_token(file2, second)",
  "password: string, and a tokenizer",
  "the task-force of sk-learn and disk-usage-of-all-the-things",
  "https://example.org:8080/a/b@c",
  "commit 3f786850e387550fdab836ed7e6dc881de23001b",
])("%s is no secret", (text) => {
  expect(masked(text)).toBe(text);
});

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
  for (const piece of ["eyJ", "://a:", "sk-", "-----BEGIN PRIVATE KEY-----", "token=a1", "authorization: ", "a", " : "]) {
    const [short, long] = [50_000, 400_000].map((length) => Math.min(...[1, 2, 3].map(() => time(piece.repeat(length / piece.length)))));
    expect(long! / Math.max(short!, 1)).toBeLessThan(40); // eight times as long; what is quadratic takes 64 times as long
  }
});

test.each(table.masked)("the table's %s is masked", (text, secret) => {
  expect(masked(text)).toBe(text.replace(secret, MASK));
});

test.each(table.unmasked)("the table's %s is no secret", (text) => {
  expect(masked(text)).toBe(text);
});
