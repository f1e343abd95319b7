#!/usr/bin/env bash
# A shell pipeline that keeps its conversation in Timeleap: bash, jq and one JSON object per line, nothing else.
#
#   examples/pipeline.sh                                   a session of its own, in a temporary store
#   TIMELEAP_HOME=~/my-store examples/pipeline.sh          in a store that stays
#
# It appends what a little "agent" says, sets a checkpoint, goes on, goes back to the checkpoint, and undoes that.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TIMELEAP_HOME=${TIMELEAP_HOME:-$work/store}

# The server reads requests from one pipe and writes replies and notifications to another.
mkfifo "$work/requests" "$work/replies"
timeleap serve <"$work/requests" >"$work/replies" &
exec 3>"$work/requests" 4<"$work/replies"

# call METHOD [PARAMS]: send one request and leave its result in $result. Notifications come before the reply.
number=0
call() {
    number=$((number + 1))
    jq -cn --argjson id "$number" --arg method "$1" --argjson params "${2:-null}" \
        '{jsonrpc: "2.0", $id, $method, $params}' >&3
    local line
    while IFS= read -r line <&4; do
        if jq -e --argjson id "$number" '.id == $id' <<<"$line" >/dev/null; then
            jq -e 'has("result")' <<<"$line" >/dev/null || { jq .error <<<"$line" >&2; return 1; }
            result=$(jq -c .result <<<"$line")
            return
        fi
        jq -r '"   (\(.method): \(.params.kind // ""))"' <<<"$line"
    done
    echo "the server went away" >&2
    return 1
}

show() {
    call context/getHistory "$(jq -cn --arg sessionId "$session" '{$sessionId}')"
    jq -r '.messages[] | "   \(.index) \(.message.role): \(.message.content)"' <<<"$result"
}

say() { # say ROLE TEXT
    call context/appendMessage "$(jq -cn --arg sessionId "$session" --arg role "$1" --arg content "$2" \
        '{$sessionId, message: {$role, $content}}')"
}

call initialize '{"clientInfo": {"name": "pipeline.sh"}}'
printf '{"jsonrpc":"2.0","method":"initialized","params":{}}\n' >&3
jq -r '"Speaking to \(.serverInfo.name) \(.serverInfo.version)"' <<<"$result"

call session/open '{"title": "Counting files"}'
session=$(jq -r .sessionId <<<"$result")
echo "Session $session"

say user "How many files are there in each folder?"
say assistant "I will count them one by one."

call context/checkpoint "$(jq -cn --arg sessionId "$session" '{$sessionId, label: "before counting"}')"
uid=$(jq -r .checkpoint.uid <<<"$result")

for folder in src tests docs; do
    say tool "$folder: $((${#folder} * 7)) files"
done
echo "The conversation:"
show

call context/revertTo "$(jq -cn --arg sessionId "$session" --arg checkpointUid "$uid" '{$sessionId, $checkpointUid}')"
timeline=$(jq -r .timelineId <<<"$result")
jq -r '"Reverted: \(.removed.messages) messages were set aside in timeline \(.timelineId)"' <<<"$result"
show

call context/restoreTimeline "$(jq -cn --arg sessionId "$session" --arg timelineId "$timeline" '{$sessionId, $timelineId}')"
jq -r '"Restored: \(.context.messageCount) messages again"' <<<"$result"

call shutdown
printf '{"jsonrpc":"2.0","method":"exit"}\n' >&3
exec 3>&- 4<&-
wait "$!"
