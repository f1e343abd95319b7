/** Searching conversations, and finding one's way among checkpoints. */

import type { Feature } from "../../core/core.js";
import { findingCommands } from "./findingCommands.js";
import { searchCommands } from "./searchCommands.js";

export const search: Feature = (core) => core.commands({ ...searchCommands(core), ...findingCommands(core) });
