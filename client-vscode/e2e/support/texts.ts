/** The texts of the extension's manifest, in the language of the window: tests name commands, not what they are called. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { EXTENSION } from "./places";

interface Manifest {
    contributes: { commands: { command: string; title: string }[] };
}

export class Texts {
    private readonly texts: Record<string, string>;
    private readonly manifest: Manifest;

    constructor(locale: "en-US" | "zh-CN" = "en-US") {
        const read = (name: string): unknown => JSON.parse(readFileSync(join(EXTENSION, name), "utf8"));
        const translated = `package.nls.${locale.toLowerCase()}.json`;
        const english = read("package.nls.json") as Record<string, string>;
        const other = existsSync(join(EXTENSION, translated)) ? (read(translated) as Record<string, string>) : {};
        this.texts = { ...english, ...(locale === "en-US" ? {} : other) };
        this.manifest = read("package.json") as Manifest;
    }

    of(key: string): string {
        const text = this.texts[key];
        if (text === undefined) throw new Error(`the manifest has no text "${key}"`);
        return text;
    }

    /** The title of `timeleap.<name>`. */
    command(name: string): string {
        const found = this.manifest.contributes.commands.find(({ command }) => command === `timeleap.${name}`);
        if (!found) throw new Error(`the manifest has no command "${name}"`);
        return found.title.replace(/^%(.*)%$/, (_, key: string) => this.of(key));
    }
}
