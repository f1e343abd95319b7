/** The URL of a database in the settings, which are synchronised between machines and committed with workspaces. */

import * as vscode from "vscode";
import { ServerFailure } from "../../core/server/failure.js";

/** As libpq reads it, and as it was meant where a `/` of the password is not written as `%2F`. */
const IN_FRONT_OF_HOSTS = /^postgres(?:ql)?:\/\/(?:[^/@]*:[^/@]*@|[^?]*:[^?]*@)/i;
const PARAMETER = /(?:^|[?&\s])(?:ssl)?password\s*=/i;

/** Refuses a store that says a password, without saying it again. @throws ServerFailure */
export function refusePassword(store: string): void {
  if (IN_FRONT_OF_HOSTS.test(store) || PARAMETER.test(decoded(store))) {
    const text = vscode.l10n.t(
      "The setting {0} says a password, and settings are no place for one. Take it out, and put it into ~/.pgpass, a service file, or the environment variable PGPASSWORD.",
      "timeleap.store",
    );
    throw new ServerFailure("startFailed", text);
  }
}

/** Names of parameters may be encoded, too. */
function decoded(url: string): string {
  return url.replace(/%([0-7][0-9a-f])/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}
