# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
# ruff: noqa: A002, ASYNC109 (params are called what they are called on the wire)
"""Every request of the protocol as a coroutine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, TypeVar

from timeleap_client import _models as models
from timeleap_client.connection import Params, given

R = TypeVar("R", bound="models.base.WireModel | models.base.WireRoot[Any]")


class AsyncMethods(ABC):
    """Every request of the protocol as a coroutine. Params that are None are not sent."""

    @abstractmethod
    async def call(self, method: str, params: Params, result: type[R]) -> R:
        """Send a request and return its result as `result`; an error reply is raised."""

    async def rpc_discover(self) -> models.lifecycle.DiscoverResult:
        """`rpc.discover`: the OpenRPC document; works before `initialize`."""
        return await self.call("rpc.discover", {}, models.lifecycle.DiscoverResult)

    async def session_open(
        self,
        *,
        session_id: str | None = None,
        path: str | None = None,
        create: bool | None = None,
        access: Literal["write", "readOnly"] | None = None,
        attach: bool | None = None,
        title: str | None = None,
        system_prompt: str | None = None,
        workspace: str | None = None,
        source: models.session.NewSource | None = None,
        auto_checkpoint: Literal["off", "turn", "step"] | None = None,
        files: models.files.FilesSettings | None = None,
        request_id: str | None = None,
        work_done_token: str | int | None = None,
    ) -> models.shapes.SessionState:
        """`session/open`: opens a session, creating it if need be.

        Args:
            session_id: Generated if absent.
            path: Absolute path of an existing session directory, the original program's included.
            create: Whether an unknown `sessionId` makes a new session. Default: true.
            access: Default: `write`; `readOnly` for a `path` outside the store.
            attach: Whether to go through the owner when another process owns the session. Default: true.
            title: Used on creation only.
            system_prompt: Used on creation only.
            workspace: URI; used on creation only.
            source: Used on creation only; a fork does not inherit it.
            auto_checkpoint: `turn`: a checkpoint before each user message that starts a turn; `step`: before each assistant message, too. Stays until set otherwise.
            files: Which files the session keeps snapshots of, and when. Stays until set otherwise; at first none.
            request_id: Makes the creation safe to retry.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "path": path,
                "create": create,
                "access": access,
                "attach": attach,
                "title": title,
                "systemPrompt": system_prompt,
                "workspace": workspace,
                "source": source,
                "autoCheckpoint": auto_checkpoint,
                "files": files,
                "requestId": request_id,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/open", params, models.shapes.SessionState)

    async def session_close(self, *, session_id: str) -> models.session.EmptyResult:
        """`session/close`: undoes one `session/open`.

        Args:
            session_id: The session.
        """
        return await self.call("session/close", given({"sessionId": session_id}), models.session.EmptyResult)

    async def session_list(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        include_archived: bool | None = None,
        query: str | None = None,
        workspace: str | None = None,
        source: models.session.SourceFilter | None = None,
        parent: str | None = None,
        include_subagents: bool | None = None,
    ) -> models.session.SessionListResult:
        """`session/list`: lists the sessions of the store, newest change first.

        Args:
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            include_archived: Default: false.
            query: Looked for in title and id.
            workspace: Only sessions of this workspace (URI).
            source: Only sessions of this program.
            parent: Only the sub-agents that work for this session, of another program.
            include_subagents: Default: false: sessions of other programs' sub-agents are left out.
        """
        params = given(
            {
                "cursor": cursor,
                "limit": limit,
                "includeArchived": include_archived,
                "query": query,
                "workspace": workspace,
                "source": source,
                "parent": parent,
                "includeSubagents": include_subagents,
            }
        )
        return await self.call("session/list", params, models.session.SessionListResult)

    async def session_latest(self, *, workspace: str | None = None) -> models.session.SessionLatestResult:
        """`session/latest`: the session that was changed last, archived ones left out.

        Args:
            workspace: Only sessions of this workspace (URI).
        """
        return await self.call("session/latest", given({"workspace": workspace}), models.session.SessionLatestResult)

    async def session_get_state(self, *, session_id: str) -> models.shapes.SessionState:
        """`session/getState`: everything about a session but its messages.

        Args:
            session_id: The session.
        """
        return await self.call("session/getState", given({"sessionId": session_id}), models.shapes.SessionState)

    async def session_set_yolo(
        self,
        *,
        session_id: str,
        yolo: bool,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.ApprovalResult:
        """`session/setYolo`: switches the approval of everything on or off.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "yolo": yolo,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/setYolo", params, models.session.ApprovalResult)

    async def session_set_auto_approve(
        self,
        *,
        session_id: str,
        action: str,
        enabled: bool,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.ApprovalResult:
        """`session/setAutoApprove`: switches the approval of one action on or off.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "action": action,
                "enabled": enabled,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/setAutoApprove", params, models.session.ApprovalResult)

    async def session_set_afk(
        self,
        *,
        session_id: str,
        afk: bool,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.ApprovalResult:
        """`session/setAfk`: says that nobody is there to approve anything, or that somebody is.

        Args:
            session_id: The session.
            afk: Nobody is there: what needs a person is rejected at once.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "afk": afk,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/setAfk", params, models.session.ApprovalResult)

    async def session_is_approved(self, *, session_id: str, action: str) -> models.session.IsApprovedResult:
        """`session/isApproved`: whether an action may run without asking the user.

        Args:
            session_id: The session.
        """
        params = given(
            {
                "sessionId": session_id,
                "action": action,
            }
        )
        return await self.call("session/isApproved", params, models.session.IsApprovedResult)

    async def session_put_subagent(
        self,
        *,
        session_id: str,
        name: str,
        system_prompt: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.SubagentsResult:
        """`session/putSubagent`: defines or replaces a sub-agent.

        Args:
            session_id: The session.
            name: A sub-agent of this name is replaced.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "name": name,
                "systemPrompt": system_prompt,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/putSubagent", params, models.session.SubagentsResult)

    async def session_remove_subagent(
        self,
        *,
        session_id: str,
        name: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.SubagentsResult:
        """`session/removeSubagent`: removes a sub-agent.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "name": name,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/removeSubagent", params, models.session.SubagentsResult)

    async def session_set_title(
        self,
        *,
        session_id: str,
        title: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.HeadResult:
        """`session/setTitle`: names the session.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "title": title,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/setTitle", params, models.session.HeadResult)

    async def session_set_workspace(
        self,
        *,
        session_id: str,
        workspace: str | None,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.HeadResult:
        """`session/setWorkspace`: says which folder the session is about.

        Args:
            session_id: The session.
            workspace: URI of the folder the session is about; null: of none. It is kept and compared in one form, whichever way it is spelled (`protocol/folder-uris.json`).
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        ) | {"workspace": workspace}
        return await self.call("session/setWorkspace", params, models.session.HeadResult)

    async def session_fork(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        timeline_id: str | None = None,
        new_session_id: str | None = None,
        title: str | None = None,
    ) -> models.shapes.SessionState:
        """`session/fork`: copies the history, whole or up to a checkpoint, into a new session and opens it.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            checkpoint_id: History up to and including this checkpoint; all of it if none is given.
            checkpoint_uid: The same, by uid.
            timeline_id: Of this timeline instead of the present log.
            new_session_id: Generated if absent.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "checkpointId": checkpoint_id,
                "checkpointUid": checkpoint_uid,
                "timelineId": timeline_id,
                "newSessionId": new_session_id,
                "title": title,
            }
        )
        return await self.call("session/fork", params, models.shapes.SessionState)

    async def session_merge(
        self,
        *,
        session_id: str,
        from_: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        since: models.branches.LogPlace | None = None,
        summary: str | None = None,
        summarizer: Literal["auto", "client", "server", "builtin"] | None = None,
        custom_instruction: str | None = None,
        dry_run: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.branches.MergeResult:
        """`session/merge`: appends a summary of another session's messages, behind a checkpoint.

        Args:
            session_id: The session.
            from_: The session whose messages are summed up; it stays as it is.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            since: Where in that session to begin. Default: where it was forked off, or else its beginning.
            summary: A summary the caller has made; nobody else is asked then.
            summarizer: Default: `auto`.
            custom_instruction: What the summary should pay attention to.
            dry_run: Say what would happen, and change nothing; the summariser is asked all the same. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "from": from_,
                "expectedHead": expected_head,
                "requestId": request_id,
                "since": since,
                "summary": summary,
                "summarizer": summarizer,
                "customInstruction": custom_instruction,
                "dryRun": dry_run,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/merge", params, models.branches.MergeResult)

    async def session_archive(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.HeadResult:
        """`session/archive`: leaves the session out of lists.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/archive", params, models.session.HeadResult)

    async def session_unarchive(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.HeadResult:
        """`session/unarchive`: puts the session back into lists.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/unarchive", params, models.session.HeadResult)

    async def session_delete(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.EmptyResult:
        """`session/delete`: moves the session to the trash; its id is free again.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/delete", params, models.session.EmptyResult)

    async def session_undelete(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.EmptyResult:
        """`session/undelete`: takes the newest session of that id out of the trash.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("session/undelete", params, models.session.EmptyResult)

    async def session_list_trash(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.session.TrashListResult:
        """`session/listTrash`: lists the sessions in the trash.

        Args:
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
        """
        params = given(
            {
                "cursor": cursor,
                "limit": limit,
            }
        )
        return await self.call("session/listTrash", params, models.session.TrashListResult)

    async def session_purge(
        self,
        *,
        session_id: str | None = None,
        deleted_at: str | None = None,
        older_than: int | None = None,
        dry_run: bool | None = None,
        request_id: str | None = None,
    ) -> models.trash.SessionPurgeResult:
        """`session/purge`: removes sessions from the trash for good.

        Args:
            session_id: The sessions of this id in the trash; this or `olderThan`.
            deleted_at: Of these only the one that was deleted then, as `session/listTrash` says it.
            older_than: What was deleted so many seconds ago or earlier; 0 is everything.
            dry_run: Say what would go, and change nothing. Default: false.
            request_id: Makes the request safe to retry.
        """
        params = given(
            {
                "sessionId": session_id,
                "deletedAt": deleted_at,
                "olderThan": older_than,
                "dryRun": dry_run,
                "requestId": request_id,
            }
        )
        return await self.call("session/purge", params, models.trash.SessionPurgeResult)

    async def session_list_audit(
        self,
        *,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.trash.SessionListAuditResult:
        """`session/listAudit`: lists who changed the approvals of a session, and what was taken out of it; newest first.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
        """
        params = given(
            {
                "sessionId": session_id,
                "cursor": cursor,
                "limit": limit,
            }
        )
        return await self.call("session/listAudit", params, models.trash.SessionListAuditResult)

    async def session_reload(self, *, session_id: str) -> models.shapes.SessionState:
        """`session/reload`: takes over what is on disk after `externallyModified`; attaches where another process owns that by now.

        Args:
            session_id: The session.
        """
        return await self.call("session/reload", given({"sessionId": session_id}), models.shapes.SessionState)

    async def session_verify(
        self,
        *,
        session_id: str,
        work_done_token: str | int | None = None,
    ) -> models.session.VerifyResult:
        """`session/verify`: checks every record of the log; changes nothing.

        Args:
            session_id: The session.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/verify", params, models.session.VerifyResult)

    async def session_repair(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.session.RepairResult:
        """`session/repair`: rewrites the log without its damaged lines; the old one becomes a timeline.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Only say what would be left out. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/repair", params, models.session.RepairResult)

    async def session_search(
        self,
        *,
        query: str,
        cursor: str | None = None,
        limit: int | None = None,
        regex: bool | None = None,
        ignore_case: bool | None = None,
        timelines: bool | None = None,
        distinct: bool | None = None,
        excerpts: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.past.SessionSearchResult:
        """`session/search`: finds messages in all sessions of the store.

        Args:
            query: What is looked for; with `regex` a regular expression in RE2's syntax.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            regex: Whether `query` is a regular expression. Default: false.
            ignore_case: Whether `a` is `A`. Default: false.
            timelines: Whether to search timelines too. Default: true.
            distinct: Leave out of a timeline the messages that a log searched before begins with too. Default: false.
            excerpts: Whether each match shows the text around its first range. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "query": query,
                "cursor": cursor,
                "limit": limit,
                "regex": regex,
                "ignoreCase": ignore_case,
                "timelines": timelines,
                "distinct": distinct,
                "excerpts": excerpts,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/search", params, models.past.SessionSearchResult)

    async def session_storage(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        session_id: str | None = None,
    ) -> models.space.SessionStorageResult:
        """`session/storage`: what takes space: the sessions of the store, or the files of one.

        Args:
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            session_id: Only this session, with its files; without it all sessions of the store.
        """
        params = given(
            {
                "cursor": cursor,
                "limit": limit,
                "sessionId": session_id,
            }
        )
        return await self.call("session/storage", params, models.space.SessionStorageResult)

    async def session_prune(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        max_timelines: int | None = None,
        max_timeline_bytes: int | None = None,
        older_than: str | None = None,
        timeline_ids: list[str] | None = None,
        quarantine: bool | None = None,
    ) -> models.space.SessionPruneResult:
        """`session/prune`: removes timelines for good.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would go, and change nothing. Default: false.
            max_timelines: Keep only so many, the newest.
            max_timeline_bytes: Keep only so many bytes of timelines, but always the newest.
            older_than: Remove those set aside before this time, but never the newest. ISO-8601 with its offset from UTC.
            timeline_ids: Remove these, the newest or not.
            quarantine: Also remove what recovery kept of torn records. Default: false.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "maxTimelines": max_timelines,
                "maxTimelineBytes": max_timeline_bytes,
                "olderThan": older_than,
                "timelineIds": timeline_ids,
                "quarantine": quarantine,
            }
        )
        return await self.call("session/prune", params, models.space.SessionPruneResult)

    async def session_redact(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        value: str | None = None,
        pattern: str | None = None,
        secrets: bool | None = None,
        replacement: str | None = None,
        dry_run: bool | None = None,
        deleted_at: str | None = None,
        store: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.redaction.SessionRedactResult:
        """`session/redact`: takes a secret out of the log, every timeline and all else a session keeps, for good.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            value: Take out this text, however JSON spells it, JSON within strings included.
            pattern: Take out what this regular expression, in RE2's syntax, matches.
            secrets: If true: take out what looks like a key, a token or a password, wherever it stands. Needs the extra `timeleap[redact]`.
            replacement: What stands in its place. Default: `[redacted]`; where that would hold it, `***` or nothing.
            dry_run: Say where it stands, and change nothing. Default: false.
            deleted_at: Of the session of that id in the trash that was deleted then, as `session/listTrash` says it; else of the live one.
            store: Also look (only look) into all other sessions of the store: `alsoIn`. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "value": value,
                "pattern": pattern,
                "secrets": secrets,
                "replacement": replacement,
                "dryRun": dry_run,
                "deletedAt": deleted_at,
                "store": store,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/redact", params, models.redaction.SessionRedactResult)

    async def session_export(
        self,
        *,
        session_id: str,
        format: str,
        path: str,
        overwrite: bool | None = None,
        with_files: bool | None = None,
        keep_secrets: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.session.ExportResult:
        """`session/export`: writes a session to a file of another form.

        Args:
            session_id: The session.
            format: `native`: a ZIP archive with the log, all timelines and their checksums, for `session/import`. For people: `markdown`, the conversation; `html`, a page with the timelines in it.
            path: Absolute path of the file to write, outside of the store; readable by the user only, and there whole or not at all.
            overwrite: Replace a file that is there. Default: false, and such a `path` is refused.
            with_files: Of `native`: take the snapshots of the session's files along. Default: false.
            keep_secrets: Leave what looks like a secret as it is, in `markdown` and `html`. Default: false, and `[secret]` stands in its place. `native` holds the session's very bytes, and refuses false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "format": format,
                "path": path,
                "overwrite": overwrite,
                "withFiles": with_files,
                "keepSecrets": keep_secrets,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/export", params, models.session.ExportResult)

    async def session_import(
        self,
        *,
        path: str,
        format: str | None = None,
        session_id: str | None = None,
        folders: list[str] | None = None,
        request_id: str | None = None,
        work_done_token: str | int | None = None,
    ) -> models.session.ImportResult:
        """`session/import`: makes a new session from a file, and opens it.

        Args:
            path: Absolute path of the file to read; of a session's directory with `kimi` and `kimi-code`. With `opencode`, of its database, and behind that the session's id, which no file has.
            format: `native`: what `session/export` wrote; `kimi`: a log or a directory of the original program; `claude-code`, `codex`, `kimi-code`, `opencode`, `pi`: sessions of those programs. Recognised from the content if absent.
            session_id: Generated if absent.
            folders: URIs of the folders that the snapshots in an archive belong to, in its order; they become `files.roots` of the session. Nothing in them is changed. Without them the snapshots are left out.
            request_id: Makes the request safe to retry.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "path": path,
                "format": format,
                "sessionId": session_id,
                "folders": folders,
                "requestId": request_id,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("session/import", params, models.session.ImportResult)

    async def context_append_message(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        message: Params | None = None,
        messages: list[Params] | None = None,
    ) -> models.context.AppendMessageResult:
        """`context/appendMessage`: appends one message, or several as one step.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            message: One message; this or `messages`.
            messages: Several, appended all or none; this or `message`. Opaque records go along as `{record}`, checkpoints as `{checkpoint: {label?}}`, token counts as `{tokenCount}`.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "message": message,
                "messages": messages,
            }
        )
        return await self.call("context/appendMessage", params, models.context.AppendMessageResult)

    async def context_update_token_count(
        self,
        *,
        session_id: str,
        token_count: int,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.context.UpdateTokenCountResult:
        """`context/updateTokenCount`: records the usage the model reported.

        Args:
            session_id: The session.
            token_count: The input tokens the model reported.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "tokenCount": token_count,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("context/updateTokenCount", params, models.context.UpdateTokenCountResult)

    async def context_list_usage(
        self,
        *,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.context.ListUsageResult:
        """`context/listUsage`: the trail of token counts.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
        """
        params = given(
            {
                "sessionId": session_id,
                "cursor": cursor,
                "limit": limit,
            }
        )
        return await self.call("context/listUsage", params, models.context.ListUsageResult)

    async def context_set_system_prompt(
        self,
        *,
        session_id: str,
        system_prompt: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.HeadResult:
        """`context/setSystemPrompt`: sets the system prompt; the last one wins.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "systemPrompt": system_prompt,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("context/setSystemPrompt", params, models.session.HeadResult)

    async def context_checkpoint(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        label: str | None = None,
        add_user_message: bool | None = None,
        files: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.context.CheckpointResult:
        """`context/checkpoint`: writes a checkpoint.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            add_user_message: Whether a user message that tells the model of the checkpoint follows it, as one step. Default: false.
            files: Whether the files get a snapshot with it. Default: as the session's `files` say.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "label": label,
                "addUserMessage": add_user_message,
                "files": files,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/checkpoint", params, models.context.CheckpointResult)

    async def context_list_checkpoints(
        self,
        *,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
        order: Literal["asc", "desc"] | None = None,
        timeline_id: str | None = None,
    ) -> models.context.ListCheckpointsResult:
        """`context/listCheckpoints`: lists checkpoints.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            order: Default: `desc`, newest first.
            timeline_id: Of this timeline instead of the live log.
        """
        params = given(
            {
                "sessionId": session_id,
                "cursor": cursor,
                "limit": limit,
                "order": order,
                "timelineId": timeline_id,
            }
        )
        return await self.call("context/listCheckpoints", params, models.context.ListCheckpointsResult)

    async def context_revert_to(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        restore: Literal["conversation", "files", "both"] | None = None,
        on_conflict: Literal["refuse", "keep", "overwrite"] | None = None,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        message_index: int | None = None,
        heal: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.context.RewriteResult:
        """`context/revertTo`: removes a checkpoint and all after it; what it removes stays as a timeline.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would happen, and change nothing. Default: false.
            restore: What goes back. Default: `conversation`; `both`: all of it or nothing.
            on_conflict: What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`.
            checkpoint_id: The checkpoint that goes, with all after it; this, `checkpointUid` or `messageIndex`.
            checkpoint_uid: The same, by uid.
            message_index: The message that goes, with all after it.
            heal: Go back further where the log would end with tool calls that have no result: to before them. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "restore": restore,
                "onConflict": on_conflict,
                "checkpointId": checkpoint_id,
                "checkpointUid": checkpoint_uid,
                "messageIndex": message_index,
                "heal": heal,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/revertTo", params, models.context.RewriteResult)

    async def context_replace_message(
        self,
        *,
        session_id: str,
        message_index: int,
        message: Params,
        expected_head: str | None = None,
        request_id: str | None = None,
        restore: Literal["conversation", "files", "both"] | None = None,
        on_conflict: Literal["refuse", "keep", "overwrite"] | None = None,
        heal: bool | None = None,
        dry_run: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.branches.ReplaceMessageResult:
        """`context/replaceMessage`: puts another message in the place of one; what came after it is set aside, as in a revert.

        Args:
            session_id: The session.
            message_index: The message that goes, with all after it.
            message: The message that takes its place.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            restore: What goes back. Default: `conversation`; `both`: all of it or nothing.
            on_conflict: What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`.
            heal: Go back further where the log would stand in the middle of a tool exchange: to before its calls. Default: false.
            dry_run: Say what would happen, and change nothing. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "messageIndex": message_index,
                "message": message,
                "expectedHead": expected_head,
                "requestId": request_id,
                "restore": restore,
                "onConflict": on_conflict,
                "heal": heal,
                "dryRun": dry_run,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/replaceMessage", params, models.branches.ReplaceMessageResult)

    async def context_clear(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        keep_system_prompt: bool | None = None,
    ) -> models.context.RewriteResult:
        """`context/clear`: empties the log; what it removes stays as a timeline.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would happen, and change nothing. Default: false.
            keep_system_prompt: Default: true.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "keepSystemPrompt": keep_system_prompt,
            }
        )
        return await self.call("context/clear", params, models.context.RewriteResult)

    async def context_get_history(
        self,
        *,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
        from_: int | None = None,
        to: int | None = None,
        checkpoint_uid: str | None = None,
        order: Literal["asc", "desc"] | None = None,
        max_bytes: int | None = None,
        timeline_id: str | None = None,
        format: Literal["openai", "anthropic"] | None = None,
        include: list[Literal["opaque"]] | None = None,
    ) -> models.context.GetHistoryResult:
        """`context/getHistory`: a page of messages; or all of them as the body of a request to a model's provider.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            from_: First message index. Default: 0.
            to: The index after the last. Default: the end.
            checkpoint_uid: The messages between this checkpoint and the next.
            order: Default: `asc`, oldest first.
            max_bytes: End the page before it is larger; at least one message comes. Default: 4 MiB. With `format` the most bytes the body may have as compact JSON; default and most: 32 MiB.
            timeline_id: Of this timeline instead of the live log.
            format: Answer with `body`: the messages as OpenAI's Chat Completions or Anthropic's Messages API takes them.
            include: `opaque`: opaque records stand among the messages, as `{line, record}`, in the order of the log. A page may then have fewer entries than `limit`, or none, and still have a next one; its cursor goes on with them.
        """
        params = given(
            {
                "sessionId": session_id,
                "cursor": cursor,
                "limit": limit,
                "from": from_,
                "to": to,
                "checkpointUid": checkpoint_uid,
                "order": order,
                "maxBytes": max_bytes,
                "timelineId": timeline_id,
                "format": format,
                "include": include,
            }
        )
        return await self.call("context/getHistory", params, models.context.GetHistoryResult)

    async def context_get_records(
        self,
        *,
        session_id: str,
        from_: int | None = None,
        to: int | None = None,
        roles: list[str] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        timeline_id: str | None = None,
    ) -> models.context.GetRecordsResult:
        """`context/getRecords`: a page of the whole log, control records included.

        Args:
            session_id: The session.
            from_: First line. Default: 0.
            to: The line after the last. Default: the end.
            roles: Only records of these roles; a page may then be empty, and still have a next one.
            cursor: `nextCursor` of the page before; `from` counts no more then.
            timeline_id: Of this timeline instead of the live log.
        """
        params = given(
            {
                "sessionId": session_id,
                "from": from_,
                "to": to,
                "roles": roles,
                "cursor": cursor,
                "limit": limit,
                "timelineId": timeline_id,
            }
        )
        return await self.call("context/getRecords", params, models.context.GetRecordsResult)

    async def context_list_timelines(
        self,
        *,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.context.ListTimelinesResult:
        """`context/listTimelines`: lists the earlier logs of the session, newest first.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
        """
        params = given(
            {
                "sessionId": session_id,
                "cursor": cursor,
                "limit": limit,
            }
        )
        return await self.call("context/listTimelines", params, models.context.ListTimelinesResult)

    async def context_restore_timeline(
        self,
        *,
        session_id: str,
        timeline_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        restore: Literal["conversation", "files", "both"] | None = None,
        on_conflict: Literal["refuse", "keep", "overwrite"] | None = None,
        work_done_token: str | int | None = None,
    ) -> models.context.RewriteResult:
        """`context/restoreTimeline`: makes a timeline the live log again, byte for byte; the present log becomes a timeline.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would happen, and change nothing. Default: false.
            restore: What goes back. Default: `conversation`; `both`: all of it or nothing.
            on_conflict: What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "timelineId": timeline_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "restore": restore,
                "onConflict": on_conflict,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/restoreTimeline", params, models.context.RewriteResult)

    async def context_undo(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        restore: Literal["conversation", "files", "both"] | None = None,
        on_conflict: Literal["refuse", "keep", "overwrite"] | None = None,
        steps: int | None = None,
        work_done_token: str | int | None = None,
    ) -> models.context.UndoResult:
        """`context/undo`: undoes the last revert, clear, compaction, restore or D-Mail, or several of them as one step.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would happen, and change nothing. Default: false.
            restore: What goes back. Default: `conversation`; `both`: all of it or nothing.
            on_conflict: What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`.
            steps: How many, as one step. Default: 1.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "restore": restore,
                "onConflict": on_conflict,
                "steps": steps,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/undo", params, models.context.UndoResult)

    async def context_redo(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        restore: Literal["conversation", "files", "both"] | None = None,
        on_conflict: Literal["refuse", "keep", "overwrite"] | None = None,
        steps: int | None = None,
        work_done_token: str | int | None = None,
    ) -> models.context.UndoResult:
        """`context/redo`: does again what was undone last, as long as nothing else has changed the log since.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would happen, and change nothing. Default: false.
            restore: What goes back. Default: `conversation`; `both`: all of it or nothing.
            on_conflict: What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`.
            steps: How many, as one step. Default: 1.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "restore": restore,
                "onConflict": on_conflict,
                "steps": steps,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/redo", params, models.context.UndoResult)

    async def context_compact(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        max_preserved_messages: int | None = None,
        custom_instruction: str | None = None,
        summarizer: Literal["auto", "client", "server", "builtin"] | None = None,
        summary: str | None = None,
        pins: list[str] | None = None,
        work_done_token: str | int | None = None,
    ) -> models.compaction.CompactResult:
        """`context/compact`: puts a summary in the place of the older messages.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would happen, and change nothing; the summariser is asked all the same. Default: false.
            max_preserved_messages: User and assistant messages at the end that stay as they are. Default: the session's setting.
            custom_instruction: What the summary should pay attention to.
            summarizer: Default: `auto`.
            summary: A summary the caller has made; nobody else is asked then.
            pins: Strings that the summary must have in it, beside the session's (`context/setPins`): what it lacks is added to it.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "maxPreservedMessages": max_preserved_messages,
                "customInstruction": custom_instruction,
                "summarizer": summarizer,
                "summary": summary,
                "pins": pins,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/compact", params, models.compaction.CompactResult)

    async def context_fold(
        self,
        *,
        session_id: str,
        from_: models.branches.LogPlace,
        to: models.branches.LogPlace,
        expected_head: str | None = None,
        request_id: str | None = None,
        drop: bool | None = None,
        strict: bool | None = None,
        dry_run: bool | None = None,
        custom_instruction: str | None = None,
        summarizer: Literal["auto", "client", "server", "builtin"] | None = None,
        summary: str | None = None,
        pins: list[str] | None = None,
        work_done_token: str | int | None = None,
    ) -> models.branches.FoldResult:
        """`context/fold`: puts a summary, or nothing, in the place of a range of messages; what it removes stays in a timeline.

        Args:
            session_id: The session.
            from_: Where the range begins.
            to: Where it ends: the message there stays.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            drop: Put nothing in its place. Default: false.
            strict: Refuse a range that would part a tool call from its result, instead of widening it. Default: false.
            dry_run: Say what would happen, and change nothing; the summariser is asked all the same. Default: false.
            custom_instruction: What the summary should pay attention to.
            summarizer: Default: `auto`.
            summary: A summary the caller has made; nobody else is asked then.
            pins: Strings that the summary must have in it, beside the session's (`context/setPins`): what it lacks is added to it.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "from": from_,
                "to": to,
                "expectedHead": expected_head,
                "requestId": request_id,
                "drop": drop,
                "strict": strict,
                "dryRun": dry_run,
                "customInstruction": custom_instruction,
                "summarizer": summarizer,
                "summary": summary,
                "pins": pins,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/fold", params, models.branches.FoldResult)

    async def context_set_pins(
        self,
        *,
        session_id: str,
        pins: list[str],
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.compaction.SetPinsResult:
        """`context/setPins`: says what no compaction of the session may lose.

        Args:
            session_id: The session.
            pins: All of them; they take the place of those set before.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "pins": pins,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("context/setPins", params, models.compaction.SetPinsResult)

    async def context_prepare_compaction(
        self,
        *,
        session_id: str,
        max_preserved_messages: int | None = None,
        custom_instruction: str | None = None,
    ) -> models.compaction.PrepareCompactionResult:
        """`context/prepareCompaction`: what a summariser would be asked.

        Args:
            session_id: The session.
        """
        params = given(
            {
                "sessionId": session_id,
                "maxPreservedMessages": max_preserved_messages,
                "customInstruction": custom_instruction,
            }
        )
        return await self.call("context/prepareCompaction", params, models.compaction.PrepareCompactionResult)

    async def context_send_dmail(
        self,
        *,
        session_id: str,
        message: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        to_session_id: str | None = None,
        to_path: str | None = None,
        from_session_id: str | None = None,
    ) -> models.context.SendDMailResult:
        """`context/sendDMail`: leaves a note to the self of a checkpoint, of this session or of another one.

        Args:
            session_id: The session.
            message: The note.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            checkpoint_id: The checkpoint whose self gets the note; this or `checkpointUid`, or neither for a note to another session.
            checkpoint_uid: The same, by uid.
            to_session_id: The session that gets it, open or not; a checkpoint is one of that session then. Default: the session itself.
            to_path: The same by its directory; this or `toSessionId`.
            from_session_id: Where the note comes from, if not from the session itself: `sessionId` gets it as from that session.
        """
        params = given(
            {
                "sessionId": session_id,
                "message": message,
                "expectedHead": expected_head,
                "requestId": request_id,
                "checkpointId": checkpoint_id,
                "checkpointUid": checkpoint_uid,
                "toSessionId": to_session_id,
                "toPath": to_path,
                "fromSessionId": from_session_id,
            }
        )
        return await self.call("context/sendDMail", params, models.context.SendDMailResult)

    async def context_deliver_dmail(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        dry_run: bool | None = None,
        restore: Literal["conversation", "files", "both"] | None = None,
        on_conflict: Literal["refuse", "keep", "overwrite"] | None = None,
        heal: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.context.DeliverDMailResult:
        """`context/deliverDMail`: reverts to the checkpoint of the pending D-Mail and puts the note there, as one step.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            dry_run: Say what would happen, and change nothing. Default: false.
            restore: What goes back. Default: `conversation`; `both`: all of it or nothing.
            on_conflict: What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`.
            heal: As in `context/revertTo`.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "dryRun": dry_run,
                "restore": restore,
                "onConflict": on_conflict,
                "heal": heal,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/deliverDMail", params, models.context.DeliverDMailResult)

    async def context_cancel_dmail(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> models.session.HeadResult:
        """`context/cancelDMail`: drops the pending D-Mail.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
            }
        )
        return await self.call("context/cancelDMail", params, models.session.HeadResult)

    async def context_search(
        self,
        *,
        session_id: str,
        query: str,
        cursor: str | None = None,
        limit: int | None = None,
        regex: bool | None = None,
        ignore_case: bool | None = None,
        timelines: bool | None = None,
        distinct: bool | None = None,
        excerpts: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.past.SearchResult:
        """`context/search`: finds messages of one session.

        Args:
            session_id: The session.
            query: What is looked for; with `regex` a regular expression in RE2's syntax.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            regex: Whether `query` is a regular expression. Default: false.
            ignore_case: Whether `a` is `A`. Default: false.
            timelines: Whether to search timelines too. Default: true.
            distinct: Leave out of a timeline the messages that a log searched before begins with too. Default: false.
            excerpts: Whether each match shows the text around its first range. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "query": query,
                "cursor": cursor,
                "limit": limit,
                "regex": regex,
                "ignoreCase": ignore_case,
                "timelines": timelines,
                "distinct": distinct,
                "excerpts": excerpts,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/search", params, models.past.SearchResult)

    async def context_diff(
        self,
        *,
        session_id: str,
        from_: models.past.DiffPoint,
        to: models.past.DiffPoint,
        cursor: str | None = None,
        limit: int | None = None,
        max_bytes: int | None = None,
        work_done_token: str | int | None = None,
    ) -> models.past.DiffResult:
        """`context/diff`: what two states of the context have in common, and what not.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            max_bytes: End the page before it is larger; at least one message comes. Default: 4 MiB.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "from": from_,
                "to": to,
                "cursor": cursor,
                "limit": limit,
                "maxBytes": max_bytes,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("context/diff", params, models.past.DiffResult)

    async def context_at(
        self,
        *,
        session_id: str,
        index: int | None = None,
        time: str | None = None,
        timeline_id: str | None = None,
    ) -> models.past.AtResult:
        """`context/at`: the checkpoint that led to a message or a time, and the state there.

        Args:
            session_id: The session.
            index: The moment right after this message was added; this or `time`.
            time: The moment a clock showed this time: ISO-8601 with its offset from UTC.
            timeline_id: In this timeline. Default: for `index` the live log, for `time` the log that was the live one then.
        """
        params = given(
            {
                "sessionId": session_id,
                "index": index,
                "time": time,
                "timelineId": timeline_id,
            }
        )
        return await self.call("context/at", params, models.past.AtResult)

    async def approval_request(
        self,
        *,
        session_id: str,
        action: str,
        description: str | None = None,
        detail: Params | None = None,
        tool_call_id: str | None = None,
        timeout: float | None = None,
        request_id: str | None = None,
    ) -> models.approval.ApprovalDecision:
        """`approval/request`: asks for an approval and waits for the decision.

        Args:
            session_id: The session.
            action: What kind of thing is to be done, such as `run command`: automatic approvals go by this name.
            description: For the person: what exactly is to be done.
            detail: For a window that can show more: any object, up to 64 KiB as JSON. It is not written to disk.
            tool_call_id: The tool call that waits for it.
            timeout: Seconds to wait for a decision. Default: 600.
            request_id: Makes the request safe to retry: a repeat joins the pending one, or gets its decision.
        """
        params = given(
            {
                "sessionId": session_id,
                "action": action,
                "description": description,
                "detail": detail,
                "toolCallId": tool_call_id,
                "timeout": timeout,
                "requestId": request_id,
            }
        )
        return await self.call("approval/request", params, models.approval.ApprovalDecision)

    async def approval_respond(
        self,
        *,
        session_id: str,
        approval_id: str,
        decision: Literal["approve", "approveForSession", "reject"],
        reason: str | None = None,
    ) -> models.session.EmptyResult:
        """`approval/respond`: decides what was asked.

        Args:
            session_id: The session.
            decision: `approveForSession` also switches the automatic approval of the action on.
            reason: For the one who asked: why, or what to do instead.
        """
        params = given(
            {
                "sessionId": session_id,
                "approvalId": approval_id,
                "decision": decision,
                "reason": reason,
            }
        )
        return await self.call("approval/respond", params, models.session.EmptyResult)

    async def approval_list(self, *, session_id: str) -> models.approval.ApprovalListResult:
        """`approval/list`: what waits for a decision, oldest first.

        Args:
            session_id: The session.
        """
        return await self.call("approval/list", given({"sessionId": session_id}), models.approval.ApprovalListResult)

    async def files_snapshot(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        label: str | None = None,
        work_done_token: str | int | None = None,
    ) -> models.files.FilesSnapshotResult:
        """`files/snapshot`: keeps the files of the session as they are now.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "label": label,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("files/snapshot", params, models.files.FilesSnapshotResult)

    async def files_list(
        self,
        *,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.files.FilesListResult:
        """`files/list`: lists the snapshots of the session's files, newest first.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
        """
        params = given(
            {
                "sessionId": session_id,
                "cursor": cursor,
                "limit": limit,
            }
        )
        return await self.call("files/list", params, models.files.FilesListResult)

    async def files_diff(
        self,
        *,
        session_id: str,
        from_: models.files.FilesPoint,
        to: models.files.FilesPoint,
        cursor: str | None = None,
        limit: int | None = None,
        root: str | None = None,
        path_encoding: Literal["percent"] | None = None,
        path: str | None = None,
        work_done_token: str | int | None = None,
    ) -> models.files.FilesDiffResult:
        """`files/diff`: how the files differ between two snapshots, or between one and the disk.

        Args:
            session_id: The session.
            cursor: `nextCursor` of the page before.
            limit: The most entries to return.
            root: URI of the root the path is below; needed only where the session has several.
            path_encoding: `percent`: paths are percent-encoded bytes.
            path: Only this file, or what is below this folder.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "from": from_,
                "to": to,
                "cursor": cursor,
                "limit": limit,
                "root": root,
                "pathEncoding": path_encoding,
                "path": path,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("files/diff", params, models.files.FilesDiffResult)

    async def files_read(
        self,
        *,
        session_id: str,
        snapshot: str,
        path: str,
        root: str | None = None,
        path_encoding: Literal["percent"] | None = None,
        offset: int | None = None,
        length: int | None = None,
    ) -> models.files.FilesReadResult:
        """`files/read`: a part of a file as a snapshot has it.

        Args:
            session_id: The session.
            root: URI of the root the path is below; needed only where the session has several.
            path_encoding: `percent`: paths are percent-encoded bytes.
            offset: The first byte. Default: 0.
            length: Bytes at most. Default and most: 16 MiB.
        """
        params = given(
            {
                "sessionId": session_id,
                "snapshot": snapshot,
                "path": path,
                "root": root,
                "pathEncoding": path_encoding,
                "offset": offset,
                "length": length,
            }
        )
        return await self.call("files/read", params, models.files.FilesReadResult)

    async def files_restore(
        self,
        *,
        session_id: str,
        to: models.files.FilesTarget,
        expected_head: str | None = None,
        request_id: str | None = None,
        root: str | None = None,
        path_encoding: Literal["percent"] | None = None,
        paths: list[str] | None = None,
        on_conflict: Literal["refuse", "keep", "overwrite"] | None = None,
        expected_files: str | None = None,
        dry_run: bool | None = None,
        work_done_token: str | int | None = None,
    ) -> models.files.FilesRestoreResult:
        """`files/restore`: puts files back as a snapshot has them; what was there is kept as a snapshot first.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            root: URI of the root the path is below; needed only where the session has several.
            path_encoding: `percent`: paths are percent-encoded bytes.
            paths: Only these; a folder means all below it. Default: everything.
            on_conflict: As in `context/revertTo`.
            expected_files: Refuse with `contentModified` unless this is the session's newest snapshot.
            dry_run: Say what would happen, and change nothing. Default: false.
            work_done_token: Asks for `$/progress` under this token.
        """
        params = given(
            {
                "sessionId": session_id,
                "to": to,
                "expectedHead": expected_head,
                "requestId": request_id,
                "root": root,
                "pathEncoding": path_encoding,
                "paths": paths,
                "onConflict": on_conflict,
                "expectedFiles": expected_files,
                "dryRun": dry_run,
                "workDoneToken": work_done_token,
            }
        )
        return await self.call("files/restore", params, models.files.FilesRestoreResult)

    async def bridge_list(self) -> models.bridge.BridgeListResult:
        """`bridge/list`: lists the folders in which agents' programs keep sessions."""
        return await self.call("bridge/list", {}, models.bridge.BridgeListResult)

    async def bridge_watch(
        self,
        *,
        kind: Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"],
        path: str | None = None,
        workspace: str | None = None,
    ) -> models.bridge.BridgeWatchResult:
        """`bridge/watch`: mirrors the sessions of an agent's program, and follows them.

        Args:
            path: The folder. Default: where the program keeps its sessions, by its own environment variable.
            workspace: URI: only the sessions of this folder.
        """
        params = given(
            {
                "kind": kind,
                "path": path,
                "workspace": workspace,
            }
        )
        return await self.call("bridge/watch", params, models.bridge.BridgeWatchResult)

    async def bridge_unwatch(
        self,
        *,
        kind: Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"],
        path: str | None = None,
    ) -> models.bridge.BridgeUnwatchResult:
        """`bridge/unwatch`: follows them no more.

        Args:
            path: The folder. Default: where the program keeps its sessions, by its own environment variable.
        """
        return await self.call("bridge/unwatch", given({"kind": kind, "path": path}), models.bridge.BridgeUnwatchResult)

    async def bridge_catch_up(
        self,
        *,
        kind: Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"],
        path: str,
        event: Literal["start", "prompt", "tool", "stop", "end"],
        cwd: str | None = None,
        tool_name: str | None = None,
        session_id: str | None = None,
    ) -> models.bridge.BridgeCatchUpResult:
        """`bridge/catchUp`: mirrors one file up to now and keeps the files of its workspace; for hooks of agents' programs.

        Args:
            path: The file of the session; it need not be there yet.
            event: `prompt`: a prompt is about to be worked on: the snapshot belongs to its checkpoint; `tool`: a tool has run; `stop`: the turn is over; `start`, `end`: of the session: no snapshot.
            cwd: The agent's folder, an absolute path: snapshots are of it. Without it none is taken.
            tool_name: The label of the snapshot.
            session_id: The mirror; a process that passes the request on to the one that has the mirror open says it. Ignored.
        """
        params = given(
            {
                "kind": kind,
                "path": path,
                "event": event,
                "cwd": cwd,
                "toolName": tool_name,
                "sessionId": session_id,
            }
        )
        return await self.call("bridge/catchUp", params, models.bridge.BridgeCatchUpResult)

    async def bridge_adopt(self, *, session_id: str, at: str | int | None = None) -> models.bridge.BridgeAdoptResult:
        """`bridge/adopt`: writes a new session for the agent's own program, cut at a point of a mirror, and says how to resume it.

        Args:
            session_id: The session.
            at: Where to go on from, which is the first thing left out: uid of a checkpoint, or index of a message. Default: behind all of it.
        """
        params = given(
            {
                "sessionId": session_id,
                "at": at,
            }
        )
        return await self.call("bridge/adopt", params, models.bridge.BridgeAdoptResult)

    async def bridge_list_kept(self, *, session_id: str) -> models.bridge.BridgeListKeptResult:
        """`bridge/listKept`: lists the bytes that are kept of the file of a mirror.

        Args:
            session_id: The session.
        """
        return await self.call("bridge/listKept", given({"sessionId": session_id}), models.bridge.BridgeListKeptResult)

    async def bridge_restore_file(
        self,
        *,
        session_id: str,
        expected_head: str | None = None,
        request_id: str | None = None,
        generation: int | None = None,
        path: str | None = None,
        dry_run: bool | None = None,
    ) -> models.bridge.BridgeRestoreFileResult:
        """`bridge/restoreFile`: puts the file of a mirror back, as it is kept; never over other bytes.

        Args:
            session_id: The session.
            expected_head: Refuse with `contentModified` unless this is the present head.
            request_id: Makes the request safe to retry: a repeat changes nothing and gets the stored result.
            generation: Which; default: the newest.
            path: Where to write it, an absolute path; default: its old place.
            dry_run: Say what would be written, and write nothing. Default: false.
        """
        params = given(
            {
                "sessionId": session_id,
                "expectedHead": expected_head,
                "requestId": request_id,
                "generation": generation,
                "path": path,
                "dryRun": dry_run,
            }
        )
        return await self.call("bridge/restoreFile", params, models.bridge.BridgeRestoreFileResult)
