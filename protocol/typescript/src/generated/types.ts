// Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.

/** The shapes of the wire protocol. */

/** What this process may do with the session changed. */
export interface AccessChanged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "accessChanged";
  access: "owner" | "attached" | "readOnly";
}

/** Settings for the sessions of other agents' programs. */
export interface AgentsOptions {
  keep?: KeepOptions;
}

/** `context/appendMessage`. */
export interface AppendMessageParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** One message; this or `messages`. */
  message?: NewMessage;
  /** Several, appended all or none; this or `message`. Opaque records go along as `{record}`, checkpoints as `{checkpoint: {label?}}`, token counts as `{tokenCount}`. */
  messages?: NewItem[];
}

/** Where the messages went and what the context amounts to now. */
export interface AppendMessageResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Of the first message appended. */
  firstIndex: number;
  messageCount: number;
  tokenCountWithPending: number;
  shouldCompact: boolean;
}

/** What the user allowed to run unasked. */
export interface Approval {
  /** Everything is approved. */
  yolo: boolean;
  afk: boolean;
  /** Sorted. */
  autoApproveActions: string[];
  /** Whether the state on disk carries a valid seal. */
  sealed: boolean;
  changedAt?: string;
  changedBy?: string;
}

/** Other things may run unasked now. */
export interface ApprovalChanged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "approvalChanged";
  approval: Approval;
}

/** What was decided. */
export interface ApprovalDecision {
  decision: "approve" | "approveForSession" | "reject";
  /** In the decider's words; of an automatic one `yolo`, `autoApprove` or `afk`. */
  reason?: string;
  decidedBy: DecidedBy;
  /** Whether the session's approvals decided, and nobody was asked. */
  automatic: boolean;
  /** Present when this answers a repeated `requestId` that was decided before. */
  duplicate?: true;
}

/** `approval/didRequest`: somebody asks for an approval. */
export interface ApprovalDidRequest {
  sessionId: string;
  approval: ApprovalRequest;
}

/** `approval/didResolve`: a request needs no decision any more. */
export interface ApprovalDidResolve {
  sessionId: string;
  approvalId: string;
  /** `cancelled`: the one who asked does not want it any more, or is gone; `timedOut`: nobody decided in time. */
  decision: "approve" | "approveForSession" | "reject" | "cancelled" | "timedOut";
  reason?: string;
  /** Who decided. */
  cause: Cause;
}

/** `approval/list`. */
export interface ApprovalListParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
}

/** What waits for a decision, oldest first. */
export interface ApprovalListResult {
  approvals: ApprovalRequest[];
}

/** A request that waits for a decision. */
export interface ApprovalRequest {
  approvalId: string;
  action: string;
  description?: string;
  detail?: { [member: string]: unknown };
  toolCallId?: string;
  requestedAt: string;
  /** Name of the client that asks. */
  client?: string;
}

/** `approval/request`. Answered when a person has decided, or at once where the session's approvals say so. */
export interface ApprovalRequestParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** What kind of thing is to be done, such as `run command`: automatic approvals go by this name. */
  action: string;
  /** For the person: what exactly is to be done. */
  description?: string;
  /** For a window that can show more: any object, up to 64 KiB as JSON. It is not written to disk. */
  detail?: { [member: string]: unknown };
  /** The tool call that waits for it. */
  toolCallId?: string;
  /** Seconds to wait for a decision. Default: 600. */
  timeout?: number;
  /** Makes the request safe to retry: a repeat joins the pending one, or gets its decision. */
  requestId?: string;
}

/** `approval/respond`. The first decision counts. */
export interface ApprovalRespondParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  approvalId: string;
  /** `approveForSession` also switches the automatic approval of the action on. */
  decision: "approve" | "approveForSession" | "reject";
  /** For the one who asked: why, or what to do instead. */
  reason?: string;
}

/** The approvals after a change. */
export interface ApprovalResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  approval: Approval;
}

/** The session was archived. */
export interface Archived {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "archived";
}

/** `context/at`. */
export interface AtParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** The moment right after this message was added; this or `time`. */
  index?: number;
  /** The moment a clock showed this time: ISO-8601 with its offset from UTC. */
  time?: string;
  /** In this timeline. Default: for `index` the live log, for `time` the log that was the live one then. */
  timelineId?: string;
}

/** A moment of the past. */
export interface AtResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  /** The timeline that holds it; absent for the live log. */
  timelineId?: string;
  /** The last checkpoint before it. */
  checkpoint: Checkpoint | null;
  /** The first checkpoint after it. */
  nextCheckpoint: Checkpoint | null;
  /** With the message; or, for a `time` after the last change of its log, at the end of that. For any other `time` at `checkpoint`: what came between it and `nextCheckpoint` bears no time. */
  state: ContextState;
}

/** A sound. */
export interface AudioPart {
  type: "audio_url";
  audio_url: MediaUrl;
}

/** What somebody changed, asked for or decided. */
export interface AuditEntry {
  time: string;
  /** Who asked for it, as the client called itself. */
  client?: string;
  requestId?: string;
  /** What was changed: `yolo`, `autoApprove:<action>`, `redaction`, ...; `approval` where somebody was asked. */
  field: string;
  /** What it was before; null where there was nothing. */
  from?: unknown;
  /** What it is since then; null where there is nothing. */
  to?: unknown;
  approvalId?: string;
  action?: string;
  description?: string;
  toolCallId?: string;
  reason?: string;
  /** Whether a setting decided, not a person. */
  automatic?: boolean;
}

/** What a body does not say as the history does. Of `kind` and `message` the first is one of these words. Left out: `think`, `image`, `audio`, `video`, `part` (unknown), `name`, `toolCall` (no call of a function), `empty`. Said in another way: `toolName`, `arguments`, `role`, `system`. `openCall`: a call got a result of ours; `orphanResult`: a result without a call is a user's text; `order`: moved to where the provider wants it; `userAdded`: a message of ours, as the provider wants one there. */
export interface BodyLoss {
  kind: string;
  message: string;
  /** Of the message; absent where it is about the body as a whole. */
  index?: number;
}

/** `bridge/adopt`. */
export interface BridgeAdoptParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Where to go on from, which is the first thing left out: uid of a checkpoint, or index of a message. Default: behind all of it. */
  at?: string | number;
}

/** A new session of the agent's program, beside the old one, which is as it was. */
export interface BridgeAdoptResult {
  /** Id of the mirror. */
  sessionId: string;
  /** The program's new file. */
  path: string;
  resume: ResumeCommand;
  /** Faults that the program would have refused and the new file has not, in words. */
  healed?: string[];
}

/** `bridge/catchUp`: what a hook of an agent's program asks for. Mirrors one file up to now, whether it is watched or not; and keeps the files of the workspace. */
export interface BridgeCatchUpParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  kind: "claude-code" | "codex" | "gemini" | "kimi" | "kimi-code" | "opencode" | "pi";
  /** The file of the session; it need not be there yet. */
  path: string;
  /** The agent's folder, an absolute path: snapshots are of it. Without it none is taken. */
  cwd?: string;
  /** `prompt`: a prompt is about to be worked on: the snapshot belongs to its checkpoint; `tool`: a tool has run; `stop`: the turn is over; `start`, `end`: of the session: no snapshot. */
  event: "start" | "prompt" | "tool" | "stop" | "end";
  /** The label of the snapshot. */
  toolName?: string;
  /** The mirror; a process that passes the request on to the one that has the mirror open says it. Ignored. */
  sessionId?: string;
}

/** What was done. A file that is not there yet is no error. */
export interface BridgeCatchUpResult {
  /** The mirror, which is made when the file is there. */
  sessionId: string;
  /** Messages that are new in the mirror. */
  added: number;
  /** The newest checkpoint. */
  checkpointUid?: string;
  snapshot?: string;
  /** Why there is no snapshot, or no mirror. */
  problem?: string;
}

/** Ids of mirrors, joined over 200 ms. */
export interface BridgeDidChange {
  added: string[];
  changed: string[];
  /** Mirrors whose files are gone; they stay, and what is kept of the files. */
  gone: LostFile[];
}

/** `bridge/listKept`. */
export interface BridgeListKeptParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
}

/** All that is kept of the file of a mirror. */
export interface BridgeListKeptResult {
  /** Newest first. */
  generations: KeptGeneration[];
}

/** `bridge/list`. */
export interface BridgeListParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
}

/** The folders in which agents keep sessions: the usual ones, and those that are watched. */
export interface BridgeListResult {
  sources: BridgeSource[];
}

/** `bridge/restoreFile`. */
export interface BridgeRestoreFileParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Which; default: the newest. */
  generation?: number;
  /** Where to write it, an absolute path; default: its old place. */
  path?: string;
  /** Say what would be written, and write nothing. Default: false. */
  dryRun?: boolean;
}

/** The file that was written, or (dry run) would be; or that was there already with these bytes. */
export interface BridgeRestoreFileResult {
  path: string;
  bytes: number;
  sha256: string;
  generation: number;
  /** The command that has the program go on in the file, where that is at its old place. */
  resume?: ResumeCommand;
}

/** A folder in which an agent's program keeps its sessions. */
export interface BridgeSource {
  kind: "claude-code" | "codex" | "gemini" | "kimi" | "kimi-code" | "opencode" | "pi";
  /** Of the folder. */
  path: string;
  /** Files of sessions that are in it. */
  sessions: number;
  /** False where there is no such folder, or it cannot be read. */
  available: boolean;
  /** This process follows it. */
  watched: boolean;
  /** Files that are mirrored up to their present size. */
  mirrored: number;
  /** Files that this process is yet to look at. Absent where it does not follow the folder, or has yet to list it. */
  pending?: number;
  /** What could not be read, and why. */
  problem?: string;
}

/** `bridge/unwatch`. The mirrors stay as they are. */
export interface BridgeUnwatchParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  kind: "claude-code" | "codex" | "gemini" | "kimi" | "kimi-code" | "opencode" | "pi";
  /** The folder. Default: where the program keeps its sessions, by its own environment variable. */
  path?: string;
}

/** Whether it was watched. */
export interface BridgeUnwatchResult {
  watched: boolean;
}

/** `bridge/watch`. Mirrors what is there, in the background, and follows it until `bridge/unwatch`. */
export interface BridgeWatchParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  kind: "claude-code" | "codex" | "gemini" | "kimi" | "kimi-code" | "opencode" | "pi";
  /** The folder. Default: where the program keeps its sessions, by its own environment variable. */
  path?: string;
  /** URI: only the sessions of this folder. */
  workspace?: string;
}

/** What is watched. */
export interface BridgeWatchResult {
  kind: "claude-code" | "codex" | "gemini" | "kimi" | "kimi-code" | "opencode" | "pi";
  path: string;
  /** How the server hears of changes: from the system, or by looking again and again. */
  method: "notifications" | "polling";
}

/** When the context counts as full. */
export interface Budget {
  /** Tokens; null: no trigger. */
  maxContextSize: number | null;
  reservedContextSize: number;
  triggerRatio: number;
}

/** `context/cancelDMail`. */
export interface CancelDMailParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
}

/** `$/cancelRequest`. */
export interface CancelParams {
  /** Of the request that is no longer wanted. */
  id: string | number;
}

/** Whose request caused a notification; empty where none did. */
export interface Cause {
  requestId?: string;
  /** The `clientInfo.name` of the requesting connection. */
  client?: string;
}

/** What happened since the newest checkpoint, up to now. */
export interface ChangedSpan {
  checkpointUid: string;
  summary: SpanSummary;
  /** The name of its checkpoint, unless that has a label; absent where nothing happened. */
  name?: string;
}

/** A named point of the log that can be reverted to. */
export interface Checkpoint {
  /** Counts up by one; starts again lower after a revert. */
  id: number;
  /** Never used twice in a session. */
  uid: string;
  label?: string;
  /** Absent for checkpoints the original program wrote. */
  createdAt?: string;
  /** Messages before it. */
  messageCount: number;
  /** The token count at it. */
  tokenCount: number;
  /** The first 120 characters of the message that follows. */
  preview?: string;
  /** The files at it; absent where none were looked at. */
  files?: CheckpointFiles;
  /** What happened after it, in `context/listCheckpoints`, in a `ContextSummary` and in notifications. */
  summary?: SpanSummary;
  /** The name that every program shows, beside `summary`: the label, else the span's: the call that failed, else the files that were edited, the first call, or what was said. A whole line; absent where nothing happened. */
  name?: string;
}

/** A checkpoint was written. */
export interface CheckpointCreated {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "checkpointCreated";
  checkpoint: Checkpoint;
}

/** The snapshot of a checkpoint; or only `error`, where none could be taken. */
export interface CheckpointFiles {
  snapshot?: string;
  /** Paths that differ from the snapshot before it; of a mirror from that of the checkpoint before. */
  changed?: number;
  /** Paths it could not take in; a restore leaves them alone. */
  skipped?: number;
  /** How long it took. */
  ms?: number;
  error?: FilesProblem;
}

/** `context/checkpoint`. */
export interface CheckpointParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  label?: string;
  /** Whether a user message that tells the model of the checkpoint follows it, as one step. Default: false. */
  addUserMessage?: boolean;
  /** Whether the files get a snapshot with it. Default: as the session's `files` say. */
  files?: boolean;
}

/** The checkpoint that was written. */
export interface CheckpointResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  checkpoint: Checkpoint;
}

/** `context/clear`. */
export interface ClearParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
  /** Default: true. */
  keepSystemPrompt?: boolean;
}

/** The log was emptied. */
export interface Cleared {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "cleared";
}

/** The client capabilities that matter here. */
export interface ClientCapabilities {
  experimental?: ClientExperimental;
  [member: string]: unknown;
}

/** `capabilities.experimental` of a client. */
export interface ClientExperimental {
  timeleap?: ClientTimeleap;
  [member: string]: unknown;
}

/** Who is calling. */
export interface ClientInfo {
  name: string;
  version?: string;
}

/** `capabilities.experimental.timeleap` of a client. */
export interface ClientTimeleap {
  /** Refused with `protocolVersion` if it is another than the server's. */
  protocolVersion?: number;
  /** Whether the client answers `context/summarize`. */
  summarize?: boolean;
  /** Whether the client wants `approval/didRequest` and `approval/didResolve`. */
  approvals?: boolean;
}

/** `context/compact`. */
export interface CompactParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would happen, and change nothing; the summariser is asked all the same. Default: false. */
  dryRun?: boolean;
  /** User and assistant messages at the end that stay as they are. Default: the session's setting. */
  maxPreservedMessages?: number;
  /** What the summary should pay attention to. */
  customInstruction?: string;
  /** Default: `auto`. */
  summarizer?: "auto" | "client" | "server" | "builtin";
  /** A summary the caller has made; nobody else is asked then. */
  summary?: string;
  /** Strings that the summary must have in it, beside the session's (`context/setPins`): what it lacks is added to it. */
  pins?: string[];
}

/** What a compaction did, or (dry run) would do. */
export interface CompactResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  compacted: boolean;
  /** Why not, where `compacted` is false. */
  reason?: string;
  /** The timeline the log before it became. */
  timelineId?: string;
  summary?: string;
  removedMessages: number;
  preservedMessages: number;
  /** Pending tokens included. */
  tokenCountBefore: number;
  tokenCountAfter: number;
  /** After it. */
  context: ContextSummary;
  /** Who made the summary. */
  summarizer?: "caller" | "client" | "server" | "builtin";
  /** Absent where no summary was made. */
  scorecard?: Scorecard;
  /** Absent where there are no pins. */
  pins?: PinsReport;
}

/** A summary took the place of the older messages. */
export interface Compacted {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "compacted";
}

/** `context/compactionSuggested`: the context passed the trigger; sent once a crossing. */
export interface CompactionSuggested {
  sessionId: string;
  tokenCountWithPending: number;
  maxContextSize?: number;
  reservedContextSize?: number;
  triggerRatio?: number;
}

/** `context/didChange`: the log of a session changed. */
export type ContextDidChange = MessagesAppended | CheckpointCreated | Reverted | Cleared | Compacted | Folded | Merged | TimelineRestored | Undone | Redone | DMailDelivered | Redacted | TokenCountUpdated | SystemPromptSet | ExternalChange;

/** What a context amounted to at a moment of its past. */
export interface ContextState {
  messageCount: number;
  /** Checkpoint records up to then. */
  checkpointCount: number;
  tokenCount: number;
  systemPrompt: string | null;
}

/** What a log amounts to. */
export interface ContextSummary {
  messageCount: number;
  /** The model's last reported usage. */
  tokenCount: number;
  /** `tokenCount` and an estimate of what came after it. */
  tokenCountWithPending: number;
  /** The id the next checkpoint will have. */
  nCheckpoints: number;
  /** The newest 50, oldest first. */
  checkpoints: Checkpoint[];
  /** How many older ones are not listed. */
  checkpointsOmitted: number;
  systemPrompt: string | null;
  logBytes: number;
  timelines: number;
  /** How many steps `context/undo` can go back; absent where the server does not know the method. */
  canUndo?: number;
  /** How many of them `context/redo` can take back. */
  canRedo?: number;
  shouldCompact: boolean;
}

/** Where a D-Mail to another session arrived. */
export interface DMailArrival {
  /** What the session is called where it is owned. */
  sessionId: string;
  /** Its head then. */
  head: string;
  /** Of the note's message in its history; absent for a D-Mail that waits there. */
  index?: number;
}

/** A D-Mail is pending, or none is any more. */
export interface DMailChanged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "dmailChanged";
  pendingDMail: PendingDMail | null;
}

/** A D-Mail arrived in the past. */
export interface DMailDelivered {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "dmailDelivered";
  /** The checkpoint the note was sent to, which is gone now. */
  checkpointId?: number;
  checkpointUid?: string;
  /** The new checkpoint before the note. */
  checkpoint?: Checkpoint;
}

/** Who decided. */
export interface DecidedBy {
  /** Its name; absent where the session's approvals decided. */
  client?: string;
  at: string;
}

/** The session went to the trash. */
export interface Deleted {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "deleted";
}

/** `context/deliverDMail`. */
export interface DeliverDMailParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
  /** What goes back. Default: `conversation`; `both`: all of it or nothing. */
  restore?: "conversation" | "files" | "both";
  /** What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`. */
  onConflict?: "refuse" | "keep" | "overwrite";
  /** As in `context/revertTo`. */
  heal?: boolean;
}

/** What the delivery of a D-Mail did, or (dry run) would do. */
export interface DeliverDMailResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Absent where only the conversation went back. */
  files?: RestoredFiles;
  /** In a dry run with files: as in `files`. */
  changes?: FileChange[];
  /** In a dry run with files: as in `files`. */
  cursor?: string;
  /** The timeline that has the log before it; absent in a dry run, and where that log was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  /** Present when a revert went into the middle of a tool exchange. */
  toolExchange?: ToolExchange;
  /** The new checkpoint before the note; absent in a dry run. */
  checkpoint?: Checkpoint;
}

/** `context/diff`. */
export interface DiffParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  from: DiffPoint;
  to: DiffPoint;
  /** End the page before it is larger; at least one message comes. Default: 4 MiB. */
  maxBytes?: number;
}

/** One side of a comparison: a checkpoint, a timeline, or (empty) the present. */
export interface DiffPoint {
  /** The state before this checkpoint; of the present log or, where that has none of the uid, of a timeline. */
  checkpointUid?: string;
  /** The state at the end of this timeline. */
  timelineId?: string;
  /** A state of this session of the store. Default: the session of the request. */
  sessionId?: string;
}

/** How two states of a context differ. */
export interface DiffResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  /** Messages that both begin with. */
  common: number;
  /** Of `from`, after those. */
  removed: IndexedMessage[];
  /** Of `to`, after those; they come when all of `removed` have come. */
  added: IndexedMessage[];
  /** How many there are on all pages together. */
  removedCount: number;
  addedCount: number;
  tokens: DiffTokens;
  state: DiffStates;
  nextCursor?: string;
}

/** The states of the two sides of a comparison. */
export interface DiffStates {
  from: ContextState;
  to: ContextState;
}

/** Token counts of the two sides of a comparison. */
export interface DiffTokens {
  from: number;
  to: number;
}

/** `rpc.discover`. */
export interface DiscoverParams {
}

/** An OpenRPC document. */
export type DiscoverResult = { [member: string]: unknown };

/** Nothing to tell. */
export interface EmptyResult {
  /** Present when this answers a repeated `requestId`; then nothing was changed. */
  duplicate?: true;
}

/** What an error says to programs. Members beyond these depend on the kind. */
export interface ErrorData {
  /** Stable; the list may grow. */
  kind: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** With `invalidParams`. */
  errors?: FieldError[];
  /** With `contentModified`: the present one. */
  head?: string;
  /** With `sessionLocked`. */
  owner?: Owner;
  [member: string]: unknown;
}

/** The `error` of a reply. */
export interface ErrorObject {
  code: number;
  message: string;
  data: ErrorData;
}

/** A piece of a message's text. */
export interface Excerpt {
  /** Its place in the text, in UTF-16 units. */
  start: number;
  text: string;
}

/** `exit`. */
export interface ExitParams {
}

/** What an export wrote. */
export interface ExportResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  path: string;
  bytes: number;
  losses: Loss[];
  /** How many texts that look like secrets are masked in the file; absent where none was to be. */
  masked?: number;
}

/** The log was changed by a program that is not attached, while nobody could tell, or by `session/reload`: compare `head`. */
export interface ExternalChange {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "external";
}

/** What became of the facts of one kind. */
export interface FactTally {
  /** In the messages that go. */
  found: number;
  /** Of these still there, in the summary or in the messages that stay. */
  kept: number;
  /** The first of the others. */
  lost: string[];
}

/** One misfit of params. */
export interface FieldError {
  /** The path of wire names and list positions; empty for the params as a whole. */
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** How a path differs between two states. */
export interface FileChange {
  /** Relative to the root, with `/`. */
  path: string;
  /** Present where it is not UTF-8: it is percent-encoded then. */
  pathEncoding?: "percent";
  /** URI; present where the session has several roots. */
  root?: string;
  /** `type`: a file became a link or a folder, or the other way round; `mode`: only its permissions differ. */
  kind: "added" | "modified" | "deleted" | "type" | "mode";
  /** Absent where it is not there. */
  bytesFrom?: number;
  /** Absent where it is not there. */
  bytesTo?: number;
  binary: boolean;
}

/** A file or folder of one of the session's roots. */
export interface FilePath {
  /** Relative to the root, with `/`. */
  path: string;
  /** Present where it is not UTF-8: it is percent-encoded then. */
  pathEncoding?: "percent";
  /** URI; present where the session has several roots. */
  root?: string;
}

/** `files/didRestore`: files of the session were put back; once for each root that changed. */
export interface FilesDidRestore {
  sessionId: string;
  /** URI; present where the session has several roots. */
  root?: string;
  /** The first 200 that changed, relative to the root. */
  paths: string[];
  /** Present where one of `paths` is not UTF-8: all of them are percent-encoded then. */
  pathEncoding?: "percent";
  /** How many more changed. */
  more: number;
  before: string;
  after: string;
  cause: Cause;
}

/** `files/didSnapshot`: a snapshot of the session's files was taken. */
export interface FilesDidSnapshot {
  sessionId: string;
  snapshot: string;
  createdAt: string;
  checkpointUid?: string;
  label?: string;
  changed: number;
  /** How many paths it could not take in. */
  skipped: number;
  cause: Cause;
}

/** `files/diff`. */
export interface FilesDiffParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  /** URI of the root the path is below; needed only where the session has several. */
  root?: string;
  /** `percent`: paths are percent-encoded bytes. */
  pathEncoding?: "percent";
  from: FilesPoint;
  to: FilesPoint;
  /** Only this file, or what is below this folder. */
  path?: string;
}

/** How two states of the files differ, by path. */
export interface FilesDiffResult {
  changes: FileChange[];
  nextCursor?: string;
}

/** `files/list`. */
export interface FilesListParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
}

/** Snapshots, newest first. */
export interface FilesListResult {
  snapshots: FilesSnapshot[];
  nextCursor?: string;
}

/** One side of a comparison: a snapshot, that of a checkpoint, or (empty) the disk. */
export interface FilesPoint {
  snapshot?: string;
  /** The snapshot of this checkpoint. */
  checkpointUid?: string;
}

/** Why something could not be done with the files of a session: an error of the protocol, in short. */
export interface FilesProblem {
  kind: string;
  message: string;
  /** With `filesUnavailable`. */
  reason?: string;
}

/** `files/read`. */
export interface FilesReadParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** URI of the root the path is below; needed only where the session has several. */
  root?: string;
  /** `percent`: paths are percent-encoded bytes. */
  pathEncoding?: "percent";
  snapshot: string;
  path: string;
  /** The first byte. Default: 0. */
  offset?: number;
  /** Bytes at most. Default and most: 16 MiB. */
  length?: number;
}

/** A part of a file as a snapshot has it. */
export interface FilesReadResult {
  /** Base64; of a link where it points to. */
  content: string;
  /** Of the whole file. */
  bytes: number;
  /** Its kind and permissions as the system has them (`st_mode`): `0o100644` for a plain file, `0o120777` for a link. */
  mode: number;
}

/** `files/restore`. */
export interface FilesRestoreParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** URI of the root the path is below; needed only where the session has several. */
  root?: string;
  /** `percent`: paths are percent-encoded bytes. */
  pathEncoding?: "percent";
  to: FilesTarget;
  /** Only these; a folder means all below it. Default: everything. */
  paths?: string[];
  /** As in `context/revertTo`. */
  onConflict?: "refuse" | "keep" | "overwrite";
  /** Refuse with `contentModified` unless this is the session's newest snapshot. */
  expectedFiles?: string;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
}

/** What a restore of files did, or (dry run) would do. */
export interface FilesRestoreResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Absent where only the conversation went back. */
  files?: RestoredFiles;
  /** In a dry run with files: as in `files`. */
  changes?: FileChange[];
  /** In a dry run with files: as in `files`. */
  cursor?: string;
}

/** `files` of `session/open`. What is absent stays as it was. */
export interface FilesSettings {
  /** `checkpoint`: each checkpoint has a snapshot of the files; `turn`: each end of a turn, too; `off`: none is taken. */
  mode: "off" | "checkpoint" | "turn";
  /** URIs of the folders; an empty list: the session's workspace. Default: the workspace. */
  roots?: string[];
  /** Left out, in the syntax of `.gitignore`. Default: nothing more than the folder's own `.gitignore` files. */
  exclude?: string[];
  /** Taken in though they are ignored, in the same syntax. Default: nothing. */
  includeIgnored?: string[];
  /** Larger files are skipped, and left alone. Default: 10 MiB. */
  maxFileBytes?: number;
  /** With more files no snapshot is taken (`filesTooLarge`). Default: 200 000. */
  maxFiles?: number;
}

/** A state of the files that can be gone back to. */
export interface FilesSnapshot {
  snapshot: string;
  createdAt: string;
  /** The checkpoint it was taken for. */
  checkpointUid?: string;
  label?: string;
  /** Paths that differ from the snapshot before it. */
  changed: number;
}

/** `files/snapshot`. */
export interface FilesSnapshotParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  label?: string;
}

/** The snapshot that was taken. */
export interface FilesSnapshotResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  snapshot: string;
  /** Paths that differ from the snapshot before it. */
  changed: number;
  /** The first 1 000. */
  skipped: SkippedFile[];
  /** How many more there are. */
  moreSkipped?: number;
}

/** The snapshots of a session's files, and the settings under which they are taken. */
export interface FilesState {
  mode: "off" | "checkpoint" | "turn";
  /** URIs of the folders. */
  roots: string[];
  snapshots: number;
  /** What they take on disk, of all sessions below these roots. */
  bytes: number;
  exclude?: string[];
  includeIgnored?: string[];
  /** Absent while it is the default, as the others. */
  maxFileBytes?: number;
  maxFiles?: number;
  /** Why no snapshot can be taken at present. */
  problem?: FilesProblem;
}

/** What is gone back to: a snapshot, or that of a checkpoint. */
export interface FilesTarget {
  snapshot?: string;
  /** The snapshot of this checkpoint. */
  checkpointUid?: string;
}

/** `context/fold`. */
export interface FoldParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Where the range begins. */
  from: LogPlace;
  /** Where it ends: the message there stays. */
  to: LogPlace;
  /** Put nothing in its place. Default: false. */
  drop?: boolean;
  /** Refuse a range that would part a tool call from its result, instead of widening it. Default: false. */
  strict?: boolean;
  /** Say what would happen, and change nothing; the summariser is asked all the same. Default: false. */
  dryRun?: boolean;
  /** What the summary should pay attention to. */
  customInstruction?: string;
  /** Default: `auto`. */
  summarizer?: "auto" | "client" | "server" | "builtin";
  /** A summary the caller has made; nobody else is asked then. */
  summary?: string;
  /** Strings that the summary must have in it, beside the session's (`context/setPins`): what it lacks is added to it. */
  pins?: string[];
}

/** What a fold did, or (dry run) would do. */
export interface FoldResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  compacted: boolean;
  /** Why not, where `compacted` is false. */
  reason?: string;
  /** The timeline the log before it became. */
  timelineId?: string;
  summary?: string;
  removedMessages: number;
  preservedMessages: number;
  /** Pending tokens included. */
  tokenCountBefore: number;
  tokenCountAfter: number;
  /** After it. */
  context: ContextSummary;
  /** Who made the summary. */
  summarizer?: "caller" | "client" | "server" | "builtin";
  /** Absent where no summary was made. */
  scorecard?: Scorecard;
  /** Absent where there are no pins. */
  pins?: PinsReport;
  /** The range as it was taken: widened where it would have parted a tool call from its result. */
  folded: FoldedRange;
}

/** A summary, or nothing, took the place of a range of messages. */
export interface Folded {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "folded";
  folded: FoldedRange;
}

/** The messages that were folded, by their indexes before that; `to` stays. */
export interface FoldedRange {
  from: number;
  to: number;
  /** How many they were. */
  messages: number;
}

/** The function a model wants to be called, and with what. */
export interface FunctionCall {
  name: string;
  /** JSON text, as the model produced it. */
  arguments?: string | null;
}

/** `context/getHistory`. A range, a checkpoint or a cursor; without any, the whole history. With `format` the answer is no page but the body of a request to a model's provider, which is whole or refused: `cursor`, `limit`, `order` and `include` do not go with it, and what is larger than `maxBytes` is `tooLarge`. */
export interface GetHistoryParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  /** First message index. Default: 0. */
  from?: number;
  /** The index after the last. Default: the end. */
  to?: number;
  /** The messages between this checkpoint and the next. */
  checkpointUid?: string;
  /** Default: `asc`, oldest first. */
  order?: "asc" | "desc";
  /** End the page before it is larger; at least one message comes. Default: 4 MiB. With `format` the most bytes the body may have as compact JSON; default and most: 32 MiB. */
  maxBytes?: number;
  /** Of this timeline instead of the live log. */
  timelineId?: string;
  /** Answer with `body`: the messages as OpenAI's Chat Completions or Anthropic's Messages API takes them. */
  format?: "openai" | "anthropic";
  /** `opaque`: opaque records stand among the messages, as `{line, record}`, in the order of the log. A page may then have fewer entries than `limit`, or none, and still have a next one; its cursor goes on with them. */
  include?: "opaque"[];
}

/** A page of the history; or, with `format`, the body of a request. */
export interface GetHistoryResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  /** Empty with `format`. With `include` some of them are a `LogRecord`: an opaque record as it was sent, and its line. */
  messages: HistoryMessage[];
  nextCursor?: string;
  format?: "openai" | "anthropic";
  /** `messages`, for Anthropic also `system`; model, tools and limits are the caller's to add. */
  body?: { [member: string]: unknown };
  /** At most 1,000, by message. */
  losses?: BodyLoss[];
  /** How many there are. */
  lossCount?: number;
}

/** `context/getRecords`. */
export interface GetRecordsParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** First line. Default: 0. */
  from?: number;
  /** The line after the last. Default: the end. */
  to?: number;
  /** Only records of these roles; a page may then be empty, and still have a next one. */
  roles?: string[];
  /** `nextCursor` of the page before; `from` counts no more then. */
  cursor?: string;
  limit?: number;
  /** Of this timeline instead of the live log. */
  timelineId?: string;
}

/** Lines of the log, control records included. */
export interface GetRecordsResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  records: LogRecord[];
  /** `from` of the next page. */
  next?: number;
  /** The same as a cursor: it is refused once the log was rewritten. */
  nextCursor?: string;
}

/** Only the head. */
export interface HeadResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
}

/** A message of a history page. */
export interface HistoryMessage {
  index: number;
  message: Message;
  meta?: MessageMeta;
}

/** A step that was undone or redone. */
export interface HistoryStep {
  kind: "revert" | "clear" | "compact" | "fold" | "restore" | "dmail";
  /** The timeline that it brought back; absent for an empty log. */
  timelineId?: string;
}

/** An image. */
export interface ImagePart {
  type: "image_url";
  image_url: MediaUrl;
}

/** The new session, open. */
export interface ImportResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  sessionId: string;
  title: string | null;
  path: string;
  /** URI. */
  workspace?: string;
  /** The conversation of another program that it belongs to. With a `path` it is that program's read-only mirror. */
  source?: Source;
  archived: boolean;
  access: "owner" | "attached" | "readOnly";
  context: ContextSummary;
  budget: Budget;
  approval: Approval;
  dynamicSubagents: Subagent[];
  pendingDMail: PendingDMail | null;
  /** What no compaction may lose; absent where nothing is pinned. */
  pins?: string[];
  /** The snapshots of its files; absent where the server knows nothing of files. */
  files?: FilesState;
  warnings: StateWarning[];
  /** What was not carried over; a repeated request gets the same. */
  losses: Loss[];
}

/** A message and its place in the history. */
export interface IndexedMessage {
  index: number;
  message: Message;
}

/** What a client may set for its connection. Unknown members (`model_extra`) become a warning. */
export interface InitializationOptions {
  /** Directory of the store. */
  home?: string;
  /** Where the sessions are: `postgresql://...`, or a directory, which then is the home, too. */
  store?: string;
  /** The key that seals approvals in a database; one for all machines. */
  keyFile?: string;
  /** `disk` (default): a reply means synced. `os`: survives a kill, not a power loss. */
  durability?: "disk" | "os";
  /** Tokens. Default, and null: compaction is never suggested. */
  maxContextSize?: number;
  /** Default: 50000. */
  reservedContextSize?: number;
  /** Default: 0.85. */
  triggerRatio?: number;
  /** Default: 2. */
  maxPreservedMessages?: number;
  retention?: Retention;
  trash?: TrashOptions;
  agents?: AgentsOptions;
  summarizer?: SummarizerOptions;
  /** Names of notifications that are not to be sent on this connection. */
  optOutNotifications?: string[];
  /** `ask`: this connection can ask for approvals, but neither decide what was asked nor switch approvals on or off. Default: it can do both. */
  approvals?: "ask";
  /** On a connection to an owner's socket: the token of the owner record. */
  token?: string;
  [member: string]: unknown;
}

/** `initialize`: LSP's params, all optional. */
export interface InitializeParams {
  /** The server exits when this process ends; one that it cannot see, as of another container, is not waited for. */
  processId?: number;
  clientInfo?: ClientInfo;
  capabilities?: ClientCapabilities;
  initializationOptions?: InitializationOptions;
  trace?: "off" | "messages" | "verbose";
  [member: string]: unknown;
}

/** What the server is and can. */
export interface InitializeResult {
  capabilities: ServerCapabilities;
  serverInfo: ServerInfo;
}

/** `initialized`. */
export interface InitializedParams {
}

/** Whether an action may run unasked, and why. */
export interface IsApprovedResult {
  approved: boolean;
  reason: "yolo" | "autoApprove" | "notApproved";
}

/** Limits of what is kept of agents' own files. */
export interface KeepOptions {
  /** On the disk, of all sessions together. Beyond it generations that have ended go, oldest first; the last one of a file that is gone goes last. Default: no limit. */
  maxBytes?: number;
  /** Paths, or patterns with `*`, of agents' files and of folders that their sessions are about: nothing is kept of these. */
  exclude?: string[];
}

/** Bytes that are kept of a program's file. */
export interface KeptBytes {
  /** Number of bytes of all generations together. */
  bytes: number;
  generations: number;
  /** The program's file is not there any more. */
  fileGone: boolean;
  /** When the program's own clean-up will remove it, unless it is written to; absent where its settings say nothing of it. */
  goesAt?: string;
}

/** The bytes of a program's file from its beginning, or from a change of what was read, up to the next such change. */
export interface KeptGeneration {
  /** Its number, from 1. */
  generation: number;
  bytes: number;
  /** Digest of the bytes, in hexadecimal digits. */
  sha256: string;
  firstSeen: string;
  lastSeen: string;
  /** Why no more is added to it: the file says something else in the same place, was cut, is another one, or is not there any more. Absent: it grows. */
  ended?: "rewritten" | "truncated" | "replaced" | "gone";
}

/** A session that stays in the trash. */
export interface KeptSession {
  sessionId: string;
  deletedAt: string;
  reason: string;
}

/** A timeline that was asked for and stays. */
export interface KeptTimeline {
  timelineId: string;
  /** `fork`: a fork refers to one of its checkpoints. */
  reason: "fork";
}

/** What the server takes at most. */
export interface Limits {
  maxFrameBytes: number;
  maxMessageBytes: number;
  maxDepth: number;
  maxInFlight: number;
  maxPage: number;
}

/** `context/listCheckpoints`. */
export interface ListCheckpointsParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  /** Default: `desc`, newest first. */
  order?: "asc" | "desc";
  /** Of this timeline instead of the live log. */
  timelineId?: string;
}

/** Checkpoints. */
export interface ListCheckpointsResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  checkpoints: Checkpoint[];
  nextCursor?: string;
}

/** `context/listTimelines`. */
export interface ListTimelinesParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
}

/** Timelines, newest first. */
export interface ListTimelinesResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  timelines: Timeline[];
  nextCursor?: string;
}

/** `context/listUsage`. */
export interface ListUsageParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
}

/** The trail of token counts, oldest first. */
export interface ListUsageResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  usage: Usage[];
  nextCursor?: string;
}

/** A place between two messages of the present log. */
export interface LogPlace {
  /** The place before this message; the number of messages is the end. */
  messageIndex?: number;
  /** The place of this checkpoint. */
  checkpointUid?: string;
}

/** A line of the log. */
export interface LogRecord {
  /** 0-based in the file, blank lines counted. */
  line: number;
  record: { [member: string]: unknown };
}

/** `$/logTrace`. */
export interface LogTraceParams {
  message: string;
  verbose?: string;
}

/** Something an export or import could not carry over. */
export interface Loss {
  kind: string;
  message: string;
}

/** A program's file that is not there any more. */
export interface LostFile {
  /** Id of the mirror. */
  sessionId: string;
  path: string;
}

/** A message that matches a search. */
export interface Match {
  index: number;
  /** Absent for the live log. */
  timelineId?: string;
  /** Start and end of each match, in UTF-16 units of the message's text. */
  ranges: ([number, number])[];
  /** Present where the message has more than the 1000 ranges that are listed. */
  moreRanges?: boolean;
  /** The text around the first range. */
  excerpt?: Excerpt;
}

/** Where the data of a media part is: a URL, often a `data:` one. */
export interface MediaUrl {
  url: string;
  id?: string | null;
}

/** What a merge did, or (dry run) would do. */
export interface MergeResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** The one before the summary. */
  checkpoint: Checkpoint;
  /** Index of the message with the summary. */
  firstIndex: number;
  from: MergedFrom;
  summary: string;
  /** Who made the summary. */
  summarizer?: "caller" | "client" | "server" | "builtin";
  scorecard?: Scorecard;
  /** Absent where neither session has pins. */
  pins?: PinsReport;
}

/** A summary of another session was appended, behind a checkpoint. */
export interface Merged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "merged";
  checkpoint: Checkpoint;
  firstIndex: number;
  from: MergedFrom;
  /** The span that begins with the checkpoint. */
  span?: ChangedSpan;
}

/** Where a summary was merged from. */
export interface MergedFrom {
  sessionId: string;
  /** The head that session had. */
  head: string;
  /** How many messages were summed up. */
  messages: number;
}

/** One message of the conversation. Members beyond these are kept, and so is the order of all. */
export interface Message {
  /** `user`, `assistant`, `tool`, `system` or another one; never beginning with `_`. */
  role: string;
  /** Text, or parts. */
  content?: string | (TextPart | ThinkPart | ImagePart | AudioPart | VideoPart | OtherPart)[] | null;
  name?: string | null;
  /** The calls an assistant's message asks for. */
  tool_calls?: ToolCall[] | null;
  /** In a tool's message: the call it answers. */
  tool_call_id?: string | null;
  /** Whether the message is still being written. */
  partial?: boolean | null;
  [member: string]: unknown;
}

/** What is known about a message beside itself. */
export interface MessageMeta {
  /** Of the request that appended it. */
  requestId?: string;
  /** The same for all messages that were appended as one step. */
  batchId?: string;
  /** The session that left this note, with `context/sendDMail`. */
  fromSessionId?: string;
}

/** Messages came. */
export interface MessagesAppended {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "messagesAppended";
  firstIndex: number;
  count: number;
  /** The span they are in; absent where there is no checkpoint before them. */
  span?: ChangedSpan;
}

/** What a method takes. */
export interface MethodCapability {
  params: string[];
}

/** A sound. */
export interface NewAudioPart {
  type: "audio_url";
  audio_url: NewMediaUrl;
}

/** A checkpoint to be written before what follows it, as one step with it. */
export interface NewCheckpoint {
  checkpoint: NewCheckpointLabel;
}

/** How the checkpoint is called. */
export interface NewCheckpointLabel {
  label?: string;
}

/** The function a model wants to be called, and with what. */
export interface NewFunctionCall {
  name: string;
  /** JSON text, as the model produced it. */
  arguments?: string;
}

/** An image. */
export interface NewImagePart {
  type: "image_url";
  image_url: NewMediaUrl;
}

/** A message to be appended, an opaque record, a checkpoint or a token count. */
export type NewItem = NewMessage | NewRecord | NewCheckpoint | NewTokenCount;

/** Where the data of a media part is: a URL, often a `data:` one. */
export interface NewMediaUrl {
  url: string;
  id?: string;
}

/** A message to be appended. What is unset is best left out: a null is stored as it is sent. Members beyond these are kept, and so is the order of all. */
export interface NewMessage {
  /** `user`, `assistant`, `tool`, `system` or another one; never beginning with `_`. */
  role: string;
  /** Text, or parts. */
  content?: string | (TextPart | NewThinkPart | NewImagePart | NewAudioPart | NewVideoPart | OtherPart)[];
  name?: string;
  /** The calls an assistant's message asks for. */
  tool_calls?: NewToolCall[];
  /** In a tool's message: the call it answers. */
  tool_call_id?: string;
  /** Whether the message is still being written. */
  partial?: boolean;
  [member: string]: unknown;
}

/** An opaque record to be appended. */
export interface NewRecord {
  record: OpaqueRecord;
}

/** What a new session belongs to in another program. */
export interface NewSource {
  /** The kind of program. */
  kind: string;
  /** Its key of the conversation. */
  key: string;
}

/** What the model thought before it answered. */
export interface NewThinkPart {
  type: "think";
  think: string;
  /** The provider's signature or opaque form of the thought. */
  encrypted?: string;
}

/** The input tokens the model reported, to be noted as one step with what is appended. */
export interface NewTokenCount {
  tokenCount: number;
}

/** One call a model asks for. */
export interface NewToolCall {
  id: string;
  type?: "function";
  function: NewFunctionCall;
}

/** A video. */
export interface NewVideoPart {
  type: "video_url";
  video_url: NewMediaUrl;
}

/** A record of a client's own, which is kept byte for byte and is no part of the history. */
export interface OpaqueRecord {
  /** `_` and a name; not `_checkpoint` or `_usage`. */
  role: string;
  /** Empty if there is none. */
  content: string;
}

/** A part of a type this version does not know; it is kept as it is. */
export interface OtherPart {
  type: string;
  [member: string]: unknown;
}

/** The process that writes to a session. */
export interface Owner {
  pid: number;
  host: string;
  since: string;
}

/** Where a forked session came from. */
export interface Parent {
  sessionId: string;
  /** Absent when the whole history was taken. */
  checkpointUid?: string;
}

/** A note to an earlier self that waits for delivery. */
export interface PendingDMail {
  checkpointId: number;
  checkpointUid: string;
  message: string;
  /** The session it came from, if not from this one. */
  fromSessionId?: string;
}

/** Other strings are pinned. */
export interface PinsChanged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "pinsChanged";
  pins: string[];
}

/** What became of the pins. */
export interface PinsReport {
  /** How many the summary had in it by itself. */
  kept: number;
  /** Those that were put behind it, word for word. */
  added: string[];
}

/** `context/prepareCompaction`. */
export interface PrepareCompactionParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  maxPreservedMessages?: number;
  customInstruction?: string;
}

/** What a summariser would be asked. */
export interface PrepareCompactionResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  systemPrompt: string;
  /** Null when there is nothing to compact. */
  prompt: Message | null;
  /** Index of the first message that would stay; 0 when there is nothing to compact. */
  preservedFrom: number;
}

/** A record that is not part of history, or that only this program can read; or a damaged file beside the log. */
export interface Problem {
  kind: string;
  message: string;
  /** The damaged file beside the log; `line` and `offset` are 0 then. */
  file?: string;
  line: number;
  offset: number;
  bytes: number;
}

/** `$/progress`: how far the work of a request with a `workDoneToken` has come. */
export interface ProgressParams {
  token: string | number;
  value: WorkDoneBegin | WorkDoneReport | WorkDoneEnd;
}

/** A quarantine file that was removed, or would be. */
export interface PrunedFile {
  file: string;
  bytes: number;
}

/** A timeline that was removed, or would be. */
export interface PrunedTimeline {
  timelineId: string;
  bytes: number;
}

/** A session that is gone for good, or (dry run) would be. */
export interface PurgedSession {
  sessionId: string;
  deletedAt: string;
  bytes: number;
  /** Present where it could not be told which snapshots of files were the session's: some may be there still. */
  filesRemain?: true;
}

/** Bytes that were cut from a file, and why. */
export interface Quarantined {
  /** Where they are kept, relative to the session's directory. */
  file: string;
  offset: number;
  bytes: number;
  reason: string;
}

/** A secret was taken out of the log or its timelines. Messages keep their indexes; what was read of them before is not what they say now. */
export interface Redacted {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "redacted";
  /** Changed in all files together. */
  records: number;
  occurrences: number;
  /** After it. */
  context: ContextSummary;
}

/** A file that held what was looked for. */
export interface RedactedFile {
  /** Relative to the session's directory. */
  file: string;
  /** The directory in the store's trash, where the file is one of an earlier session of this id. */
  trash?: string;
  kind: "log" | "timeline" | "quarantine" | "other";
  /** Lines it stood in; of a file that is one JSON document: 1. */
  records: number;
  occurrences: number;
  /** In a dry run: the first 100. */
  places?: RedactedPlace[];
  /** Present where the file has another name besides, out of the session's reach: what has that name keeps the old bytes. */
  linked?: boolean;
}

/** A record that holds what is to be taken out. */
export interface RedactedPlace {
  /** Of the file, from 0. */
  line: number;
  /** Of the message, where the record is one of history. */
  index?: number;
  occurrences: number;
}

/** A snapshot of files that held what was looked for. */
export interface RedactedSnapshot {
  snapshot: string;
  /** The folder whose files it has. */
  root: string;
}

/** `context/redo`. */
export interface RedoParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
  /** What goes back. Default: `conversation`; `both`: all of it or nothing. */
  restore?: "conversation" | "files" | "both";
  /** What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`. */
  onConflict?: "refuse" | "keep" | "overwrite";
  /** How many, as one step. Default: 1. */
  steps?: number;
}

/** What was undone is done again. */
export interface Redone {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "redone";
}

/** How much a change of the log took away; negative where it brought something back. */
export interface Removed {
  messages: number;
  checkpoints: number;
  tokens: number;
}

/** What a repair did, or would do. */
export interface RepairResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** The log as it was; absent where nothing was changed. */
  timelineId?: string;
  removedLines: number;
  problems: Problem[];
}

/** `context/replaceMessage`. */
export interface ReplaceMessageParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** What goes back. Default: `conversation`; `both`: all of it or nothing. */
  restore?: "conversation" | "files" | "both";
  /** What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`. */
  onConflict?: "refuse" | "keep" | "overwrite";
  /** The message that goes, with all after it. */
  messageIndex: number;
  /** The message that takes its place. */
  message: NewMessage;
  /** Go back further where the log would stand in the middle of a tool exchange: to before its calls. Default: false. */
  heal?: boolean;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
}

/** What replacing a message did, or (dry run) would do. */
export interface ReplaceMessageResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Absent where only the conversation went back. */
  files?: RestoredFiles;
  /** In a dry run with files: as in `files`. */
  changes?: FileChange[];
  /** In a dry run with files: as in `files`. */
  cursor?: string;
  /** The timeline that has the log before it; absent in a dry run, and where that log was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  /** Present when a revert went into the middle of a tool exchange. */
  toolExchange?: ToolExchange;
  /** Index of the new message. */
  firstIndex: number;
}

/** `context/restoreTimeline`. */
export interface RestoreTimelineParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
  /** What goes back. Default: `conversation`; `both`: all of it or nothing. */
  restore?: "conversation" | "files" | "both";
  /** What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`. */
  onConflict?: "refuse" | "keep" | "overwrite";
  timelineId: string;
}

/** What a restore did to the files, or (dry run) would do; counts are of paths. */
export interface RestoredFiles {
  /** The snapshot of what was there: going back to it undoes the restore. Absent in a dry run. */
  before?: string;
  /** The snapshot of what is there now; in a dry run the one that would be gone back to. */
  after: string;
  added: number;
  modified: number;
  deleted: number;
  /** Conflicts that were left as they are (`keep`). */
  kept: number;
  /** Paths that were changed by somebody else since. */
  conflicts: number;
  /** In a dry run: the first 200 of these. */
  conflictPaths?: FilePath[];
  /** In a dry run: the first 200 changes, from what is on disk to what would be there. */
  changes?: FileChange[];
  /** In a dry run: where `files/diff`, from `{}` to the snapshot `after`, goes on behind `changes`. */
  cursor?: string;
}

/** A command that has the agent's program go on. */
export interface ResumeCommand {
  command: string;
  args: string[];
  /** The folder to run it in. */
  cwd?: string;
}

/** How many timelines a session keeps. The newest one is always kept. */
export interface Retention {
  /** Default: 50. */
  maxTimelines?: number;
  /** Default: 2 GiB. */
  maxTimelineBytes?: number;
}

/** `context/revertTo`. */
export interface RevertToParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
  /** What goes back. Default: `conversation`; `both`: all of it or nothing. */
  restore?: "conversation" | "files" | "both";
  /** What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`. */
  onConflict?: "refuse" | "keep" | "overwrite";
  /** The checkpoint that goes, with all after it; this, `checkpointUid` or `messageIndex`. */
  checkpointId?: number;
  /** The same, by uid. */
  checkpointUid?: string;
  /** The message that goes, with all after it. */
  messageIndex?: number;
  /** Go back further where the log would end with tool calls that have no result: to before them. Default: false. */
  heal?: boolean;
}

/** The log went back to before a checkpoint, or a message. */
export interface Reverted {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "reverted";
  checkpointId?: number;
  checkpointUid?: string;
  /** In the place of the checkpoint, where it went back to before a message. */
  messageIndex?: number;
}

/** What a change of the whole log did, or (dry run) would do. */
export interface RewriteResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Absent where only the conversation went back. */
  files?: RestoredFiles;
  /** In a dry run with files: as in `files`. */
  changes?: FileChange[];
  /** In a dry run with files: as in `files`. */
  cursor?: string;
  /** The timeline that has the log before it; absent in a dry run, and where that log was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  /** Present when a revert went into the middle of a tool exchange. */
  toolExchange?: ToolExchange;
}

/** What a compaction keeps and what it loses, as far as it can be told by looking for words. */
export interface Scorecard {
  /** Files. */
  paths: FactTally;
  /** Names in code. */
  identifiers: FactTally;
  /** Error messages. */
  errors: FactTally;
  /** What the agent said was left to do. */
  todos: FactTally;
  /** The user's demands. */
  constraints: FactTally;
}

/** `context/search`. */
export interface SearchParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  /** What is looked for; with `regex` a regular expression in RE2's syntax. */
  query: string;
  /** Whether `query` is a regular expression. Default: false. */
  regex?: boolean;
  /** Whether `a` is `A`. Default: false. */
  ignoreCase?: boolean;
  /** Whether to search timelines too. Default: true. */
  timelines?: boolean;
  /** Leave out of a timeline the messages that a log searched before begins with too. Default: false. */
  distinct?: boolean;
  /** Whether each match shows the text around its first range. Default: false. */
  excerpts?: boolean;
}

/** Matches in one session. */
export interface SearchResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  matches: Match[];
  nextCursor?: string;
  /** What of this page's part was damaged or could not be read. */
  unread?: Unread[];
}

/** A rule by which secrets were found. */
export interface SecretRule {
  rule: string;
  /** Different ones. */
  values: number;
}

/** `context/sendDMail`. To a checkpoint of the session itself, or to another session: there to a checkpoint, where it waits to be delivered, or without one as a note at the end of the log, which the other session reads next. */
export interface SendDMailParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** The checkpoint whose self gets the note; this or `checkpointUid`, or neither for a note to another session. */
  checkpointId?: number;
  /** The same, by uid. */
  checkpointUid?: string;
  /** The note. */
  message: string;
  /** The session that gets it, open or not; a checkpoint is one of that session then. Default: the session itself. */
  toSessionId?: string;
  /** The same by its directory; this or `toSessionId`. */
  toPath?: string;
  /** Where the note comes from, if not from the session itself: `sessionId` gets it as from that session. */
  fromSessionId?: string;
}

/** The D-Mail that now waits, in the session it was sent to. */
export interface SendDMailResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Null where it arrived as a note. */
  pendingDMail: PendingDMail | null;
  /** Of the note's message, where `sessionId` got it as from another session. */
  index?: number;
  /** Present where it went to another session; `head` is the sender's. */
  to?: DMailArrival;
}

/** LSP's server capabilities; ours stand under `experimental`. */
export interface ServerCapabilities {
  experimental: ServerExperimental;
  [member: string]: unknown;
}

/** `capabilities.experimental` of the server. */
export interface ServerExperimental {
  timeleap: ServerTimeleap;
}

/** Who answers. */
export interface ServerInfo {
  name: "timeleap";
  version: string;
}

/** What this server speaks: `capabilities.experimental.timeleap`. */
export interface ServerTimeleap {
  protocolVersion: 1;
  methods: { [member: string]: MethodCapability };
  notifications: string[];
  clientRequests: string[];
  limits: Limits;
  /** Whether approvals can be asked for (`approval/*`). */
  approvals?: true;
  /** Where the sessions lie. */
  store?: StoreCapability;
  /** What was wrong with the settings, in words. */
  warnings?: string[];
}

/** `session/archive`. */
export interface SessionArchiveParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
}

/** `session/close`. */
export interface SessionCloseParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
}

/** `session/delete`. */
export interface SessionDeleteParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
}

/** `session/didChange`: something about a session other than its log changed. */
export type SessionDidChange = ApprovalChanged | SubagentsChanged | TitleChanged | WorkspaceChanged | Archived | Unarchived | Deleted | DMailChanged | PinsChanged | AccessChanged;

/** `session/didRecover`: opening a session found damage and mended it. */
export interface SessionDidRecover {
  sessionId: string;
  quarantined: Quarantined[];
  /** Bytes of an unfinished record or batch that were cut from the end of the log. */
  cutBytes: number;
}

/** `session/export`. The session need not be open, and may be live elsewhere: it is only read. */
export interface SessionExportParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `native`: a ZIP archive with the log, all timelines and their checksums, for `session/import`. For people: `markdown`, the conversation; `html`, a page with the timelines in it. */
  format: string;
  /** Absolute path of the file to write, outside of the store; readable by the user only, and there whole or not at all. */
  path: string;
  /** Replace a file that is there. Default: false, and such a `path` is refused. */
  overwrite?: boolean;
  /** Of `native`: take the snapshots of the session's files along. Default: false. */
  withFiles?: boolean;
  /** Leave what looks like a secret as it is, in `markdown` and `html`. Default: false, and `[secret]` stands in its place. `native` holds the session's very bytes, and refuses false. */
  keepSecrets?: boolean;
}

/** `session/fork`. `expectedHead` is the head of the session that is copied. */
export interface SessionForkParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** History up to and including this checkpoint; all of it if none is given. */
  checkpointId?: number;
  /** The same, by uid. */
  checkpointUid?: string;
  /** Of this timeline instead of the present log. */
  timelineId?: string;
  /** Generated if absent. */
  newSessionId?: string;
  title?: string;
}

/** `session/getState`. */
export interface SessionGetStateParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
}

/** `session/import`. The new session has a uid of its own, and its approvals are off. */
export interface SessionImportParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** Absolute path of the file to read; of a session's directory with `kimi` and `kimi-code`. With `opencode`, of its database, and behind that the session's id, which no file has. */
  path: string;
  /** `native`: what `session/export` wrote; `kimi`: a log or a directory of the original program; `claude-code`, `codex`, `kimi-code`, `opencode`, `pi`: sessions of those programs. Recognised from the content if absent. */
  format?: string;
  /** Generated if absent. */
  sessionId?: string;
  /** URIs of the folders that the snapshots in an archive belong to, in its order; they become `files.roots` of the session. Nothing in them is changed. Without them the snapshots are left out. */
  folders?: string[];
  /** Makes the request safe to retry. */
  requestId?: string;
}

/** A session in a list. */
export interface SessionInfo {
  sessionId: string;
  title: string | null;
  path: string;
  /** URI. */
  workspace?: string;
  createdAt: string;
  updatedAt: string;
  archived: boolean;
  messageCount: number;
  tokenCount: number;
  /** With an estimate of what came since the last count; absent where that is not known without reading the log. */
  tokenCountWithPending?: number;
  parent?: Parent;
  source?: Source;
  owner?: Owner;
  /** Why its files cannot be read; absent where they can. */
  damaged?: string;
}

/** `session/isApproved`. */
export interface SessionIsApprovedParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  action: string;
}

/** `session/latest`. */
export interface SessionLatestParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** Only sessions of this workspace (URI). */
  workspace?: string;
}

/** The session that was changed last. */
export interface SessionLatestResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  /** Null where there is none. */
  session: SessionInfo | null;
}

/** `session/listAudit`. */
export interface SessionListAuditParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
}

/** Entries of the audit, newest first. */
export interface SessionListAuditResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  entries: AuditEntry[];
  nextCursor?: string;
  /** What of the audit cannot be shown, since its file is damaged. */
  warnings?: StateWarning[];
}

/** `session/list`. */
export interface SessionListParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  /** Default: false. */
  includeArchived?: boolean;
  /** Looked for in title and id. */
  query?: string;
  /** Only sessions of this workspace (URI). */
  workspace?: string;
  /** Only sessions of this program. */
  source?: SourceFilter;
  /** Only the sub-agents that work for this session, of another program. */
  parent?: string;
  /** Default: false: sessions of other programs' sub-agents are left out. */
  includeSubagents?: boolean;
}

/** Sessions, newest change first. */
export interface SessionListResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  sessions: SessionInfo[];
  nextCursor?: string;
}

/** `session/listTrash`. */
export interface SessionListTrashParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
}

/** A message that matches a search over the store. */
export interface SessionMatch {
  index: number;
  /** Absent for the live log. */
  timelineId?: string;
  /** Start and end of each match, in UTF-16 units of the message's text. */
  ranges: ([number, number])[];
  /** Present where the message has more than the 1000 ranges that are listed. */
  moreRanges?: boolean;
  /** The text around the first range. */
  excerpt?: Excerpt;
  sessionId: string;
}

/** `session/merge`. */
export interface SessionMergeParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** The session whose messages are summed up; it stays as it is. */
  from: string;
  /** Where in that session to begin. Default: where it was forked off, or else its beginning. */
  since?: LogPlace;
  /** A summary the caller has made; nobody else is asked then. */
  summary?: string;
  /** Default: `auto`. */
  summarizer?: "auto" | "client" | "server" | "builtin";
  /** What the summary should pay attention to. */
  customInstruction?: string;
  /** Say what would happen, and change nothing; the summariser is asked all the same. Default: false. */
  dryRun?: boolean;
}

/** `session/open`. */
export interface SessionOpenParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** Generated if absent. */
  sessionId?: string;
  /** Absolute path of an existing session directory, the original program's included. */
  path?: string;
  /** Whether an unknown `sessionId` makes a new session. Default: true. */
  create?: boolean;
  /** Default: `write`; `readOnly` for a `path` outside the store. */
  access?: "write" | "readOnly";
  /** Whether to go through the owner when another process owns the session. Default: true. */
  attach?: boolean;
  /** Used on creation only. */
  title?: string;
  /** Used on creation only. */
  systemPrompt?: string;
  /** URI; used on creation only. */
  workspace?: string;
  /** Used on creation only; a fork does not inherit it. */
  source?: NewSource;
  /** `turn`: a checkpoint before each user message that starts a turn; `step`: before each assistant message, too. Stays until set otherwise. */
  autoCheckpoint?: "off" | "turn" | "step";
  /** Which files the session keeps snapshots of, and when. Stays until set otherwise; at first none. */
  files?: FilesSettings;
  /** Makes the creation safe to retry. */
  requestId?: string;
}

/** `session/prune`. Without a selection: what is beyond the limits of the configuration. */
export interface SessionPruneParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would go, and change nothing. Default: false. */
  dryRun?: boolean;
  /** Keep only so many, the newest. */
  maxTimelines?: number;
  /** Keep only so many bytes of timelines, but always the newest. */
  maxTimelineBytes?: number;
  /** Remove those set aside before this time, but never the newest. ISO-8601 with its offset from UTC. */
  olderThan?: string;
  /** Remove these, the newest or not. */
  timelineIds?: string[];
  /** Also remove what recovery kept of torn records. Default: false. */
  quarantine?: boolean;
}

/** What was removed for good, or (dry run) would be. */
export interface SessionPruneResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  removed: PrunedTimeline[];
  kept: KeptTimeline[];
  quarantine: PrunedFile[];
  freedBytes: number;
}

/** `session/purge`. Only what is in the trash goes, and nothing brings it back. */
export interface SessionPurgeParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The sessions of this id in the trash; this or `olderThan`. */
  sessionId?: string;
  /** Of these only the one that was deleted then, as `session/listTrash` says it. */
  deletedAt?: string;
  /** What was deleted so many seconds ago or earlier; 0 is everything. */
  olderThan?: number;
  /** Say what would go, and change nothing. Default: false. */
  dryRun?: boolean;
  /** Makes the request safe to retry. */
  requestId?: string;
}

/** What is gone for good, or (dry run) would be. */
export interface SessionPurgeResult {
  /** A repeated request gets at most the first 1000. */
  purged: PurgedSession[];
  /** Of all together. */
  bytes: number;
  /** With `olderThan`: what stays although it is old enough, since another process is using it. */
  kept?: KeptSession[];
  /** Present when this answers a repeated `requestId`; then nothing was changed. */
  duplicate?: boolean;
}

/** `session/putSubagent`. */
export interface SessionPutSubagentParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** A sub-agent of this name is replaced. */
  name: string;
  systemPrompt: string;
}

/** `session/redact`. What is taken out is gone for good: no timeline keeps it, and nothing brings it back. */
export interface SessionRedactParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Take out this text, however JSON spells it, JSON within strings included. */
  value?: string;
  /** Take out what this regular expression, in RE2's syntax, matches. */
  pattern?: string;
  /** If true: take out what looks like a key, a token or a password, wherever it stands. Needs the extra `timeleap[redact]`. */
  secrets?: boolean;
  /** What stands in its place. Default: `[redacted]`; where that would hold it, `***` or nothing. */
  replacement?: string;
  /** Say where it stands, and change nothing. Default: false. */
  dryRun?: boolean;
  /** Of the session of that id in the trash that was deleted then, as `session/listTrash` says it; else of the live one. */
  deletedAt?: string;
  /** Also look (only look) into all other sessions of the store: `alsoIn`. Default: false. */
  store?: boolean;
}

/** What was taken out, or (dry run) would be; never what it was. */
export interface SessionRedactResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Whether anything was taken out, or would be. */
  redacted: boolean;
  /** Of all files together. */
  records: number;
  occurrences: number;
  /** Places where it stands and stays, since they give a record its form: roles, names of members, numbers of ours. */
  kept: number;
  /** Of the occurrences, those that were split over text parts of a message, none of which held it whole. */
  split: number;
  /** At most 1000, the live log first. */
  files: RedactedFile[];
  /** With `secrets`: what kinds of them there are. */
  rules?: SecretRule[];
  /** Snapshots of the session's files that held it, in a file, a path or the label, and are gone, or (dry run) would be; with `store` those of other sessions, too. Files on disk are left as they are. At most 1000. */
  snapshots?: RedactedSnapshot[];
  /** Why the snapshots could not be looked through: they may hold it. */
  snapshotsUnread?: string;
  /** With `store`: the ids of other sessions that hold it, those in the trash included. */
  alsoIn?: string[];
  /** Files of the other program that still hold it, where the session is a mirror. They are never changed here; as long as they hold it, a rewriting of them by their program brings it back. */
  untouched?: string[];
  context: ContextSummary;
}

/** `session/reload`. */
export interface SessionReloadParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
}

/** `session/removeSubagent`. */
export interface SessionRemoveSubagentParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  name: string;
}

/** `session/repair`. A repeat finds nothing left to repair. */
export interface SessionRepairParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Only say what would be left out. Default: false. */
  dryRun?: boolean;
}

/** `session/search`. */
export interface SessionSearchParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  /** What is looked for; with `regex` a regular expression in RE2's syntax. */
  query: string;
  /** Whether `query` is a regular expression. Default: false. */
  regex?: boolean;
  /** Whether `a` is `A`. Default: false. */
  ignoreCase?: boolean;
  /** Whether to search timelines too. Default: true. */
  timelines?: boolean;
  /** Leave out of a timeline the messages that a log searched before begins with too. Default: false. */
  distinct?: boolean;
  /** Whether each match shows the text around its first range. Default: false. */
  excerpts?: boolean;
}

/** Matches over the store. */
export interface SessionSearchResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  matches: SessionMatch[];
  nextCursor?: string;
  /** What of this page's part was damaged or could not be read. */
  unread?: SessionUnread[];
}

/** `session/setAfk`. */
export interface SessionSetAfkParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Nobody is there: what needs a person is rejected at once. */
  afk: boolean;
}

/** `session/setAutoApprove`. */
export interface SessionSetAutoApproveParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  action: string;
  enabled: boolean;
}

/** `session/setTitle`. */
export interface SessionSetTitleParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  title: string;
}

/** `session/setWorkspace`. */
export interface SessionSetWorkspaceParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** URI of the folder the session is about; null: of none. It is kept and compared in one form, whichever way it is spelled (`protocol/folder-uris.json`). */
  workspace: string | null;
}

/** `session/setYolo`. */
export interface SessionSetYoloParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  yolo: boolean;
}

/** Everything about one session but its messages. */
export interface SessionState {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  sessionId: string;
  title: string | null;
  path: string;
  /** URI. */
  workspace?: string;
  /** The conversation of another program that it belongs to. With a `path` it is that program's read-only mirror. */
  source?: Source;
  archived: boolean;
  access: "owner" | "attached" | "readOnly";
  context: ContextSummary;
  budget: Budget;
  approval: Approval;
  dynamicSubagents: Subagent[];
  pendingDMail: PendingDMail | null;
  /** What no compaction may lose; absent where nothing is pinned. */
  pins?: string[];
  /** The snapshots of its files; absent where the server knows nothing of files. */
  files?: FilesState;
  warnings: StateWarning[];
}

/** What a session takes on disk. */
export interface SessionStorage {
  sessionId: string;
  /** Present for sessions in the trash. */
  deletedAt?: string;
  /** All of it; the members below are parts. */
  bytes: number;
  logBytes: number;
  timelineBytes: number;
  timelineCount: number;
  /** Derived: it can be made again. */
  indexBytes: number;
  quarantineBytes: number;
  otherBytes: number;
  /** The largest first, at most 1000; only where one session was asked for. */
  files?: StoredFile[];
}

/** `session/storage`. */
export interface SessionStorageParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The most entries to return. */
  limit?: number;
  /** Only this session, with its files; without it all sessions of the store. */
  sessionId?: string;
}

/** What takes space, largest first. */
export interface SessionStorageResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  totalBytes: number;
  /** Of that, sessions in the trash. */
  trashBytes: number;
  /** Of that, snapshots of the files of all sessions; absent where there are none, and where one session was asked for. */
  filesBytes?: number;
  sessions: SessionStorage[];
  nextCursor?: string;
}

/** `session/unarchive`. */
export interface SessionUnarchiveParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
}

/** `session/undelete`. */
export interface SessionUndeleteParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
}

/** What a search over the store could not look at, and why. */
export interface SessionUnread {
  /** Absent for the live log. */
  timelineId?: string;
  message: string;
  sessionId: string;
}

/** `session/verify`. */
export interface SessionVerifyParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
}

/** `session/warning`: something worth knowing that stops nothing. */
export interface SessionWarning {
  sessionId: string;
  kind: string;
  message: string;
}

/** `context/setPins`. */
export interface SetPinsParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** All of them; they take the place of those set before. */
  pins: string[];
}

/** The pins now in force. */
export interface SetPinsResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  pins: string[];
}

/** `context/setSystemPrompt`. */
export interface SetSystemPromptParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  systemPrompt: string;
}

/** `$/setTrace`. */
export interface SetTraceParams {
  value: "off" | "messages" | "verbose";
}

/** `shutdown`. */
export interface ShutdownParams {
}

/** What a snapshot could not take in; a restore leaves it alone. */
export interface SkippedFile {
  /** Relative to the root, with `/`. */
  path: string;
  /** Present where it is not UTF-8: it is percent-encoded then. */
  pathEncoding?: "percent";
  /** URI; present where the session has several roots. */
  root?: string;
  /** `tooLarge`, `special` (a pipe, socket or device), `unreadable` or `changing`; the list may grow. */
  reason: string;
}

/** What a session belongs to in another program. */
export interface Source {
  /** The kind of program. */
  kind: string;
  /** Its key of the conversation. */
  key: string;
  /** Of a mirror, which is read-only: the program's own file. */
  path?: string;
  /** Of a mirror: a process follows the program's file at the moment. */
  live?: boolean;
  /** Bytes that are kept of the program's file, for a mirror in a list; absent where there are none. */
  kept?: KeptBytes;
}

/** Of which program, and of which of its conversations. */
export interface SourceFilter {
  kind: string;
  key?: string;
}

/** What happened between a checkpoint and the next one, or the end. Of a very long span only the beginning is read: `messages` and `tokens` are of all of it. */
export interface SpanSummary {
  /** `prompt`: a person said something; `calls`: tools were called; `text`: the agent said something; `compacted`: it begins with the summary of a compaction; `dmail`: with a note of a later self, or of another session; `empty`: nothing was said. */
  kind: "prompt" | "calls" | "text" | "compacted" | "dmail" | "empty";
  /** In words, on one line, without marks of Markdown: the prompt or the note; else the calls; else the text. */
  text: string;
  /** The first 20; absent where there are none. */
  calls?: SummaryCall[];
  /** How many there are beside them. */
  moreCalls?: number;
  /** The first 20 paths that calls were given, each once. */
  files?: string[];
  /** Results that say that their call failed; absent where there are none. */
  errors?: number;
  messages: number;
  /** By how much the token count grew; absent where none was reported in it. */
  tokens?: number;
}

/** Something worth knowing that stops nothing. Members beyond these depend on the kind. */
export interface StateWarning {
  kind: string;
  message: string;
  [member: string]: unknown;
}

/** Where a server keeps its sessions, and the methods that this cannot do (they fail with `notSupportedByStore`). */
export interface StoreCapability {
  kind: "directory" | "postgresql";
  unsupported: string[];
  /** Why, in words, by method. */
  reasons?: { [member: string]: string } | null;
}

/** A file of a session. */
export interface StoredFile {
  /** Relative to the session's directory. */
  file: string;
  kind: "log" | "timeline" | "index" | "quarantine" | "other";
  bytes: number;
}

/** A sub-agent defined at run time. */
export interface Subagent {
  name: string;
  systemPrompt: string;
}

/** A sub-agent was defined, changed or removed. */
export interface SubagentsChanged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "subagentsChanged";
  dynamicSubagents?: Subagent[];
}

/** The sub-agents after a change. */
export interface SubagentsResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  dynamicSubagents: Subagent[];
}

/** `context/summarize`, sent to a client that declared it can. */
export interface SummarizeParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  sessionId: string;
  /** What the model is told it is. */
  systemPrompt: string;
  /** The one message to summarise. */
  prompt: Message;
  customInstruction?: string;
}

/** A client's summary. */
export interface SummarizeResult {
  summary: string;
  usage?: SummarizeUsage;
}

/** What a summary cost, in tokens. */
export interface SummarizeUsage {
  input: number;
  output: number;
}

/** An OpenAI-compatible endpoint for summaries. */
export interface SummarizerOptions {
  baseUrl?: string;
  model?: string;
  /** A file, so that the key stands in no configuration and no process list. */
  apiKeyFile?: string;
  /** Tokens its model takes. A longer conversation is summarised in parts. Default: found out by asking. */
  contextSize?: number;
  /** Seconds that a summariser, also the client's, may take for one answer. Default: 300. */
  timeout?: number;
}

/** A tool call, in short. */
export interface SummaryCall {
  name: string;
  /** The telling one of its arguments: a path, a command, a query; at most 200 characters, on one line. */
  argument?: string;
  /** Present, and true, where its result says so. */
  failed?: boolean;
}

/** Another system prompt is in force. */
export interface SystemPromptSet {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "systemPromptSet";
}

/** Text. */
export interface TextPart {
  type: "text";
  text: string;
}

/** What the model thought before it answered. */
export interface ThinkPart {
  type: "think";
  think: string;
  /** The provider's signature or opaque form of the thought. */
  encrypted?: string | null;
}

/** An earlier log of the session, set aside whole. */
export interface Timeline {
  timelineId: string;
  /** Its file's name within the session's directory. */
  file: string;
  /** What set it aside. */
  reason: "revert" | "clear" | "compact" | "fold" | "restore" | "dmail" | "import" | "external" | "unknown";
  /** When it was set aside; absent where nobody noted it. */
  createdAt?: string;
  bytes: number;
  messageCount: number;
  checkpointCount: number;
}

/** A timeline became the live log again. */
export interface TimelineRestored {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "timelineRestored";
}

/** The session has another title. */
export interface TitleChanged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "titleChanged";
  title?: string;
}

/** The model reported its usage. */
export interface TokenCountUpdated {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "tokenCountUpdated";
  tokenCount: number;
  /** The span whose growth it tells; absent where there is no checkpoint before it. */
  span?: ChangedSpan;
}

/** One call a model asks for. */
export interface ToolCall {
  id: string;
  type?: "function";
  function: FunctionCall;
}

/** Tool calls without their results, at the end of what a revert kept: models refuse such a history. */
export interface ToolExchange {
  /** Of the message that makes the calls; where healed, of the first message that went for it. */
  index: number;
  /** Ids of the calls without a result. */
  openCalls: string[];
  /** Whether the log was cut back to before them. */
  healed: boolean;
}

/** Sessions in the trash, newest first. */
export interface TrashListResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  sessions: TrashedSession[];
  nextCursor?: string;
}

/** How long deleted sessions can be brought back. */
export interface TrashOptions {
  /** Seconds after which a deleted session is removed for good, at start and every hour. Default: never. */
  maxAge?: number;
}

/** A session in the trash. */
export interface TrashedSession {
  sessionId: string;
  title: string | null;
  path: string;
  /** URI. */
  workspace?: string;
  createdAt: string;
  updatedAt: string;
  archived: boolean;
  messageCount: number;
  tokenCount: number;
  /** With an estimate of what came since the last count; absent where that is not known without reading the log. */
  tokenCountWithPending?: number;
  parent?: Parent;
  source?: Source;
  owner?: Owner;
  /** Why its files cannot be read; absent where they can. */
  damaged?: string;
  deletedAt: string;
}

/** The session is no longer archived. */
export interface Unarchived {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "unarchived";
}

/** `context/undo`. */
export interface UndoParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** Say what would happen, and change nothing. Default: false. */
  dryRun?: boolean;
  /** What goes back. Default: `conversation`; `both`: all of it or nothing. */
  restore?: "conversation" | "files" | "both";
  /** What to do where a file was changed by somebody else since: `refuse` (`filesConflict`, nothing is changed), `keep` that file as it is, or `overwrite` it. Default: `refuse`. */
  onConflict?: "refuse" | "keep" | "overwrite";
  /** How many, as one step. Default: 1. */
  steps?: number;
}

/** What undo or redo did, or (dry run) would do. */
export interface UndoResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  /** Absent where only the conversation went back. */
  files?: RestoredFiles;
  /** In a dry run with files: as in `files`. */
  changes?: FileChange[];
  /** In a dry run with files: as in `files`. */
  cursor?: string;
  /** The timeline that has the log before it; absent in a dry run, and where that log was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  /** Present when a revert went into the middle of a tool exchange. */
  toolExchange?: ToolExchange;
  /** In the order in which they were undone or redone. */
  steps: HistoryStep[];
  canUndo: number;
  canRedo: number;
}

/** The log is again what it was before the last rewrites. */
export interface Undone {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  /** The timeline that has the log before it; absent where that was empty. */
  timelineId?: string;
  removed: Removed;
  /** After it. */
  context: ContextSummary;
  kind: "undone";
}

/** What a search could not look at, and why. */
export interface Unread {
  /** Absent for the live log. */
  timelineId?: string;
  message: string;
}

/** `context/updateTokenCount`. */
export interface UpdateTokenCountParams {
  /** Room for extensions; carries no meaning in this protocol. */
  _meta?: { [member: string]: unknown };
  /** Asks for `$/progress` under this token. */
  workDoneToken?: string | number;
  /** Accepted for LSP's sake; results always come whole. */
  partialResultToken?: string | number;
  /** The session. */
  sessionId: string;
  /** Refuse with `contentModified` unless this is the present head. */
  expectedHead?: string;
  /** Makes the request safe to retry: a repeat changes nothing and gets the stored result. */
  requestId?: string;
  /** The input tokens the model reported. */
  tokenCount: number;
}

/** The token count now in force. */
export interface UpdateTokenCountResult {
  /** The log's head after the request. */
  head: string;
  /** Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one. */
  duplicate?: true;
  tokenCount: number;
}

/** One entry of the trail of token counts. */
export interface Usage {
  /** Messages before it. */
  index: number;
  tokenCount: number;
}

/** What a look at every record found. */
export interface VerifyResult {
  /** It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did. Only with `timeleap_read=standby` in the store's URL. */
  stale?: true;
  /** Whether there is no problem. */
  ok: boolean;
  lines: number;
  bytes: number;
  problems: Problem[];
  warnings: StateWarning[];
}

/** A video. */
export interface VideoPart {
  type: "video_url";
  video_url: MediaUrl;
}

/** Work has begun. */
export interface WorkDoneBegin {
  kind: "begin";
  title: string;
  cancellable?: boolean;
  message?: string;
  percentage?: number;
}

/** Work has ended. */
export interface WorkDoneEnd {
  kind: "end";
  message?: string;
}

/** Work goes on. */
export interface WorkDoneReport {
  kind: "report";
  cancellable?: boolean;
  message?: string;
  percentage?: number;
}

/** The session is about another folder. */
export interface WorkspaceChanged {
  sessionId: string;
  /** The same as in the reply to the request that caused it. */
  head: string;
  cause: Cause;
  kind: "workspaceChanged";
  workspace: string | null;
}
