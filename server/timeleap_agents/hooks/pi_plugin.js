// Written by `timeleap agents install pi`; `timeleap agents uninstall pi` takes it away.
// Tells Timeleap of prompts, of tools that may have written, and of the end of a turn and of a session. It never fails, and
// pi waits at prompts and ends only, for two seconds at most (ten at the first prompt of a session).
import { spawn } from "node:child_process"

const COMMAND = ["timeleap", "hook", "pi"]
const READS = new Set(["find", "grep", "ls", "read"])

function tell(event, context, tool) {
  return new Promise((resolve) => {
    try {
      const path = context.sessionManager.getSessionFile()
      if (!path) return resolve() // a session that pi keeps in no file
      const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "ignore", "ignore"] })
      child.on("error", resolve)
      child.on("close", resolve)
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify({ hook_event_name: event, transcript_path: path, cwd: context.cwd, tool_name: tool }))
    } catch {
      resolve()
    }
  })
}

export default function timeleap(pi) {
  pi.on("before_agent_start", async (event, context) => {
    if (event.messageType !== "custom") await tell("UserPromptSubmit", context)
  })
  pi.on("input", async (event, context) => {
    // What is typed while the agent works begins no run of its own.
    if (event.streamingBehavior && event.source !== "extension") await tell("UserPromptSubmit", context)
  })
  pi.on("tool_execution_end", (event, context) => {
    if (!READS.has(event.toolName)) void tell("PostToolUse", context, event.toolName)
  })
  pi.on("agent_settled", async (_event, context) => {
    await tell("Stop", context)
  })
  pi.on("session_shutdown", async (_event, context) => {
    await tell("SessionEnd", context)
  })
}
