/** Texts that no compaction may lose. */

import type { Feature } from "../../core/core.js";
import { pinCommands } from "./pinCommands.js";

export const pins: Feature = (core) => core.commands(pinCommands(core));
