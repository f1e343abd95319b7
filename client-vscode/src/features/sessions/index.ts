/** Opening, naming and putting away sessions. */

import type { Feature } from "../../core/core.js";
import { sessionCommands } from "./sessionCommands.js";

export const sessions: Feature = (core) => core.commands(sessionCommands(core));
