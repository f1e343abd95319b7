/** The workbench: code-server with everything fresh and the extension installed, and a browser that shows it. */
import { chromium as playwright, type BrowserContext, type Page } from "@playwright/test";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { NODE, WORKBENCH, chromium, tool } from "./places";
import { end, run } from "./process";

export interface WorkbenchOptions {
    /** Extensions to install: packaged ones (.vsix), and folders of others. */
    extensions: string[];
    /** `ask`: Restricted Mode until somebody says otherwise in the trust prompt. */
    trust: "granted" | "ask";
    /** As browsers spell it; what the workbench is shown in. */
    locale: "en-US" | "zh-CN";
    /** Settings of this machine (the user's own may not name programs: the extension host is remote to the browser). */
    settings: Record<string, unknown>;
    /** Variables of the extension host, and so of the Timeleap server; `scratch` is a folder that goes away with the workbench. */
    environment: (scratch: string) => NodeJS.ProcessEnv;
    /** Further arguments of code-server. */
    serverArguments: string[];
    /** Changes what is installed, in the folder of the extensions, before the workbench is started. */
    installed: (extensions: string) => void;
    viewport: { width: number; height: number };
}

export const DEFAULTS: WorkbenchOptions = {
    extensions: [],
    trust: "granted",
    locale: "en-US",
    settings: {},
    environment: () => ({}),
    serverArguments: [],
    installed: () => undefined,
    viewport: { width: 1520, height: 900 },
};

const MACHINE_SETTINGS = "user/Machine/settings.json";

const QUIET = {
    "chat.disableAIFeatures": true,
    "diffEditor.useInlineViewWhenSpaceIsLimited": false,
    "editor.minimap.enabled": false,
    "extensions.autoCheckUpdates": false,
    "extensions.autoUpdate": false,
    "extensions.ignoreRecommendations": true,
    "git.enabled": false,
    "security.workspace.trust.startupPrompt": "always",
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "window.commandCenter": false,
    "workbench.enableExperiments": false,
    "workbench.reduceMotion": "on",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": false,
    "workbench.welcomePage.walkthroughs.openOnInstall": false,
};

// What stands there once a language pack is installed. With the few words of the workbench itself that the tests meet.
const CHINESE = {
    "zh-cn": {
        hash: "timeleap-tests",
        extensions: [{ extensionIdentifier: { id: "timeleap-tests.chinese" }, version: "1.0.0" }],
        translations: { vscode: join(__dirname, "../fixtures/chinese.json") },
        label: "中文(简体)",
    },
};

// Nobody but this machine: names other than ours do not resolve in the browser.
const BROWSER = [
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
];

/** A running workbench. `folder` is the workspace, `home` the Timeleap store, `scratch` what goes away with it. */
export class Workbench {
    private constructor(
        readonly page: Page,
        readonly scratch: string,
        readonly address: string,
        private readonly context: BrowserContext,
        private readonly server: ChildProcess,
        private readonly environment: NodeJS.ProcessEnv,
    ) {}

    get folder(): string {
        return join(this.scratch, "tally");
    }

    get home(): string {
        return join(this.scratch, "store");
    }

    /** What a program sees that is started beside the extension's server: the same store and runtime directory. */
    get variables(): NodeJS.ProcessEnv {
        return this.environment;
    }

    static async start(wanted: Partial<WorkbenchOptions>): Promise<Workbench> {
        const options = { ...DEFAULTS, ...wanted };
        const scratch = mkdtempSync(join(tmpdir(), "tl-e2e-"));
        const environment = surroundings(scratch, options.environment(scratch));
        const base = prepare(scratch, options);
        await install(options.extensions, base, scratch, environment);
        options.installed(join(scratch, "extensions"));
        const { server, address } = await serve([...base, ...chosen(options)], environment);
        const context = await playwright.launchPersistentContext(join(scratch, "browser"), {
            executablePath: chromium(),
            headless: true,
            viewport: options.viewport,
            locale: options.locale,
            reducedMotion: "reduce",
            args: BROWSER,
        });
        const page = context.pages()[0] ?? (await context.newPage());
        return new Workbench(page, scratch, address, context, server, environment);
    }

    /** Show the folder, or the workspace that `query` names, and wait until the workbench is painted. Again: like a reload of the window. */
    async open(query: Record<string, string> = {}): Promise<void> {
        const search = new URLSearchParams({ ...("workspace" in query ? {} : { folder: this.folder }), ...query });
        await this.page.goto(`${this.address}/?${search.toString()}`);
        await this.page.locator(".monaco-workbench .part.statusbar").waitFor();
    }

    /** Set this machine's settings anew; the workbench notices by itself. */
    configure(settings: Record<string, unknown>): void {
        writeFileSync(join(this.scratch, MACHINE_SETTINGS), JSON.stringify(settings));
    }

    /** Close everything and take the files away. The extension host ends by itself a little later. */
    async stop(): Promise<void> {
        await this.context.close();
        await end(this.server);
        rmSync(this.scratch, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    }
}

function surroundings(scratch: string, extra: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
    const environment: NodeJS.ProcessEnv = {
        ...process.env,
        HOME: join(scratch, "home"),
        XDG_CONFIG_HOME: join(scratch, "config"),
        XDG_DATA_HOME: join(scratch, "data"),
        XDG_CACHE_HOME: join(scratch, "cache"),
        TIMELEAP_HOME: join(scratch, "store"),
        TIMELEAP_RUNTIME_DIR: join(scratch, "run"),
        VSCODE_CLI: "1", // else the extension host gets the variables of a login shell
        PYTHONDONTWRITEBYTECODE: "1",
        EXTENSIONS_GALLERY: JSON.stringify({ serviceUrl: "" }),
        ...extra,
    };
    delete environment["VSCODE_IPC_HOOK_CLI"];
    return environment;
}

function prepare(scratch: string, options: WorkbenchOptions): string[] {
    const folders = ["home", "tally", "user/User", "user/Machine", "extensions"];
    for (const name of folders) mkdirSync(join(scratch, name), { recursive: true });
    mkdirSync(join(scratch, "run"), { mode: 0o700 });
    writeFileSync(join(scratch, "tally", "split.py"), "def split_bill(total: str, people: int) -> list[str]: ...\n");
    writeFileSync(join(scratch, "user/User/settings.json"), JSON.stringify(QUIET));
    writeFileSync(join(scratch, MACHINE_SETTINGS), JSON.stringify(options.settings));
    if (options.locale === "zh-CN") writeFileSync(join(scratch, "user/languagepacks.json"), JSON.stringify(CHINESE));
    const config = join(scratch, "config.yaml"); // without one code-server writes one into the home folder
    writeFileSync(config, "{}\n");
    return [WORKBENCH, "--config", config, "--user-data-dir", join(scratch, "user"), "--extensions-dir", join(scratch, "extensions")];
}

async function install(extensions: string[], base: string[], scratch: string, env: NodeJS.ProcessEnv): Promise<void> {
    const packages = await Promise.all(extensions.map((extension) => packaged(extension, scratch)));
    const said = await run(NODE, [...base, ...packages.flatMap((file) => ["--install-extension", file])], env);
    if (said.split("successfully installed").length - 1 !== packages.length) throw new Error(`not all extensions were installed: ${said}`);
}

async function packaged(extension: string, scratch: string): Promise<string> {
    if (extension.endsWith(".vsix")) return extension;
    const file = join(scratch, `${basename(extension)}.vsix`);
    const source = join(extension, "src/extension.ts");
    if (existsSync(source)) {
        const how = ["--bundle", "--platform=node", "--format=cjs", "--external:vscode", "--log-level=warning"];
        await run(tool("esbuild/bin/esbuild"), [source, ...how, `--outfile=${join(extension, "dist/extension.js")}`], process.env);
    }
    const quietly = ["--no-dependencies", "--allow-missing-repository", "--no-rewrite-relative-links", "--skip-license", "--out", file];
    await run(NODE, [tool("@vscode/vsce/vsce"), "package", ...quietly], process.env, extension);
    return file;
}

function chosen(options: WorkbenchOptions): string[] {
    return [
        ...(options.trust === "granted" ? ["--disable-workspace-trust"] : []),
        ...["--locale", options.locale.toLowerCase()],
        ...options.serverArguments,
    ];
}

async function serve(base: string[], env: NodeJS.ProcessEnv): Promise<{ server: ChildProcess; address: string }> {
    const quiet = ["telemetry", "update-check", "getting-started-override", "proxy"].map((name) => `--disable-${name}`);
    const args = [...base, "--bind-addr", "127.0.0.1:0", "--auth", "none", ...quiet, "--ignore-last-opened"];
    const server = spawn(NODE, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    const address = await new Promise<string>((resolve, reject) => {
        const listen = (chunk: Buffer): void => {
            said += chunk.toString();
            const found = /listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(said);
            if (found?.[1]) resolve(found[1]);
        };
        server.stdout.on("data", listen);
        server.stderr.on("data", listen);
        server.once("exit", () => { reject(new Error(`code-server ended: ${said}`)); });
    });
    return { server, address };
}
