import { OURS, VSIX, expect, picture, sample, test, IMPORTS } from "../support/test";
import { FIXTURES, ROOT } from "../support/places";
import { MOMENT, patiently } from "../window/patience";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The editor's own support of MCP: what it makes of the server that the extension defines.

/** Where `make agents` has put what `timeleap mcp` needs beside the server. */
const library = join(ROOT, ".tools/agents/python/lib");
const PACKAGES = existsSync(library) ? readdirSync(library).map((python) => join(library, python, "site-packages")).join(":") : "";

test.use({
    setup: {
        extensions: [VSIX, join(FIXTURES, "chat")],
        settings: { ...OURS, "chat.disableAIFeatures": false },
        environment: () => ({ PYTHONPATH: PACKAGES }),
    },
});

test("the editor lists the MCP server, starts it as it is defined, and its tools read the conversations kept here", async ({ workbench, store, window }) => {
    test.skip(PACKAGES === "", "make agents installs what timeleap mcp needs");
    await store.replay("for-mcp", sample(), { title: "Read by an agent", workspace: pathToFileURL(workbench.folder).href });
    await workbench.open();
    await window.show();
    await window.openSession("Read by an agent");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await window.quick.command("MCP: List Servers");
    await expect(window.quick.options.filter({ hasText: "Timeleap" })).toContainText("Timeleap");
    await window.quick.choose("Select an MCP Server", /^Timeleap/);
    await patiently(async () => {
        await window.quick.options.filter({ hasText: "Start Server" }).first().click({ timeout: MOMENT });
        await expect(window.quick.root).toBeHidden({ timeout: MOMENT });
    });
    const output = window.page.locator(".part.panel .view-lines");
    await expect(output).toContainText(/Discovered\s6\stools/);
    await window.quick.command("MCP: List Servers");
    await expect(window.quick.options.filter({ hasText: "Timeleap" })).toContainText("Running");
    await picture(window, "mcp");
    await window.quick.close();
    await window.quick.command("Use a Tool of Chat");
    await window.quick.answer("Which tool, and with what?", `search_history ${JSON.stringify({ query: "many guests", scope: "workspace" })}`);
    await expect(window.editor).toContainText("for-mcp#15 user: That is not fair when there are many guests");
    await picture(window, "mcp-used");
});
