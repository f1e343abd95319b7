/** Programs whose conversations are shown here. */

const NAMES: Readonly<Record<string, string>> = {
  "claude-code": "Claude Code",
  codex: "Codex",
  gemini: "Gemini CLI",
  kimi: "kimi-cli",
  "kimi-code": "kimi-code",
  pi: "pi",
  opencode: "opencode",
};

/** The name that a program goes by; its kind where it is not known here. */
export function programName(kind: string): string {
  return NAMES[kind] ?? kind;
}
