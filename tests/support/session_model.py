"""What a session should be, said as plainly as it can be: lists and dicts, no code of the product.

A line of the log is `{"record": ..., "uid": ..., "label": ..., "marks": ...}`: the record without our marks, and what a
checkpoint is known by. A uid nobody can foretell is `None` until `Model.adopt` has seen it. `marks` stands for what else is
written into a record: two lines with the same record and the same marks have the same bytes.

Undo and redo are two stacks of states of the log, as the contract says; a state is the name of a timeline, or None for the
empty log.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

Json = dict[str, Any]

PREFACE = "<system>Previous context has been compacted. Here is the compaction output:</system>"
NOTE = "\0note:"
"""Begins the content of a message that is to contain what follows, in words of the product's own."""


APPENDING = ("append", "update_token_count", "set_system_prompt", "checkpoint", "take_note")
_numbers = itertools.count()


class RefusedError(Exception):
    """What is asked for cannot be done; the kind is the wire's."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Model:
    """One session.

    Attributes:
        lines: The live log.
        timelines: Earlier logs by id, oldest first: `{"reason", "lines"}`.
        rotation: The highest number a timeline ever had.
        written: Counts what changes the head.
        stacks_before: The stacks before steps were forgotten for the last time.
    """

    def __init__(self, max_timelines: int) -> None:
        self.max_timelines = max_timelines
        self.lines: list[Json] = []
        self.timelines: dict[str, Json] = {}
        self.rotation = 0
        self.written = 0
        self.fork_points: list[str] = []
        self.undo_stack: list[Json] = []
        self.redo_stack: list[Json] = []
        self.stacks_before: tuple[list[Json], list[Json]] = ([], [])
        self.state: Json = {
            "title": None,
            "archived": False,
            "subagents": {},
            "pins": [],
            "dmail": None,
            "yolo": False,
            "actions": [],
            "auto": "off",
            "workspace": None,
        }

    def do(self, name: str, args: Json, request_id: str | None = None) -> Json:
        """Carry an operation out; returns what has to be in its result. Raises RefusedError and changes nothing."""
        doing: Callable[..., Json] = getattr(self, name)
        first = len(self.lines)
        result = doing(**args)
        if name in APPENDING:
            self.redo_stack = []
            batch = next(_numbers) if len(self.lines) - first > 1 else None
            for at, one in enumerate(self.lines[first:]):
                one["marks"] = (one["marks"], batch, request_id if at == 0 else None)
        return result

    # What is appended

    def append(self, messages: list[Json]) -> Json:
        before, first = len(self.messages()), len(self.lines)
        for message in messages:
            last = self.messages()[-1:]
            starts_turn = message["role"] == "user" and [m["role"] for m in last] != ["user"]
            if (self.state["auto"] != "off" and starts_turn) or (
                self.state["auto"] == "step" and message["role"] == "assistant"
            ):
                self._add_checkpoint(" ".join(" ".join(texts(message)).split()) or None)
            self._add(message)
        self.written += len(self.lines) > first
        return {
            "first_index": before,
            "message_count": len(self.messages()),
            "token_count_with_pending": self.tokens()[1],
        }

    def update_token_count(self, token_count: int) -> Json:
        self._add({"role": "_usage", "token_count": token_count})
        self.written += 1
        return {"token_count": token_count}

    def set_system_prompt(self, system_prompt: str) -> Json:
        self._add({"role": "_system_prompt", "content": system_prompt})
        self.written += 1
        return {}

    def checkpoint(self, label: str | None, add_user_message: bool) -> Json:
        number, count, tokens = self.next_id(), len(self.messages()), self.tokens()[0]
        self._add_checkpoint(label)
        text = f"<system>CHECKPOINT {number}</system>"
        if add_user_message:
            self._add({"role": "user", "content": text})
        self.written += 1
        made: Json = {"id": number, "label": label, "message_count": count, "token_count": tokens, "kept": {}}
        return {"checkpoint": {**made, "preview": text if add_user_message else None}}

    def take_note(self, message: str, sender: str) -> Json:
        """From another session; with a checkpoint of its own, by which one gets rid of it."""
        before = len(self.messages())
        self._add_checkpoint(f"D-Mail from {sender}")
        self._add({"role": "user", "content": NOTE + message})
        self.written += 1
        return {"index": before}

    # What puts another log in the place of the present one

    def revert(
        self, id: int | None = None, uid: str | None = None, message_index: int | None = None, heal: bool = False
    ) -> Json:
        if message_index is not None:
            messages = [at for at, one in enumerate(self.lines) if is_message(one)]
            if message_index >= len(messages):
                raise RefusedError("invalidParams")
            line = messages[message_index]
        else:
            line = self.find(id, uid)
        exchange = self._open_exchange(self.messages(self.lines[:line]))
        if exchange is not None and heal:
            while (earlier := self._open_exchange(self.messages()[: exchange["index"]])) is not None:
                exchange = {**exchange, "index": earlier["index"]}
            exchange["healed"] = True
            line = [at for at, one in enumerate(self.lines) if is_message(one)][exchange["index"]]
        return {**self._rewrite("revert", cut(self.lines, line)), "exchange": exchange}

    def undo(self, steps: int) -> Json:
        return self._go(steps, self.undo_stack, self.redo_stack, "nothingToUndo")

    def redo(self, steps: int) -> Json:
        return self._go(steps, self.redo_stack, self.undo_stack, "nothingToRedo")

    def _go(self, steps: int, source: list[Json], target: list[Json], refusal: str) -> Json:
        """`steps` times: the present state on one stack, the top of the other one in its place."""
        if steps > len(source):
            raise RefusedError(refusal)
        taken = source[-steps:][::-1]
        before, present = list(self.lines), self._kept_as(self.lines)
        there = [
            before,
            *([] if one["timeline"] is None else self.timelines[one["timeline"]]["lines"] for one in taken),
        ]
        del source[-steps:]
        result = self._rewrite("restore", there[-1], step=False)
        state = result["timeline_id"] if present == "" else present
        for step, earlier, later in zip(taken, there, there[1:], strict=False):
            if not same_bytes(earlier, later):
                target.append({"kind": step["kind"], "timeline": state})
            state = step["timeline"]
        self._forget_steps()
        said = [{"kind": one["kind"], "timeline_id": one["timeline"]} for one in taken]
        return {**result, "steps": said}

    def clear(self, keep_system_prompt: bool) -> Json:
        return self._rewrite("clear", self._prompt_line() if keep_system_prompt else [])

    def compact(self, summary: str, max_preserved: int) -> Json:
        """With the summary as it is to stand in the log."""
        messages, before = self.messages(), self.tokens()[1]
        cut = self.preserved_from(max_preserved)
        made = {"role": "user", "content": [text_part(PREFACE), text_part(summary)]}
        after = (characters(made) + sum(characters(one) for one in messages[cut:])) // 4
        if cut <= 0 or after > before:
            return {"compacted": False, "timeline_id": None}
        lines = [*self._prompt_line(), checkpoint_line(0, "compacted"), line_of(made)]
        lines += [line_of(one) for one in messages[cut:]]
        done = self._rewrite("compact", [*lines, line_of({"role": "_usage", "token_count": after})])
        return {
            "compacted": True,
            "removed_messages": cut,
            "preserved_messages": len(messages) - cut,
            "token_count_before": before,
            "token_count_after": after,
            "timeline_id": done["timeline_id"],
        }

    def restore_timeline(self, timeline_id: str) -> Json:
        if timeline_id not in self.timelines:
            raise RefusedError("timelineNotFound")
        return self._rewrite("restore", self.timelines[timeline_id]["lines"])

    def deliver_dmail(self) -> Json:
        dmail = self.state["dmail"]
        if dmail is None:
            raise RefusedError("noPendingDMail")
        kept = cut(self.lines, self.find(None, dmail["uid"]))
        number = next_id(kept)
        added = [
            checkpoint_line(number, "D-Mail"),
            line_of({"role": "user", "content": NOTE + dmail["message"]}),
        ]
        return {**self._rewrite("dmail", [*kept, *added]), "checkpoint": {"id": number, "label": "D-Mail"}}

    # What stands beside the log

    def send_dmail(self, message: str, id: int | None = None, uid: str | None = None) -> Json:
        line = self.lines[self.find(id, uid)]
        if self.state["dmail"] is not None:
            raise RefusedError("dmailPending")
        self.state["dmail"] = {"id": line["record"]["id"], "uid": line["uid"], "message": message}
        made = {"checkpoint_id": line["record"]["id"], "checkpoint_uid": line["uid"], "message": message}
        return {"pending_dmail": made}

    def cancel_dmail(self) -> Json:
        if self.state["dmail"] is None:
            raise RefusedError("noPendingDMail")
        self.state["dmail"] = None
        return {"pending_dmail": None}

    def set_pins(self, pins: list[str]) -> Json:
        self.state["pins"] = list(dict.fromkeys(pins))
        return {"pins": self.state["pins"]}

    def set_title(self, title: str) -> Json:
        self.state["title"] = title
        return {}

    def archive(self) -> Json:
        self.state["archived"] = True
        return {}

    def unarchive(self) -> Json:
        self.state["archived"] = False
        return {}

    def put_subagent(self, name: str, system_prompt: str) -> Json:
        self.state["subagents"] = {**self.state["subagents"], name: system_prompt}
        return {"subagents": self._subagents()}

    def remove_subagent(self, name: str) -> Json:
        self.state["subagents"] = {one: text for one, text in self.state["subagents"].items() if one != name}
        return {"subagents": self._subagents()}

    def set_yolo(self, yolo: bool) -> Json:
        self.state["yolo"] = yolo
        return {"approval": {"yolo": yolo, "actions": self.state["actions"]}}

    def set_auto_approve(self, action: str, enabled: bool) -> Json:
        rest = [one for one in self.state["actions"] if one != action]
        self.state["actions"] = sorted([*rest, action] if enabled else rest)
        return {"approval": {"yolo": self.state["yolo"], "actions": self.state["actions"]}}

    def set_workspace(self, workspace: str | None) -> Json:
        self.state["workspace"] = workspace
        return {}

    def set_auto_checkpoint(self, setting: str) -> Json:
        self.state["auto"] = setting
        return {}

    def prune(self, timeline_ids: list[str] | None = None, keep: int | None = None) -> Json:
        """Named timelines; or all but the newest `keep`."""
        if any(name not in self.timelines for name in timeline_ids or ()):
            raise RefusedError("timelineNotFound")
        wanted = list(timeline_ids or ()) if keep is None else self._beyond(keep, ())
        going = [name for name in wanted if name not in self._referred_to()]
        for name in going:
            del self.timelines[name]
        self._forget_steps()
        return {"removed_ids": sorted(going)}

    def redact(self, text: str, replacement: str) -> Json:
        """Put something in the place of a text, wherever it stands; nothing is kept of what was there."""
        logs = [self.lines, *(one["lines"] for one in self.timelines.values())]
        holding = [many for one in (line for log in logs for line in log) if (many := occurrences(one, text))]
        self.written += bool(holding)
        if any(occurrences(one, text) for one in self.lines):
            self.redo_stack = []
        for lines in logs:
            lines[:] = [{**replaced(one, text, replacement), "uid": one["uid"], "marks": one["marks"]} for one in lines]
        # What runs without asking is known by its name: without that it is not approved any more.
        actions = [one for one in self.state["actions"] if text not in one]
        self.state = {**replaced(self.state, text, replacement), "actions": actions}
        return {"records_of_logs": len(holding), "occurrences_in_logs": sum(holding)}

    def reload(self) -> Json:
        self.written += 1
        return {}

    def append_by_another(self, messages: list[Json]) -> Json:
        """A program that knows nothing of turns."""
        self.lines += [{**line_of(one), "marks": "another program's"} for one in messages]
        self.written += 1
        self.redo_stack = []
        return {}

    # What it amounts to

    def messages(self, lines: Iterable[Json] | None = None) -> list[Json]:
        """The messages of some lines, or of the log."""
        return [one["record"] for one in (self.lines if lines is None else lines) if is_message(one)]

    def next_id(self) -> int:
        return next_id(self.lines)

    def tokens(self) -> tuple[int, int]:
        """The token count, without and with what is pending."""
        at = max((at for at, one in enumerate(self.lines) if role(one) == "_usage"), default=-1)
        count = self.lines[at]["record"]["token_count"] if at >= 0 else 0
        return count, count + sum(characters(one) for one in self.messages(self.lines[at + 1 :])) // 4

    def find(self, id: int | None, uid: str | None) -> int:
        """The line of a checkpoint."""
        for at, one in enumerate(self.lines):
            if role(one) == "_checkpoint" and (one["uid"] == uid if uid is not None else one["record"]["id"] == id):
                return at
        raise RefusedError("checkpointNotFound")

    def checkpoint_uids(self) -> list[str]:
        return [one["uid"] for one in self.lines if role(one) == "_checkpoint"]

    def shown(self) -> Json:
        """Everything a client can see of it."""
        count, pending = self.tokens()
        usage, checkpoints, messages = [], [], 0
        tokens = 0
        for one in self.lines:
            if role(one) == "_usage":
                tokens = one["record"]["token_count"]
                usage.append([messages, tokens])
            elif role(one) == "_checkpoint":
                following = self.messages()[messages : messages + 1]
                preview = "".join(texts(following[0]))[:120] or None if following else None
                about = {"id": one["record"]["id"], "uid": one["uid"], "label": one["label"], "preview": preview}
                checkpoints.append({**about, "message_count": messages, "token_count": tokens, "kept": {}})
            messages += is_message(one)
        prompt = self._prompt_line()
        return {
            "log": [written(one) for one in self.lines],
            "history": [json.dumps(one, ensure_ascii=False) for one in self.messages()],
            "checkpoints": checkpoints,
            "usage": usage,
            "counts": [messages, count, pending, self.next_id(), len(self.timelines)],
            "steps": [len(self.undo_stack), len(self.redo_stack)],
            "system_prompt": prompt[0]["record"]["content"] if prompt else None,
            "timelines": {
                name: [one["reason"], [written(line) for line in one["lines"]]] for name, one in self.timelines.items()
            },
            "state": {**self.state, "subagents": self._subagents()},
        }

    def adopt(self, log: list[Json], timelines: dict[str, list[Json]], used: set[str]) -> bool:
        """Take over from what is there what cannot be foretold.

        Returns:
            Whether this can be: False where there is another log than expected, or a new checkpoint has a uid of `used`.
        """
        mine = [(self.lines, log), *((self.timelines[name]["lines"], timelines[name]) for name in timelines)]
        return all(_adopt(lines, found, used) for lines, found in mine)

    def preserved_from(self, max_preserved: int) -> int:
        """Where a compaction begins to keep: as far back as wanted, further where a tool exchange would be torn."""
        messages = self.messages()
        counted = [at for at, one in enumerate(messages) if one["role"] in ("user", "assistant")]
        if len(counted) < max_preserved:
            return 0
        cut = counted[-max_preserved]
        while cut > 0 and self._tears(messages, cut):
            cut -= 1
        return cut

    # Its own

    def _rewrite(self, reason: str, lines: list[Json], step: bool = True) -> Json:
        """Put other lines in the place of the present ones.

        Args:
            reason: Why.
            lines: The others.
            step: Whether it can be undone; else it is undo or redo itself.
        """
        before, tokens = self.lines, self.tokens()[0]
        name = self._kept_as(before)
        if not same_bytes(before, lines):
            self.rotation += 1
            if name == "":
                name = self._newest()
                self.timelines[name] = {"reason": reason, "lines": before}
            if step:
                self.undo_stack.append({"kind": reason, "timeline": name})
                self.redo_stack = []
            self.lines = [dict(one) for one in lines]
            self.written += 1
        name = name or None
        dmail = self.state["dmail"]
        if dmail is not None and dmail["uid"] not in self.checkpoint_uids():
            self.state["dmail"] = None
        for going in self._beyond(self.max_timelines, self._referred_to(), self.lines, name):
            del self.timelines[going]
        if step:
            self._forget_steps()
        many = [sum(map(is_message, some)) for some in (before, self.lines)]
        points = [sum(role(one) == "_checkpoint" for one in some) for some in (before, self.lines)]
        removed = {"messages": many[0] - many[1], "checkpoints": points[0] - points[1]}
        return {"removed": {**removed, "tokens": tokens - self.tokens()[0]}, "timeline_id": name}

    def _kept_as(self, lines: list[Json]) -> str | None:
        """The timeline that has these lines already; None for an empty log, which needs none; "" where there is none."""
        if not lines:
            return None
        return next((name for name in reversed(self.timelines) if same_bytes(self.timelines[name]["lines"], lines)), "")

    def keep_after_all(self, timelines: Json) -> None:
        """The timelines that there are, where not all have gone yet that were to go: nor has what can be undone with them."""
        self.timelines = timelines
        self.undo_stack, self.redo_stack = map(list, self.stacks_before)
        self._forget_steps()

    def _forget_steps(self) -> None:
        """A timeline that is gone ends a stack."""
        self.stacks_before = list(self.undo_stack), list(self.redo_stack)
        for stack in (self.undo_stack, self.redo_stack):
            for at in range(len(stack), 0, -1):
                if stack[at - 1]["timeline"] not in (None, *self.timelines):
                    del stack[:at]
                    break

    def _newest(self) -> str:
        return f"context_{self.rotation}"

    def _beyond(
        self, limit: int, kept: Iterable[str], live: list[Json] | None = None, latest: str | None = None
    ) -> list[str]:
        """The timelines beyond a number of them, the newest, those that are `kept` and those equal to `live` aside. The
        `latest`, which has what was just replaced, counts as the newest."""
        going, count = [], 0
        counted: list[list[Json]] = [] if live is None else [live]
        names = [*([latest] if latest in self.timelines else []), *(n for n in reversed(self.timelines) if n != latest)]
        for position, name in enumerate(names):
            if any(same_bytes(self.timelines[name]["lines"], one) for one in counted):
                continue
            counted.append(self.timelines[name]["lines"])
            count += 1
            if count > limit and position > 0 and name not in kept:
                going.append(name)
                count -= 1
        return going

    def _referred_to(self) -> set[str]:
        """Of each fork's checkpoint the newest timeline that has it, where the log has not."""
        found = set()
        for uid in set(self.fork_points) - set(self.checkpoint_uids()):
            for name in reversed(self.timelines):
                if uid in [one["uid"] for one in self.timelines[name]["lines"]]:
                    found.add(name)
                    break
        return found

    def _add(self, record: Json) -> None:
        self.lines.append(line_of(record))

    def _add_checkpoint(self, label: str | None) -> None:
        self.lines.append(checkpoint_line(self.next_id(), label))

    def _prompt_line(self) -> list[Json]:
        return [line_of(one["record"]) for one in self.lines if role(one) == "_system_prompt"][-1:]

    def _subagents(self) -> list[Json]:
        return [{"name": name, "system_prompt": text} for name, text in self.state["subagents"].items()]

    def _open_exchange(self, messages: list[Json]) -> Json | None:
        """The calls of the last assistant message that have no result."""
        for index in range(len(messages) - 1, -1, -1):
            if messages[index]["role"] == "assistant":
                results = [one.get("tool_call_id") for one in messages[index + 1 :]]
                waiting = [one for one in calls(messages[index]) if one not in results]
                return {"index": index, "calls": waiting, "healed": False} if waiting else None
        return None

    def _tears(self, messages: list[Json], cut: int) -> bool:
        """Whether a result after the cut has its call before it; or the last assistant message, before it, waits."""
        for at in range(cut, len(messages)):
            answer = messages[at].get("tool_call_id")
            makers = [before for before in range(at) if answer in calls(messages[before])]
            if answer is not None and makers and makers[-1] < cut:
                return True
        running = self._open_exchange(messages)
        return running is not None and running["index"] < cut


def replaced(value: Any, text: str, replacement: str) -> Any:
    """Any value with another text in its strings, roles aside."""
    if isinstance(value, dict):
        return {name: one if name == "role" else replaced(one, text, replacement) for name, one in value.items()}
    if isinstance(value, list):
        return [replaced(one, text, replacement) for one in value]
    return value.replace(text, replacement) if isinstance(value, str) else value


def occurrences(line: Json, text: str) -> int:
    """How often a line has a text in its strings, its role and its uid aside."""

    def count(value: Any) -> int:
        if isinstance(value, dict):
            return sum(count(one) for name, one in value.items() if name not in ("role", "uid"))
        if isinstance(value, list):
            return sum(map(count, value))
        return value.count(text) if isinstance(value, str) else 0

    return count(line)


def line_of(record: Json, label: str | None = None) -> Json:
    return {"record": record, "uid": None, "label": label, "marks": None}


def checkpoint_line(number: int, label: str | None) -> Json:
    """No two checkpoints are alike: each has a uid, and a time."""
    return {**line_of({"role": "_checkpoint", "id": number}, label), "marks": f"checkpoint {next(_numbers)}"}


def same_bytes(lines: list[Json], others: list[Json]) -> bool:
    """Whether two logs have the same bytes."""
    return len(lines) == len(others) and all(
        _plain(one["marks"]) == _plain(other["marks"]) and json.dumps(one["record"]) == json.dumps(other["record"])
        for one, other in zip(lines, others, strict=True)
    )


def cut(lines: list[Json], at: int) -> list[Json]:
    """The first lines; a batch that is cut through loses its marks."""
    kept = [dict(one) for one in lines[:at]]
    batch = _plain(lines[at - 1]["marks"])[1] if 0 < at < len(lines) else None
    if batch is not None and _plain(lines[at]["marks"])[1] == batch:
        for one in kept:
            own, mine, request_id = _plain(one["marks"])
            one["marks"] = (own, None if mine == batch else mine, request_id)
    return kept


def _plain(marks: Any) -> tuple[Any, Any, Any]:
    """What a line is marked with itself, its batch, its request."""
    return marks if isinstance(marks, tuple) else (marks, None, None)


def role(line: Json) -> str:
    return str(line["record"]["role"])


def is_message(line: Json) -> bool:
    return not role(line).startswith("_")


def next_id(lines: list[Json]) -> int:
    ids = [one["record"]["id"] for one in lines if role(one) == "_checkpoint"]
    return ids[-1] + 1 if ids else 0


def texts(message: Json) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or () if part["type"] == "text"]


def characters(message: Json) -> int:
    return sum(map(len, texts(message)))


def calls(message: Json) -> list[str]:
    return [one["id"] for one in message.get("tool_calls", ())]


def text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def written(line: Json) -> list[Any]:
    return [json.dumps(line["record"], ensure_ascii=False), line["uid"], line["label"]]


def _adopt(lines: list[Json], log: list[Json], used: set[str]) -> bool:
    if len(log) != len(lines):
        return False
    for one, seen in zip(lines, log, strict=True):
        expected, found = one["record"], seen["record"]
        if str(expected.get("content")).startswith(NOTE) and _is_note(found, expected["content"][len(NOTE) :]):
            one["record"] = found
        elif json.dumps(expected) != json.dumps(found):
            return False
        if role(one) == "_checkpoint" and one["uid"] is None and seen["uid"] not in used:
            one["uid"] = seen["uid"]
        if (one["uid"], one["label"]) != (seen["uid"], seen["label"]):
            return False
    return True


def _is_note(found: Json, note: str) -> bool:
    text = found.get("content")
    if found.get("role") != "user" or not isinstance(text, str):
        return False
    return text.startswith("<system>") and text.endswith("</system>") and note.strip() in text
