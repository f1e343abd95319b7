import extension from "../eslint.config.mjs";

/** The extension's own rules, for what stands here. */
export default [
  { ignores: ["fixtures/", "*.mjs", "support/*.mjs"] },
  ...extension,
  { files: ["tests/**"], rules: { "no-console": "off" } }, // they print what they measure
  { files: ["host/**"], rules: { "@typescript-eslint/no-require-imports": "off" } },
];
