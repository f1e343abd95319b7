// Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.

/** Which params and results belong to which method. */

import type {
  AppendMessageParams,
  AppendMessageResult,
  ApprovalDecision,
  ApprovalDidRequest,
  ApprovalDidResolve,
  ApprovalListParams,
  ApprovalListResult,
  ApprovalRequestParams,
  ApprovalRespondParams,
  ApprovalResult,
  AtParams,
  AtResult,
  BridgeAdoptParams,
  BridgeAdoptResult,
  BridgeCatchUpParams,
  BridgeCatchUpResult,
  BridgeDidChange,
  BridgeListKeptParams,
  BridgeListKeptResult,
  BridgeListParams,
  BridgeListResult,
  BridgeRestoreFileParams,
  BridgeRestoreFileResult,
  BridgeUnwatchParams,
  BridgeUnwatchResult,
  BridgeWatchParams,
  BridgeWatchResult,
  CancelDMailParams,
  CancelParams,
  CheckpointParams,
  CheckpointResult,
  ClearParams,
  CompactParams,
  CompactResult,
  CompactionSuggested,
  ContextDidChange,
  DeliverDMailParams,
  DeliverDMailResult,
  DiffParams,
  DiffResult,
  DiscoverParams,
  DiscoverResult,
  EmptyResult,
  ExitParams,
  ExportResult,
  FilesDidRestore,
  FilesDidSnapshot,
  FilesDiffParams,
  FilesDiffResult,
  FilesListParams,
  FilesListResult,
  FilesReadParams,
  FilesReadResult,
  FilesRestoreParams,
  FilesRestoreResult,
  FilesSnapshotParams,
  FilesSnapshotResult,
  FoldParams,
  FoldResult,
  GetHistoryParams,
  GetHistoryResult,
  GetRecordsParams,
  GetRecordsResult,
  HeadResult,
  ImportResult,
  InitializeParams,
  InitializeResult,
  InitializedParams,
  IsApprovedResult,
  ListCheckpointsParams,
  ListCheckpointsResult,
  ListTimelinesParams,
  ListTimelinesResult,
  ListUsageParams,
  ListUsageResult,
  LogTraceParams,
  MergeResult,
  PrepareCompactionParams,
  PrepareCompactionResult,
  ProgressParams,
  RedoParams,
  RepairResult,
  ReplaceMessageParams,
  ReplaceMessageResult,
  RestoreTimelineParams,
  RevertToParams,
  RewriteResult,
  SearchParams,
  SearchResult,
  SendDMailParams,
  SendDMailResult,
  SessionArchiveParams,
  SessionCloseParams,
  SessionDeleteParams,
  SessionDidChange,
  SessionDidRecover,
  SessionExportParams,
  SessionForkParams,
  SessionGetStateParams,
  SessionImportParams,
  SessionIsApprovedParams,
  SessionLatestParams,
  SessionLatestResult,
  SessionListAuditParams,
  SessionListAuditResult,
  SessionListParams,
  SessionListResult,
  SessionListTrashParams,
  SessionMergeParams,
  SessionOpenParams,
  SessionPruneParams,
  SessionPruneResult,
  SessionPurgeParams,
  SessionPurgeResult,
  SessionPutSubagentParams,
  SessionRedactParams,
  SessionRedactResult,
  SessionReloadParams,
  SessionRemoveSubagentParams,
  SessionRepairParams,
  SessionSearchParams,
  SessionSearchResult,
  SessionSetAfkParams,
  SessionSetAutoApproveParams,
  SessionSetTitleParams,
  SessionSetWorkspaceParams,
  SessionSetYoloParams,
  SessionState,
  SessionStorageParams,
  SessionStorageResult,
  SessionUnarchiveParams,
  SessionUndeleteParams,
  SessionVerifyParams,
  SessionWarning,
  SetPinsParams,
  SetPinsResult,
  SetSystemPromptParams,
  SetTraceParams,
  ShutdownParams,
  SubagentsResult,
  SummarizeParams,
  SummarizeResult,
  TrashListResult,
  UndoParams,
  UndoResult,
  UpdateTokenCountParams,
  UpdateTokenCountResult,
  VerifyResult,
} from "./types.js";

export const PROTOCOL_VERSION = 1;

/** What a server takes at most, unless it announces something else. */
export const LIMITS = {
  "maxFrameBytes": 67108864,
  "maxMessageBytes": 33554432,
  "maxDepth": 128,
  "maxInFlight": 1024,
  "maxPage": 1000
} as const;

/** Requests of the client. */
export interface Methods {
  /** Opens the connection; tells both sides what the other can. */
  "initialize": { params: InitializeParams; result: InitializeResult };
  /** Finishes everything; only `exit` may follow. */
  "shutdown": { params: ShutdownParams; result: null };
  /** The OpenRPC document; works before `initialize`. */
  "rpc.discover": { params: DiscoverParams; result: DiscoverResult };
  /** Opens a session, creating it if need be. */
  "session/open": { params: SessionOpenParams; result: SessionState };
  /** Undoes one `session/open`. */
  "session/close": { params: SessionCloseParams; result: EmptyResult };
  /** Lists the sessions of the store, newest change first. */
  "session/list": { params: SessionListParams; result: SessionListResult };
  /** The session that was changed last, archived ones left out. */
  "session/latest": { params: SessionLatestParams; result: SessionLatestResult };
  /** Everything about a session but its messages. */
  "session/getState": { params: SessionGetStateParams; result: SessionState };
  /** Switches the approval of everything on or off. */
  "session/setYolo": { params: SessionSetYoloParams; result: ApprovalResult };
  /** Switches the approval of one action on or off. */
  "session/setAutoApprove": { params: SessionSetAutoApproveParams; result: ApprovalResult };
  /** Says that nobody is there to approve anything, or that somebody is. */
  "session/setAfk": { params: SessionSetAfkParams; result: ApprovalResult };
  /** Whether an action may run without asking the user. */
  "session/isApproved": { params: SessionIsApprovedParams; result: IsApprovedResult };
  /** Defines or replaces a sub-agent. */
  "session/putSubagent": { params: SessionPutSubagentParams; result: SubagentsResult };
  /** Removes a sub-agent. */
  "session/removeSubagent": { params: SessionRemoveSubagentParams; result: SubagentsResult };
  /** Names the session. */
  "session/setTitle": { params: SessionSetTitleParams; result: HeadResult };
  /** Says which folder the session is about. */
  "session/setWorkspace": { params: SessionSetWorkspaceParams; result: HeadResult };
  /** Copies the history, whole or up to a checkpoint, into a new session and opens it. */
  "session/fork": { params: SessionForkParams; result: SessionState };
  /** Appends a summary of another session's messages, behind a checkpoint. */
  "session/merge": { params: SessionMergeParams; result: MergeResult };
  /** Leaves the session out of lists. */
  "session/archive": { params: SessionArchiveParams; result: HeadResult };
  /** Puts the session back into lists. */
  "session/unarchive": { params: SessionUnarchiveParams; result: HeadResult };
  /** Moves the session to the trash; its id is free again. */
  "session/delete": { params: SessionDeleteParams; result: EmptyResult };
  /** Takes the newest session of that id out of the trash. */
  "session/undelete": { params: SessionUndeleteParams; result: EmptyResult };
  /** Lists the sessions in the trash. */
  "session/listTrash": { params: SessionListTrashParams; result: TrashListResult };
  /** Removes sessions from the trash for good. */
  "session/purge": { params: SessionPurgeParams; result: SessionPurgeResult };
  /** Lists who changed the approvals of a session, and what was taken out of it; newest first. */
  "session/listAudit": { params: SessionListAuditParams; result: SessionListAuditResult };
  /** Takes over what is on disk after `externallyModified`; attaches where another process owns that by now. */
  "session/reload": { params: SessionReloadParams; result: SessionState };
  /** Checks every record of the log; changes nothing. */
  "session/verify": { params: SessionVerifyParams; result: VerifyResult };
  /** Rewrites the log without its damaged lines; the old one becomes a timeline. */
  "session/repair": { params: SessionRepairParams; result: RepairResult };
  /** Finds messages in all sessions of the store. */
  "session/search": { params: SessionSearchParams; result: SessionSearchResult };
  /** What takes space: the sessions of the store, or the files of one. */
  "session/storage": { params: SessionStorageParams; result: SessionStorageResult };
  /** Removes timelines for good. */
  "session/prune": { params: SessionPruneParams; result: SessionPruneResult };
  /** Takes a secret out of the log, every timeline and all else a session keeps, for good. */
  "session/redact": { params: SessionRedactParams; result: SessionRedactResult };
  /** Writes a session to a file of another form. */
  "session/export": { params: SessionExportParams; result: ExportResult };
  /** Makes a new session from a file, and opens it. */
  "session/import": { params: SessionImportParams; result: ImportResult };
  /** Appends one message, or several as one step. */
  "context/appendMessage": { params: AppendMessageParams; result: AppendMessageResult };
  /** Records the usage the model reported. */
  "context/updateTokenCount": { params: UpdateTokenCountParams; result: UpdateTokenCountResult };
  /** The trail of token counts. */
  "context/listUsage": { params: ListUsageParams; result: ListUsageResult };
  /** Sets the system prompt; the last one wins. */
  "context/setSystemPrompt": { params: SetSystemPromptParams; result: HeadResult };
  /** Writes a checkpoint. */
  "context/checkpoint": { params: CheckpointParams; result: CheckpointResult };
  /** Lists checkpoints. */
  "context/listCheckpoints": { params: ListCheckpointsParams; result: ListCheckpointsResult };
  /** Removes a checkpoint and all after it; what it removes stays as a timeline. */
  "context/revertTo": { params: RevertToParams; result: RewriteResult };
  /** Puts another message in the place of one; what came after it is set aside, as in a revert. */
  "context/replaceMessage": { params: ReplaceMessageParams; result: ReplaceMessageResult };
  /** Empties the log; what it removes stays as a timeline. */
  "context/clear": { params: ClearParams; result: RewriteResult };
  /** A page of messages; or all of them as the body of a request to a model's provider. */
  "context/getHistory": { params: GetHistoryParams; result: GetHistoryResult };
  /** A page of the whole log, control records included. */
  "context/getRecords": { params: GetRecordsParams; result: GetRecordsResult };
  /** Lists the earlier logs of the session, newest first. */
  "context/listTimelines": { params: ListTimelinesParams; result: ListTimelinesResult };
  /** Makes a timeline the live log again, byte for byte; the present log becomes a timeline. */
  "context/restoreTimeline": { params: RestoreTimelineParams; result: RewriteResult };
  /** Undoes the last revert, clear, compaction, restore or D-Mail, or several of them as one step. */
  "context/undo": { params: UndoParams; result: UndoResult };
  /** Does again what was undone last, as long as nothing else has changed the log since. */
  "context/redo": { params: RedoParams; result: UndoResult };
  /** Puts a summary in the place of the older messages. */
  "context/compact": { params: CompactParams; result: CompactResult };
  /** Puts a summary, or nothing, in the place of a range of messages; what it removes stays in a timeline. */
  "context/fold": { params: FoldParams; result: FoldResult };
  /** Says what no compaction of the session may lose. */
  "context/setPins": { params: SetPinsParams; result: SetPinsResult };
  /** What a summariser would be asked. */
  "context/prepareCompaction": { params: PrepareCompactionParams; result: PrepareCompactionResult };
  /** Leaves a note to the self of a checkpoint, of this session or of another one. */
  "context/sendDMail": { params: SendDMailParams; result: SendDMailResult };
  /** Reverts to the checkpoint of the pending D-Mail and puts the note there, as one step. */
  "context/deliverDMail": { params: DeliverDMailParams; result: DeliverDMailResult };
  /** Drops the pending D-Mail. */
  "context/cancelDMail": { params: CancelDMailParams; result: HeadResult };
  /** Finds messages of one session. */
  "context/search": { params: SearchParams; result: SearchResult };
  /** What two states of the context have in common, and what not. */
  "context/diff": { params: DiffParams; result: DiffResult };
  /** The checkpoint that led to a message or a time, and the state there. */
  "context/at": { params: AtParams; result: AtResult };
  /** Asks for an approval and waits for the decision. */
  "approval/request": { params: ApprovalRequestParams; result: ApprovalDecision };
  /** Decides what was asked. */
  "approval/respond": { params: ApprovalRespondParams; result: EmptyResult };
  /** What waits for a decision, oldest first. */
  "approval/list": { params: ApprovalListParams; result: ApprovalListResult };
  /** Keeps the files of the session as they are now. */
  "files/snapshot": { params: FilesSnapshotParams; result: FilesSnapshotResult };
  /** Lists the snapshots of the session's files, newest first. */
  "files/list": { params: FilesListParams; result: FilesListResult };
  /** How the files differ between two snapshots, or between one and the disk. */
  "files/diff": { params: FilesDiffParams; result: FilesDiffResult };
  /** A part of a file as a snapshot has it. */
  "files/read": { params: FilesReadParams; result: FilesReadResult };
  /** Puts files back as a snapshot has them; what was there is kept as a snapshot first. */
  "files/restore": { params: FilesRestoreParams; result: FilesRestoreResult };
  /** Lists the folders in which agents' programs keep sessions. */
  "bridge/list": { params: BridgeListParams; result: BridgeListResult };
  /** Mirrors the sessions of an agent's program, and follows them. */
  "bridge/watch": { params: BridgeWatchParams; result: BridgeWatchResult };
  /** Follows them no more. */
  "bridge/unwatch": { params: BridgeUnwatchParams; result: BridgeUnwatchResult };
  /** Mirrors one file up to now and keeps the files of its workspace; for hooks of agents' programs. */
  "bridge/catchUp": { params: BridgeCatchUpParams; result: BridgeCatchUpResult };
  /** Writes a new session for the agent's own program, cut at a point of a mirror, and says how to resume it. */
  "bridge/adopt": { params: BridgeAdoptParams; result: BridgeAdoptResult };
  /** Lists the bytes that are kept of the file of a mirror. */
  "bridge/listKept": { params: BridgeListKeptParams; result: BridgeListKeptResult };
  /** Puts the file of a mirror back, as it is kept; never over other bytes. */
  "bridge/restoreFile": { params: BridgeRestoreFileParams; result: BridgeRestoreFileResult };
}

/** Requests that change something: they take a `requestId`, and are safe to repeat under it. */
export const MUTATING: ReadonlySet<string> = new Set<keyof Methods>([
  "session/open",
  "session/setYolo",
  "session/setAutoApprove",
  "session/setAfk",
  "session/putSubagent",
  "session/removeSubagent",
  "session/setTitle",
  "session/setWorkspace",
  "session/fork",
  "session/merge",
  "session/archive",
  "session/unarchive",
  "session/delete",
  "session/undelete",
  "session/purge",
  "session/repair",
  "session/prune",
  "session/redact",
  "session/import",
  "context/appendMessage",
  "context/updateTokenCount",
  "context/setSystemPrompt",
  "context/checkpoint",
  "context/revertTo",
  "context/replaceMessage",
  "context/clear",
  "context/restoreTimeline",
  "context/undo",
  "context/redo",
  "context/compact",
  "context/fold",
  "context/setPins",
  "context/sendDMail",
  "context/deliverDMail",
  "context/cancelDMail",
  "files/snapshot",
  "files/restore",
]);

/** Requests that are answered when a person has decided: they take a `requestId` and a `timeout` in seconds. */
export const WAITING: ReadonlySet<string> = new Set<keyof Methods>([
  "approval/request",
]);

/** Notifications of the client. */
export interface ClientNotifications {
  /** The client has read the result. */
  "initialized": InitializedParams;
  /** Ends the process. */
  "exit": ExitParams;
  /** A request is no longer wanted. */
  "$/cancelRequest": CancelParams;
  /** How much `$/logTrace` is to tell. */
  "$/setTrace": SetTraceParams;
}

/** Requests of the server. */
export interface ClientRequests {
  /** Asks a client that owns a model for a summary. */
  "context/summarize": { params: SummarizeParams; result: SummarizeResult };
}

/** Notifications of the server. */
export interface Notifications {
  /** The log of an open session changed. */
  "context/didChange": ContextDidChange;
  /** Something about an open session other than its log changed. */
  "session/didChange": SessionDidChange;
  /** Opening a session found damage and mended it. */
  "session/didRecover": SessionDidRecover;
  /** The context passed the trigger; sent once a crossing. */
  "context/compactionSuggested": CompactionSuggested;
  /** Something worth knowing that stops nothing. */
  "session/warning": SessionWarning;
  /** Somebody asks for an approval. */
  "approval/didRequest": ApprovalDidRequest;
  /** A request for an approval needs no decision any more. */
  "approval/didResolve": ApprovalDidResolve;
  /** A snapshot of a session's files was taken. */
  "files/didSnapshot": FilesDidSnapshot;
  /** Files of a session were put back. */
  "files/didRestore": FilesDidRestore;
  /** Mirrors of other programs' sessions were made or changed. */
  "bridge/didChange": BridgeDidChange;
  /** How far the work of a request has come. */
  "$/progress": ProgressParams;
  /** What the server is doing, where `$/setTrace` asked for it. */
  "$/logTrace": LogTraceParams;
}

/** The code of every kind of error. */
export const ERROR_CODES = {
  /** What arrived is not JSON. */
  parseError: -32700,
  /** JSON, but no request that can be taken here and now. */
  invalidRequest: -32600,
  /** No method of that name. */
  methodNotFound: -32601,
  /** The params do not fit the method; every misfit is named. */
  invalidParams: -32602,
  /** A fault of the server; details are in its log only. */
  internalError: -32603,
  /** Sent before `initialize`. */
  notInitialized: -32002,
  /** Cancelled; nothing was written. */
  cancelled: -32800,
  /** The log is not at the head (or cursor) the request names. */
  contentModified: -32801,
  /** No such session. */
  sessionNotFound: 4001,
  /** The present log has no such checkpoint. */
  checkpointNotFound: 4002,
  /** Another process writes to the session. */
  sessionLocked: 4003,
  /** The session is open to look at, not to change; or this connection may not change that. */
  readOnly: 4004,
  /** The operating system, or the database, refused; nothing was changed. */
  storageFailure: 4005,
  /** No usable summary could be had; nothing was changed. */
  compactionFailed: 4006,
  /** A D-Mail is pending already. */
  dmailPending: 4007,
  /** No D-Mail is pending. */
  noPendingDMail: 4008,
  /** The session has no such timeline. */
  timelineNotFound: 4009,
  /** The session id does not have the allowed form. */
  invalidSessionId: 4010,
  /** Over a limit that `initialize` announced. */
  tooLarge: 4011,
  /** The server cannot take more right now. */
  overloaded: 4012,
  /** The session exists, but is not open on this connection. */
  sessionNotOpen: 4013,
  /** Stored data is damaged where it cannot be worked around. */
  corrupted: 4014,
  /** A program that takes no lock changed the log; `session/reload` takes its state over. */
  externallyModified: 4015,
  /** The session id is taken. */
  sessionExists: 4016,
  /** The client speaks another version of the protocol. */
  protocolVersion: 4017,
  /** Fewer steps can be undone; nothing was changed. */
  nothingToUndo: 4018,
  /** Fewer steps can be redone; nothing was changed. */
  nothingToRedo: 4018,
  /** The workspace's files cannot be kept; everything else goes on. */
  filesUnavailable: 4020,
  /** Files were changed by somebody else since; nothing was changed. */
  filesConflict: 4021,
  /** A restore was interrupted, and files are neither as before nor as they should be. */
  filesIncomplete: 4022,
  /** The workspace has more files than a snapshot may hold; exclude some, or raise `maxFiles`. */
  filesTooLarge: 4023,
  /** Another process takes or restores a snapshot of the same folder. */
  filesBusy: 4024,
  /** There is no such snapshot (any more). */
  snapshotNotFound: 4025,
  /** No approval of that id waits for a decision (any more). */
  approvalNotPending: 4026,
  /** Nobody decided in time. */
  approvalTimeout: 4027,
  /** The store cannot do this; `initialize` lists such methods. */
  notSupportedByStore: 4028,
} as const;

export type ErrorKind = keyof typeof ERROR_CODES;
