/** What was set aside: branches that stand where they left the present, and can take its place. */

import * as vscode from "vscode";
import { target } from "../../core/commands/targets.js";
import type { Feature } from "../../core/core.js";
import type { Session } from "../../core/sessions/session.js";
import { MoreNode } from "../../core/tree/node.js";
import type { AsideSource } from "../../core/tree/parts.js";
import { branchLabel, restoreTimeline, TimelineNode } from "../../kit/branches.js";
import { setAside, timelinesOf, type Aside } from "../../kit/timelines.js";

export const branches: Feature = (core) => {
  core.views.added.asides = setAsideRows;
  return core.commands({ restoreTimeline: (node) => restoreTimeline(core, target(TimelineNode, node)) });
};

export const setAsideRows: AsideSource = {
  of: async (session) => {
    const asides = await setAside(session);
    const names = asides.map(({ timeline, branch }) => branchLabel(timeline, branch));
    return asides.map((aside, at) => rowOf(session, aside, names.some((name, other) => other !== at && name === names[at])));
  },
  more: (session, refresh) => {
    const timelines = timelinesOf(session);
    const show = async (): Promise<void> => {
      await timelines.more();
      refresh();
    };
    return timelines.hasMore ? new MoreNode(undefined, vscode.l10n.t("Show More"), show, "branches") : undefined;
  },
};

function rowOf(session: Session, { timeline, branch }: Aside, alike: boolean): Awaited<ReturnType<AsideSource["of"]>>[number] {
  return {
    common: branch?.common ?? 0,
    looks: JSON.stringify([timeline.timelineId, branch?.common, branch?.lost, alike]),
    node: (parent, setting) => new TimelineNode(session, timeline, branch, setting, parent, alike),
  };
}
