import { expect, picture, sample, test } from "../support/test";
import type { Pipeline } from "../support/store";
import { ConversationPage } from "../window/conversation";
import { pathToFileURL } from "node:url";

let agent: Pipeline;

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("asking", sample(), { title: "Asking first", workspace });
    await workbench.open();
    await window.show();
    await window.openSession("Asking first");
    agent = store.pipeline();
    await agent.call("initialize");
    await agent.call("session/open", { sessionId: "asking", create: false });
});

test.afterAll(async () => {
    await agent.close();
});

interface Decision {
    decision: string;
    reason?: string;
}

const ask = (description: string, more: object = {}): Promise<Decision> =>
    agent.call<Decision>("approval/request", { sessionId: "asking", action: "run command", description, ...more });

test("what the agent asks for is a question that one press answers, a row, and in the status bar", async ({ window }) => {
    await window.run("openConversation"); // as somebody who reads on meanwhile
    await new ConversationPage(window.page).shows("Asking first");
    await window.clearNotifications();
    const answer = ask("npm publish --tag next", { detail: { cwd: "/home/me/split" } });
    const row = window.checkpoints.row("Approval needed: run command", 1);
    await expect(row).toBeVisible();
    await expect(row).toHaveAttribute("aria-label", /Approval needed: run command, npm publish/);
    await expect(window.status(/Waiting for your decision: 1/)).toHaveClass(/warning-kind/);
    await window.notifications.look(/asks for your approval: run command – npm publish --tag next – \{"cwd":"\/home\/me\/split"\}/);
    await picture(window, "approval", { height: 560 });
    await window.notifications.press(/asks for your approval/, "Approve");
    expect(await answer).toMatchObject({ decision: "approve" });
    await expect(row).toHaveCount(0);
    await expect(window.status(/Waiting for your decision/)).toHaveCount(0);
});

test("it is decided by the keyboard alone: rejected with a reason", async ({ window }) => {
    await window.clearNotifications();
    const answer = ask("rm -rf build");
    await expect(window.checkpoints.row("Approval needed: run command", 1)).toBeVisible();
    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "Approval needed:");
    await window.quick.choose("Asking first", "Reject");
    await window.quick.answer("The reason, for the agent", "not while the tests run");
    expect(await answer).toMatchObject({ decision: "reject", reason: "not while the tests run" });
    await expect(window.checkpoints.row("Approval needed", 1)).toHaveCount(0);
});

test("what somebody else decides goes away here, the open question too", async ({ window }) => {
    const answer = ask("make deploy");
    await expect(window.checkpoints.row("Approval needed: run command", 1)).toBeVisible();
    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "Approval needed:");
    const question = window.quick.saying("Asking first");
    await expect(question).toBeVisible();
    const { approvals } = await agent.call<{ approvals: { approvalId: string }[] }>("approval/list", { sessionId: "asking" });
    await agent.call("approval/respond", { sessionId: "asking", approvalId: approvals[0]?.approvalId, decision: "approve" });
    expect(await answer).toMatchObject({ decision: "approve" });
    await expect(question).toBeHidden();
    await expect(window.checkpoints.row("Approval needed", 1)).toHaveCount(0);
});

test("hostile words make no link; what is long is read first, as plain text", async ({ window }) => {
    await window.clearNotifications();
    const answer = ask(`[Look](command:workbench.action.closeWindow) <style>*{display:none}</style>\n${"echo fine; ".repeat(40)}rm -rf /`);
    const question = await window.notifications.look(/asks for your approval/);
    await expect(question.locator("a", { hasText: "Look" })).toHaveCount(0);
    await expect(question.getByRole("button", { name: "Approve", exact: true })).toHaveCount(0);
    await window.notifications.press(/asks for your approval/, "Show All and Decide…");
    await expect(new ConversationPage(window.page).over.locator("pre")).toContainText("rm -rf /"); // wrapped, not far to the right
    await picture(window, "approval-long");
    await window.quick.choose("Asking first", "Reject");
    await window.quick.answer("The reason, for the agent", "");
    expect(await answer).toMatchObject({ decision: "reject" });
    await window.closeEditors();
});

test("away rejects at once, and is shown", async ({ window }) => {
    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "Away: requests are rejected");
    await expect(window.status(/Away: requests are rejected/)).toHaveClass(/warning-kind/);
    expect(await ask("anything")).toMatchObject({ decision: "reject", reason: "afk" });
    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "I am back");
    await expect(window.status(/Away/)).toHaveCount(0);
});
