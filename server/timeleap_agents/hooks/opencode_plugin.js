// Written by `timeleap agents install opencode`; `timeleap agents uninstall opencode` takes it away.
// Tells Timeleap of prompts, of tools that may have written, and of the end of a turn. It never fails, and opencode waits
// at prompts only, for two seconds at most (ten at the first one of a session).
import { spawn } from "node:child_process"
import { homedir } from "node:os"
import { isAbsolute, join } from "node:path"

const COMMAND = ["timeleap", "hook", "opencode"]
const READS = new Set([
  "codesearch", "glob", "grep", "list", "lsp", "plan_enter", "plan_exit", "question", "read", "skill", "task",
  "todoread", "todowrite", "webfetch", "websearch",
])

function database() {
  const folder = join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "opencode")
  const named = process.env.OPENCODE_DB
  if (!named) return join(folder, "opencode.db")
  return isAbsolute(named) ? named : join(folder, named)
}

function tell(event, session, cwd, tool) {
  return new Promise((resolve) => {
    try {
      const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "ignore", "ignore"] })
      child.on("error", resolve)
      child.on("close", resolve)
      child.stdin.on("error", () => {})
      const path = join(database(), session)
      child.stdin.end(JSON.stringify({ hook_event_name: event, transcript_path: path, cwd, tool_name: tool }))
    } catch {
      resolve()
    }
  })
}

export const Timeleap = async ({ client, directory }) => {
  const above = new Map() // of a sub-agent's session the one it works for
  const working = new Set()

  async function main(session) {
    for (let deep = 0; deep < 10; deep++) {
      if (!above.has(session)) {
        const found = await client.session.get({ path: { id: session } }).catch(() => undefined)
        above.set(session, found?.data?.parentID ?? null)
      }
      const parent = above.get(session)
      if (!parent) return session
      session = parent
    }
    return session
  }

  return {
    "chat.message": async (input) => {
      if ((await main(input.sessionID)) !== input.sessionID) return
      working.add(input.sessionID)
      await tell("UserPromptSubmit", input.sessionID, directory)
    },
    "tool.execute.after": async (input) => {
      if (!READS.has(input.tool)) void tell("PostToolUse", await main(input.sessionID), directory, input.tool)
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID
      const idle = event.type === "session.idle" || event.properties?.status?.type === "idle"
      if (idle && working.delete(session)) await tell("Stop", session, directory)
    },
  }
}
