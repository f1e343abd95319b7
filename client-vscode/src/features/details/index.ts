/** What rows of checkpoints show beside their names: badges, tooltips, and the files that changed. */

import type { Feature } from "../../core/core.js";
import { registerBadges } from "./badges.js";
import { detailsOfRows } from "./details.js";

export const details: Feature = ({ views }) => {
  views.added.parts.push(detailsOfRows);
  return registerBadges();
};
