/** Compacting a conversation. */

import type { Feature } from "../../core/core.js";
import { compactCommand } from "./compactCommand.js";

export const compact: Feature = (core) => core.commands(compactCommand(core));
