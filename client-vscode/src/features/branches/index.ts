/** What was set aside: branches that stand where they left the present, and can take its place. */

import * as vscode from "vscode";
import { target } from "../../core/commands/targets.js";
import type { Feature } from "../../core/core.js";
import type { Session } from "../../core/sessions/session.js";
import { MoreNode } from "../../core/tree/node.js";
import { isSpan, type Insert, type Item, type RowPart } from "../../core/tree/parts.js";
import { branchLabel, restoreTimeline, TimelineNode } from "../../kit/branches.js";
import { setAside, timelinesOf, type Aside } from "../../kit/timelines.js";

export const branches: Feature = (core) => {
  core.views.added.parts.push(branchesOfRows());
  return core.commands({ restoreTimeline: (node) => restoreTimeline(core, target(TimelineNode, node)) });
};

/** A branch stands above the newest message that it shares with the present. */
interface BranchRow extends Insert {
  /** How many messages both have. */
  readonly common: number;
  /** All that can be seen of it. */
  readonly looks: string;
}

export function branchesOfRows(): RowPart {
  /** Branches of sessions, as far as they are known. */
  const known = new WeakMap<Session, readonly BranchRow[]>();

  /** Each is compared with the present, for which the other rows do not wait. What is found is drawn. */
  async function look(session: Session, refresh: () => void): Promise<void> {
    const before = known.get(session) ?? [];
    const found = await branchRows(session).catch(() => before); // what is wrong shows itself at the next thing somebody asks for
    if (looksOf(found) !== looksOf(known.get(session) ?? [])) {
      known.set(session, found);
      refresh();
    }
  }

  return {
    arrange: (items, { session, log }, refresh) => {
      void look(session, refresh);
      const rows = known.get(session) ?? [];
      const more = rows.length > 0 && timelinesOf(session).hasMore ? [moreOf(session, refresh)] : [];
      return [...between(items, rows, !log.hasMore), ...more];
    },
  };
}

async function branchRows(session: Session): Promise<BranchRow[]> {
  const asides = await setAside(session);
  const names = asides.map(({ timeline, branch }) => branchLabel(timeline, branch));
  return asides.map((aside, at) => rowOf(session, aside, names.some((name, other) => other !== at && name === names[at])));
}

function rowOf(session: Session, { timeline, branch }: Aside, alike: boolean): BranchRow {
  return {
    common: branch?.common ?? 0,
    looks: JSON.stringify([timeline.timelineId, branch?.common, branch?.lost, alike]),
    node: (parent, setting) => new TimelineNode(session, timeline, branch, setting, parent, alike),
  };
}

function looksOf(rows: readonly BranchRow[]): string {
  return JSON.stringify(rows.map(({ looks }) => looks));
}

/** @param whole Whether all of the log is there: else what left it further back has no place yet. */
function between(items: readonly Item[], rows: readonly BranchRow[], whole: boolean): Item[] {
  const left = [...rows].sort((one, other) => other.common - one.common);
  const placed: Item[] = [];
  for (const item of items) {
    while (isSpan(item) && left[0] && left[0].common > item.start) {
      placed.push(...left.splice(0, 1));
    }
    placed.push(item);
  }
  return whole ? [...placed, ...left] : placed;
}

function moreOf(session: Session, refresh: () => void): Insert {
  const show = async (): Promise<void> => {
    await timelinesOf(session).more();
    refresh();
  };
  return { node: (parent) => new MoreNode(parent, vscode.l10n.t("Show More"), show, "branches") };
}
