#!/usr/bin/env bash
# One live session in three windows: an agent that writes, somebody who watches, and somebody who goes back meanwhile.
#
#   examples/two_windows.sh                                   in a temporary store
#   TIMELEAP_HOME=~/my-store examples/two_windows.sh          in a store that stays
#
# Each `timeleap` is a process of its own. The first one owns the session, the others go through it. Needs jq.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TIMELEAP_HOME=${TIMELEAP_HOME:-$work/store}
session=$(timeleap new --title "Counting files" --json | jq -r .sessionId)

# One window: what the agent says goes in as it is said, for as long as it runs.
mkfifo "$work/agent"
timeleap append "$session" <"$work/agent" >/dev/null &
agent=$!
exec 3>"$work/agent"
say() { jq -cn --arg content "$*" '{role: "assistant", $content}' >&3; }

messages() { timeleap show "$session" --json | jq -r '.message.content'; }
say "I count the files in src."
until messages | grep -q src; do sleep 0.2; done

# Another one: everything that happens, as it happens; for a pipe as JSON lines, on a terminal in words.
timeleap tail -f "$session" >"$work/seen" 2>"$work/hint" 3>&- &
watcher=$!
until grep -qs following "$work/hint"; do sleep 0.2; done
seen() { jq -r .params.kind "$work/seen" | grep -cx "$1" || true; }
until_seen() { until [ "$(seen "$1")" -ge "$2" ]; do sleep 0.2; done; }

# A third one acts on it: the requests take effect through the process of the agent.
timeleap checkpoint "$session" "before the detour" >/dev/null
say "No, I write a program that counts files."
until_seen messagesAppended 1
timeleap revert "$session" 0 --yes >/dev/null 2>&1
say "There are 21 files in src."
until_seen messagesAppended 2

exec 3>&- # the agent is done
wait "$agent"
kill "$watcher"
wait "$watcher" || true

echo "What the watcher saw:"
jq -r '.params | "   \(.kind)\(if .removed then ": \(.removed.messages) message went to \(.timelineId)" else "" end)"' "$work/seen"
echo "What is left:"
messages | sed 's/^/   /'
