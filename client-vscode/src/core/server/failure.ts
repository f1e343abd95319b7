/** Why there is no server, in words a user can act on. */

import * as vscode from "vscode";
import { isTimeleapError } from "../../shared/errors.js";
import { troubleInWords } from "../../shared/text/storageTrouble.js";
import { withDetail } from "../../shared/text/detail.js";

/** The names are context values of the manifest. */
export type FailureKind = "noPython" | "wrongInterpreter" | "oldPython" | "noServer" | "protocol" | "silent" | "crashed" | "startFailed";

/** There is no server, and trying again without a change will not help. */
export class ServerFailure extends Error {
  override readonly name = "ServerFailure";
  /** The view says it. */
  told = false;

  constructor(
    readonly kind: FailureKind,
    message: string,
  ) {
    super(message);
  }
}

/** What stopped a server from starting. `command` is the program, as the user knows it. */
export function startFailure(error: unknown, command: string): ServerFailure {
  if (error instanceof ServerFailure) {
    return error;
  }
  if (isTimeleapError(error, "protocolVersion")) {
    return new ServerFailure("protocol", withDetail(vscode.l10n.t("{0} speaks another version of the protocol.", command), error.message, vscode.l10n.t("Use a server of the same release as this extension.")));
  }
  const message = troubleInWords(error);
  if (message.includes(SILENCE)) {
    return new ServerFailure("silent", vscode.l10n.t("{0} was started, but does not answer.", command));
  }
  return new ServerFailure("startFailed", withDetail(vscode.l10n.t("{0} does not start.", command), lastLine(message)));
}

/** How the client library says that a handshake was not answered in time. */
const SILENCE = "initialize was not answered within";

/** A program's complaint follows the reason; its last line says what happened, in Python's tracebacks too. */
function lastLine(text: string): string {
  return text.trimEnd().split("\n").at(-1)?.trim() ?? "";
}
