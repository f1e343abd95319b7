import { expect, test } from "vitest";
import { Prompts, type Prompt } from "../../src/kit/prompts.js";

const PROMPT = { text: "again" } as Prompt;
/** Handlers that hang are given up at once. */
const prompts = (): { readonly prompts: Prompts; readonly errors: string[] } => {
  const errors: string[] = [];
  return { prompts: new Prompts({ error: (message: unknown) => errors.push(String(message)) }, 1), errors };
};

test("without a handler nobody takes a prompt", async () => {
  expect(await prompts().prompts.offer(PROMPT)).toBe(false);
});

test("the first that says yes has it, and no other is asked", async () => {
  const { prompts: asked } = prompts();
  const heard: string[] = [];
  asked.handle(({ text }) => (heard.push(`one ${text}`), false));
  asked.handle(({ text }) => Promise.resolve(heard.push(`two ${text}`) > 0));
  asked.handle(() => (heard.push("three"), true));
  expect(await asked.offer(PROMPT)).toBe(true);
  expect(heard).toEqual(["one again", "two again"]);
});

test("one that throws, rejects, hangs or says something else has not taken it", async () => {
  const { prompts: asked, errors } = prompts();
  asked.handle(() => {
    throw new Error("thrown");
  });
  asked.handle(() => Promise.reject(new Error("rejected")));
  asked.handle(() => new Promise(() => undefined));
  asked.handle(() => "yes" as never);
  asked.handle(() => undefined as never);
  expect(await asked.offer(PROMPT)).toBe(false);
  expect(errors.map((error) => /thrown|rejected/.exec(error)?.[0])).toEqual(["thrown", "rejected"]);
});

test("one that was taken back is not asked, also where the same function is there twice", async () => {
  const { prompts: asked } = prompts();
  let times = 0;
  const take = (): boolean => (times += 1) < 0;
  const first = asked.handle(take);
  asked.handle(take);
  first.dispose();
  first.dispose();
  await asked.offer(PROMPT);
  expect(times).toBe(1);
});
