"""Random histories of Codex: a rollout as that program writes it, and the log that its next resume would send."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.agent_file import PICTURE_URL
from tests.support.codex_file import CodexFile, message
from tests.support.said import said_apart

Said = tuple[str, str]
Op = tuple[str, Any]
SUMMARY = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also have "
    "access to the state of the tools that were used by that language model. Use this to build on the work that has "
    "already been done and avoid duplicating work. Here is the summary produced by the other language model, use the "
    "information in this summary to assist with your own analysis:"
)
CONTEXT = {"approval_policy": "never", "sandbox_policy": {"type": "danger-full-access"}, "summary": "auto"}


class CodexHistory:
    """A thread that grows by random steps.

    Attributes:
        file: The file.
        ops: What was done and not taken back: of kinds `said`, `note` and `compact`, in their order.
        left: What was sent before each rollback and compaction.
        made_up: Calls without results, to which the program makes some up.
    """

    def __init__(self, folder: Path, seed: int, workspace: str = "/shop") -> None:
        self.random = random.Random(seed)
        name = f"00000000-0000-4000-8000-{seed:012d}"
        self.file = CodexFile(folder, workspace, name=name)
        self.ops: list[Op] = []
        self.left: list[list[Said]] = []
        self.made_up: set[str] = set()
        self.first: str | None = None
        self._number = 0

    @property
    def log(self) -> list[Said]:
        """Pairs that are sent on resume: who, and the text, or the id of a call or of a result."""
        return sent(self.ops)

    def grow(self, steps: int) -> CodexHistory:
        """Do some random steps, the first of which is a turn."""
        self.turn()
        kinds = [
            self.turn, self.parallel, self.steered, self.compacts, self.rolls_back, self.interrupted, self.notes,
            self.shows_picture, self.edits_elsewhere, self.is_told, self.leaves_open, self.patches,
        ]  # fmt: skip
        for step in self.random.choices(kinds, weights=[4, 4, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1], k=steps):
            step()
        self.turn()
        return self

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def prompt(self, kind: str = "question") -> None:
        text = self._name(kind)
        self.first = self.first or text
        self.file.asks(text)
        self.file.event("user_message", message=text, images=[])
        self.ops.append(("said", ("user", text)))

    def answers(self) -> None:
        text = self._name("answer")
        self.file.event("agent_message", message=text)
        self.file.says(text)
        self.ops.append(("said", ("assistant", text)))

    @contextmanager
    def task(self, end: str = "task_complete") -> Iterator[None]:
        """What a turn, or a compaction, stands in."""
        turn = self._name("turn")
        self.file.event("task_started", turn_id=turn, model_context_window=None)
        self.file.write("turn_context", {"turn_id": turn, "cwd": self.file.workspace, "model": "fake", **CONTEXT})
        yield
        more = {"reason": "interrupted"} if end == "turn_aborted" else {"last_agent_message": None}
        self.file.event(end, turn_id=turn, **more)

    def turn(self) -> None:
        with self.task():
            self.prompt()
            self.answers()

    def parallel(self) -> None:
        """Several calls of one answer, and their results in another order."""
        with self.task():
            self._calls_at_once()

    def _calls_at_once(self) -> None:
        self.prompt()
        calls = [self._name("call").replace(" ", "_") for _ in range(self.random.randint(1, 4))]
        for call in calls:
            self.file.calls(call)
            self.ops.append(("said", ("call", call)))
        for call in self.random.sample(calls, len(calls)):
            self.file.gets(call, f"result of {call}")
            self.ops.append(("said", ("result", call)))
        self.answers()

    def steered(self) -> None:
        """A prompt that was typed while the program worked."""
        with self.task():
            self._heard_midway()

    def _heard_midway(self) -> None:
        self.prompt()
        call = self._name("call").replace(" ", "_")
        self.file.calls(call)
        self.ops.append(("said", ("call", call)))
        self.file.gets(call, f"result of {call}")
        self.ops.append(("said", ("result", call)))
        self.prompt("steer")
        self.answers()

    def _asks(self, text: str, *parts: dict[str, Any]) -> None:
        """A prompt of these parts, of which `text` is the last."""
        item = {"type": "message", "role": "user", "content": list(parts)}
        self.file.write("response_item", item)
        self.file.event("user_message", message=text, images=[])
        self.ops.append(("said", ("user", text)))

    def shows_picture(self) -> None:
        """A prompt with a pasted picture, which stands before the words."""
        text = self._name("question")
        with self.task():
            self._asks(
                text, {"type": "input_text", "text": "<image>"}, {"type": "input_image", "image_url": PICTURE_URL},
                {"type": "input_text", "text": "</image>"}, {"type": "input_text", "text": text},
            )  # fmt: skip
            self.answers()

    def edits_elsewhere(self) -> None:
        """A prompt behind what an editor tells."""
        text = self._name("question")
        above = f"# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\n{text}"
        with self.task():
            self._asks(above, {"type": "input_text", "text": above})
            self.answers()

    def is_told(self) -> None:
        """A text of the program before a turn, in the person's name."""
        tag = self.random.choice(["environment_context", "recommended_plugins", "user_shell_command", "heartbeat"])
        text = f"<{tag}>\n{self._name('told')}\n</{tag}>"
        self.file.asks(text)
        if tag == "heartbeat":  # the program takes no other text of the role `user` for one of its own
            self.ops.append(("said", ("user", text)))
        self.turn()

    def leaves_open(self) -> None:
        """A call that is never answered, and a result of a call that nobody made."""
        with self.task():
            self.prompt()
            call = self._name("call").replace(" ", "_")
            self.file.calls(call)
            self.made_up.add(call)
            self.ops.append(("said", ("call", call)))
            if self.random.random() < 0.5:
                self.file.gets(f"{call}_of_nobody", "result of nothing")
            self.answers()

    def patches(self) -> None:
        """A call of a tool that takes a text, with what was thought before."""
        with self.task():
            self.prompt()
            call = self._name("call").replace(" ", "_")
            thought = {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "x",
            }
            made = {"type": "custom_tool_call", "name": "apply_patch", "call_id": call, "input": "*** Begin Patch"}
            for item in (thought, made, {"type": "custom_tool_call_output", "call_id": call, "output": "done"}):
                self.file.write("response_item", item)
            self.ops += [("said", ("call", call)), ("said", ("result", call))]
            self.answers()

    def interrupted(self) -> None:
        """A turn that was broken off: the program says so in the person's name."""
        with self.task("turn_aborted"):
            self.prompt()
            self.file.asks("<turn_aborted>\nstopped\n</turn_aborted>")
            self.ops.append(("note", None))

    def compacts(self) -> None:
        """Its own compaction, in the present form or, without a history, in the one before."""
        with self.task():
            self._sums_up()

    def _sums_up(self) -> None:
        self.left.append(self.log)
        summary = self._name("summary")
        if self.random.random() < 0.5:
            kept = [text for who, text in self.log if who == "user" and not text.startswith("Another")][-2:]
            items = [message("user", text) for text in (*kept, summary_of(summary))]
            self.file.write("compacted", {"message": "", "replacement_history": items})
            self.ops.append(("compact", [("user", text) for text in (*kept, summary_of(summary))]))
        else:
            self.file.write("compacted", {"message": summary_of(summary)})
            self.ops.append(("compact", ("user", summary_of(summary))))

    def rolls_back(self) -> None:
        """The last prompts are taken back, whatever was summed up since."""
        turns = self.random.choice([1, 1, 1, 2, 3, 50])
        self.left.append(self.log)
        self.file.event("thread_rolled_back", num_turns=turns)
        places = [number for number, op in enumerate(self.ops) if is_prompt(op)]
        cut = places[-turns] if turns <= len(places) else 0
        summed_up = any(kind == "compact" and not isinstance(value, list) for kind, value in self.ops[cut:])
        del self.ops[cut:]
        while self.ops and self.ops[-1][0] == "note":
            self.ops.pop()
        if summed_up:
            self.ops.append(("compact", None))

    def notes(self) -> None:
        """Lines that are no messages, and what damage leaves."""
        kind = self.random.randrange(5)
        if kind == 0:
            self.file.write("world_state", {"full": True})
        elif kind == 1:
            self.file.write("dream", {"x": 1})
        elif kind == 2:
            self.file.write_bytes(b'{"timestamp": "2026-11-20T10:00:00.000Z", "type": "response_it\n')
        elif kind == 3:
            self.file.write_bytes(b"\0" * 100 + b"\n\n[1]\n")
        else:
            self.file.event("token_count", info={"last_token_usage": {"total_tokens": 1000 + self._number}})


def summary_of(text: str) -> str:
    """A summary as the program introduces it."""
    return f"{SUMMARY}\n{text}"


def is_prompt(op: Op) -> bool:
    """True for what a person typed."""
    return op[0] == "said" and op[1][0] == "user"


def sent(ops: list[Op]) -> list[Said]:
    """What operations are to the model, without the notes."""
    found: list[Said] = []
    for kind, value in ops:
        if kind == "said":
            found.append(value)
        elif kind == "compact" and isinstance(value, list):
            found = list(value)
        elif kind == "compact":
            prompts = [each for each in found if each[0] == "user" and not each[1].startswith("Another language")]
            found = [*prompts, value] if value is not None else prompts
    return found


def items_of(request: list[dict[str, Any]]) -> list[Said]:
    """Read a request of the program in the form of `CodexHistory.log`, without its contexts."""
    found: list[Said] = []
    for item in request:
        kind = item.get("type")
        if kind == "message" or (kind is None and "role" in item):
            texts = [part.get("text", "") for part in item["content"]]
            found += [(item["role"], text) for text in texts if is_ours(text)]
        elif kind in ("function_call", "custom_tool_call"):
            found.append(("call", item["call_id"]))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            found.append(("result", item["call_id"]))
    return found


def is_ours(text: str) -> bool:
    """True of texts that histories are made of."""
    beginnings = ("question ", "answer ", "steer ", "Another ", "# Context from my IDE", "<heartbeat>")
    return text.startswith(beginnings)


def said(messages: list[dict[str, Any]]) -> list[Said]:
    """Messages of a log in the form of `CodexHistory.log`."""
    return [each for each in said_apart(messages) if each[0] in ("call", "result") or is_ours(each[1])]
