/** Exporting and importing sessions. */

import type { Feature } from "../../core/core.js";
import { transferCommands } from "./transferCommands.js";

export const transfer: Feature = (core) => core.commands(transferCommands(core));
