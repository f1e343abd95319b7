import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "e2e/", "node_modules/", "*.mjs", "*.mts"] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "no-console": "error",
      // What is named to be left out of the rest.
      "@typescript-eslint/no-unused-vars": ["error", { ignoreRestSiblings: true }],
      // Numbers in templates are what they look like.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // Arrow functions that only call something read better in one line.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true, ignoreVoidOperator: true }],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      // Index signatures are only reached with brackets; the compiler insists on it.
      "@typescript-eslint/dot-notation": "off",
    },
  },
  // The core knows no feature, a feature no other. The kit has what several features make of the core; what is shared knows none of them.
  ...[
    ["src/shared/**", "/(core|kit|features)/"],
    ["src/core/**", "/(kit|features)/"],
    ["src/kit/**", "/features/"],
    ["src/features/**", "^\\.\\./(?!\\.\\./(core|kit|shared)/)"],
  ].map(([folder, regex]) => ({
    files: [folder],
    rules: { "@typescript-eslint/no-restricted-imports": ["error", { patterns: [{ regex, message: "Features know the core, the kit and what is shared; the kit the core; the core what is shared." }] }] },
  })),
  {
    files: ["test/**", "webview/test/**"],
    rules: {
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/no-extraneous-class": "off",
    },
  },
);
