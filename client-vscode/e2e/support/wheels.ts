/** What an installation of the server needs, so that it reaches nothing but this machine. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { PYTHON, ROOT } from "./places";
import { run } from "./process";

/** The Python that this checkout's environment was made with. */
export async function basePython(): Promise<string> {
    return (await run(PYTHON, ["-c", "import sys; print(sys._base_executable)"], process.env)).trim();
}

/** What the server needs, from where pip gets it on this machine. The installation itself then reaches nothing. */
export async function fetchWheels(folder: string): Promise<void> {
    const wheels = join(ROOT, "client-vscode/dist/wheels");
    const [ours] = readdirSync(wheels);
    if (ours === undefined) throw new Error(`there is no wheel in ${wheels}`);
    const quietly = ["--quiet", "--disable-pip-version-check", "--constraint", join(ROOT, "constraints.txt")];
    await run(PYTHON, ["-m", "pip", "download", ...quietly, "--dest", folder, join(wheels, ours)], process.env);
    rmSync(join(folder, ours)); // that one comes with the extension
}
