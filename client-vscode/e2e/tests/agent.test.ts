import { ConversationPage } from "../window/conversation";
import { WITH_OTHERS, expect, picture, test } from "../support/test";

test.use({ setup: WITH_OTHERS });

const QUESTION = "What do you want to know?";

test("an agent of a few lines keeps its conversation here, and goes on from the past it is taken back to", async ({ workbench, window, store }) => {
    await workbench.open();
    await window.show();
    const ask = async (question: string): Promise<void> => {
        await window.quick.command("Ask the Sample Agent");
        await window.quick.answer(QUESTION, question);
        await expect(window.checkpoints.row(question, 1)).toBeVisible();
    };
    await ask("How tall is the tower?");
    await expect(window.header).toContainText("Sample agent");
    await ask("And how old?");
    await window.restore(window.checkpoints.row("And how old?", 1));
    await expect(window.checkpoints.checkpoint("And how old?")).toHaveCount(0);
    await ask("Who built it?");
    const said = (): unknown => store.messages("sample-agent").at(-1)?.content;
    await expect.poll(said).toBe("That was question 2; you said: Who built it?"); // it does not know of the other one

    // A prompt that goes again is in the agent's input, not in the clipboard.
    await window.run("openConversation");
    const page = new ConversationPage(window.page);
    await page.shows("Sample agent");
    await page.choose(2, "Edit and Go Again…");
    await expect(window.quick.saying(QUESTION)).toBeVisible();
    await expect(window.quick.input).toHaveValue("Who built it?");
    await window.quick.answer(QUESTION, "Who built it, and why?");
    await expect(page.row(3)).toContainText("That was question 2; you said: Who built it, and why?");
});

test("going back stops the agent's turn first, so that it adds nothing to the past", async ({ window, store }) => {
    await window.clearNotifications();
    await window.openSession("Sample agent");
    const before = store.messages("sample-agent");
    await window.quick.command("Ask the Sample Agent");
    await window.quick.answer(QUESTION, "run workbench.action.closeSidebar");
    const asking = window.checkpoints.row("Approval needed: run command", 1);
    await expect(asking).toBeVisible();
    await window.restore(window.checkpoints.row("run workbench", 1));
    await picture(window, "agent-stopped");
    await expect(window.checkpoints.checkpoint("run workbench")).toHaveCount(0);
    await expect(asking).toHaveCount(0);
    await expect(window.notifications.saying(/changed meanwhile/)).toHaveCount(0);
    expect(store.messages("sample-agent")).toEqual(before);
    // The next turn begins where the conversation is.
    await window.quick.command("Ask the Sample Agent");
    await window.quick.answer(QUESTION, "Are you still there?");
    await expect.poll(() => store.messages("sample-agent").at(-1)?.content).toMatch(/^That was question \d; you said: Are you still there\?$/);
    expect(store.messages("sample-agent")).toHaveLength(before.length + 2);
});
