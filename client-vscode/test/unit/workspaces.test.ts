/** The folders of the window, in the form in which sessions name their workspace. */

import { expect, test } from "vitest";
import { folderOf, isAmong, workspaces } from "../../src/shared/workspaces.js";
import { Uri, workspace } from "../support/vscode.js";

test("a folder is the session's however either of them is spelled", () => {
  workspace.workspaceFolders = [
    { uri: Uri.file("/other"), name: "other", index: 0 },
    { uri: Uri.file("/@scope/c++ (2)"), name: "c++", index: 1 },
  ];
  expect(workspaces().map(({ uri }) => uri)).toEqual(["file:///other", "file:///@scope/c++%20(2)"]);
  for (const spelled of ["file:///@scope/c++%20(2)", "file:///%40scope/c%2B%2B%20%282%29/", "file://localhost/@scope/c++ (2)"]) {
    expect(isAmong(workspaces(), spelled)).toBe(true);
    expect(folderOf(spelled)).toBe("/@scope/c++ (2)");
  }
  expect(isAmong(workspaces(), undefined)).toBe(false);
  expect(isAmong(workspaces(), "file:///@scope")).toBe(false);
});
