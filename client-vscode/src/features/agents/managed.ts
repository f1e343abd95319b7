/** The private environment: a Python environment of this extension's own, with the server from the wheel that comes with it. */

import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as vscode from "vscode";
import { ServerFailure } from "../../core/server/failure.js";
import type { Ran, Run } from "../../shared/programs.js";

const CREATE_TIMEOUT = 120_000;
const INSTALL_TIMEOUT = 600_000;
/** Written last, so that an environment that was not finished is not taken for one. */
const STAMP = "installed";

export interface ManagedOptions {
  /** The extension's own storage. */
  readonly storage: string;
  /** The folder with the wheel. */
  readonly wheels: string;
  /** Another version gets another environment. */
  readonly version: string;
  readonly run: Run;
  readonly log: Pick<vscode.LogOutputChannel, "info" | "error">;
  readonly platform?: NodeJS.Platform;
}

export class ManagedEnvironment {
  private readonly folder: string;

  constructor(private readonly options: ManagedOptions) {
    this.folder = join(options.storage, `server-${options.version}`);
  }

  /** Its Python; undefined: it is not installed. */
  get python(): string | undefined {
    return existsSync(join(this.folder, STAMP)) ? pythonIn(this.folder, this.options.platform) : undefined;
  }

  /**
   * Rebuilds it. What was there stays in use until the new one is complete; an interrupted installation leaves nothing behind
   * that would be used.
   *
   * @param python of at least the minimum version
   * @throws ServerFailure with what pip said
   */
  async install(python: string): Promise<void> {
    const wheel = this.wheel();
    await mkdir(this.options.storage, { recursive: true });
    const aside = `${this.folder}.old`;
    await rm(aside, { recursive: true, force: true });
    if (existsSync(this.folder)) {
      await rename(this.folder, aside);
    }
    try {
      this.check(await this.options.run(python, ["-I", "-m", "venv", this.folder], CREATE_TIMEOUT));
      const pip = ["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", wheel];
      const own = pythonIn(this.folder, this.options.platform);
      this.check(await this.options.run(own, pip, INSTALL_TIMEOUT));
      // Regular expressions in searches. Without a wheel, as on Alpine, searches are for words; so its failure is none.
      await this.options.run(own, [...pip.slice(0, -1), "--only-binary=:all:", `${wheel}[regex]`], INSTALL_TIMEOUT);
      await writeFile(join(this.folder, STAMP), this.options.version);
    } catch (error) {
      await rm(this.folder, { recursive: true, force: true });
      if (existsSync(aside)) {
        await rename(aside, this.folder);
      }
      throw error;
    }
    await rm(aside, { recursive: true, force: true });
  }

  private wheel(): string {
    const { wheels } = this.options;
    const name = existsSync(wheels) ? readdirSync(wheels).find((file) => file.endsWith(".whl")) : undefined;
    if (name === undefined) {
      throw new ServerFailure("noServer", vscode.l10n.t("This build of the extension does not bring the server. Install it with pip: {0}", "pip install timeleap"));
    }
    return join(wheels, name);
  }

  private check({ code, stdout, stderr }: Ran): void {
    this.options.log.info(stdout.trimEnd());
    if (code !== 0) {
      this.options.log.error(stderr.trimEnd());
      const reason = stderr.trimEnd().split("\n").at(-1) ?? "";
      throw new ServerFailure("noServer", vscode.l10n.t("The server could not be installed: {0}", reason));
    }
  }
}

function pythonIn(folder: string, platform: NodeJS.Platform = process.platform): string {
  return platform === "win32" ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}
