"""LSP on logs of sessions and session files of agents: what an editor is shown, and what it can do."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.codex_file import CodexFile
from tests.support.fixtures import StartServer
from tests.support.server import Message, Server

SHOWS = {"showMessage": {}, "showDocument": {"support": True}}
KINDS = {"class": 5, "function": 12, "string": 15, "number": 16, "key": 20}
COMMANDS = ("revert", "fork", "compare", "undo", "redo", "openPage", "repair")
PULLS: Message = {"textDocument": {"diagnostic": {}}}


@pytest.fixture
def server(start_at: StartServer, tmp_path: Path) -> Server:
    """A server whose client has documents, shows questions and documents, and pulls no diagnostics."""
    running = start_at(tmp_path / "home")
    running.initialize(capabilities={"textDocument": {}, "window": SHOWS})
    return running


def call(name: str, **arguments: Any) -> Message:
    return {"type": "function", "id": f"call_{name}", "function": {"name": name, "arguments": json.dumps(arguments)}}


def talk(server: Server, session_id: str = "s") -> Path:
    """A session of two turns; returns its log."""
    state = server.call("session/open", sessionId=session_id, workspace="file:///shop")
    for question, tool in (("Fix the **bill**", "edit_file"), ("Run the tests", "bash")):
        server.call("context/checkpoint", sessionId=session_id)
        given = {"path": "src/bill.py"} if tool == "edit_file" else {"command": "pytest"}
        messages = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": "", "tool_calls": [call(tool, **given)]},
            {"role": "tool", "tool_call_id": f"call_{tool}", "content": "Error: no" if tool == "bash" else "ok"},
            {"role": "assistant", "content": "Done."},
        ]
        server.call("context/appendMessage", sessionId=session_id, messages=messages)
        server.call("context/updateTokenCount", sessionId=session_id, tokenCount=1200)
    return Path(state["path"]) / "context.jsonl"


def look(server: Server, what: str, path: Path | str, **params: Any) -> Any:
    uri = path if isinstance(path, str) else path.as_uri()
    return server.call(f"textDocument/{what}", textDocument={"uri": uri}, **params)


def opened(server: Server, path: Path) -> None:
    document = {"uri": path.as_uri(), "languageId": "jsonl", "version": 1, "text": "not what the file says"}
    server.notify("textDocument/didOpen", textDocument=document)


def told(
    server: Server, path: Path, wanted: Callable[[list[tuple[str, int]]], bool], since: int = 0
) -> list[tuple[str, int]]:
    """The first diagnostics pushed for a document that are wanted, by code and line."""

    def fits(message: Message) -> bool:
        of = message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == path.as_uri()
        return of and wanted(codes(message["params"]["diagnostics"]))

    return codes(server.wait_for(fits, since=since)["params"]["diagnostics"])


def codes(diagnostics: list[Message]) -> list[tuple[str, int]]:
    return [(each["code"], each["range"]["start"]["line"]) for each in diagnostics]


def commands(server: Server, log: Path) -> list[Message]:
    """The commands of the lenses of a log."""
    return [server.call("codeLens/resolve", **lens)["command"] for lens in look(server, "codeLens", log)]


def run(server: Server, command: Message, *answers: Any) -> Any:
    """Carry out a command; what the server asks meanwhile is answered. Returns its result, and what was asked."""
    since = len(server.received)
    pending = server.start_with(
        "workspace/executeCommand", {"command": command["command"], "arguments": command["arguments"]}
    )
    asked = []
    for answer in answers:
        question = server.wait_for(lambda message: "method" in message and "id" in message, since=since)
        since = server.received.index(question) + 1
        asked.append(question["params"])
        server.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
    return pending.result(), asked


def do(name: str, log: Path, **members: Any) -> Message:
    return {"command": f"timeleap.{name}", "arguments": [{"uri": log.as_uri(), **members}]}


def test_capabilities_are_announced_to_clients_with_documents_only(start_at: StartServer, tmp_path: Path) -> None:
    def announced(**params: Any) -> Message:
        running = start_at(tmp_path / "home")
        return dict(running.initialize(**params)["capabilities"])

    plain = announced()
    assert set(plain) == {"experimental"}
    assert announced(capabilities={"textDocument": {}}, initializationOptions={"lsp": False}) == plain
    assert announced(capabilities={"textDocument": None}) == plain
    found = announced(capabilities={"textDocument": {}})
    assert found["experimental"] == plain["experimental"] and found["positionEncoding"] == "utf-16"
    assert found["textDocumentSync"] == {"openClose": True, "change": 0, "save": {"includeText": False}}
    assert found["executeCommandProvider"] == {"commands": [f"timeleap.{name}" for name in COMMANDS]}
    offers = {"textDocument": {}, "general": {"positionEncodings": ["utf-16", "utf-8"]}}
    assert announced(capabilities=offers)["positionEncoding"] == "utf-8"
    assert (
        announced(capabilities={"textDocument": {}}, initializationOptions=[]) == found
    )  # as Neovim has nothing to say
    odd = announced(capabilities={"textDocument": {"hover": 7}, "window": "none"})
    assert odd["hoverProvider"] is True
    error = start_at(tmp_path / "home").refuse("initialize", initializationOptions={"lsp": "no"})
    assert error["code"] == -32602 and error["data"]["errors"][0]["loc"] == ["initializationOptions", "lsp"]
    without = start_at(tmp_path / "home")
    without.initialize()
    assert without.refuse("textDocument/hover")["code"] == -32601


def test_the_outline_has_turns_and_their_steps(server: Server) -> None:
    log = talk(server)
    turns = look(server, "documentSymbol", log)
    lines = [(turn["name"], turn["range"]["start"]["line"], turn["range"]["end"]["line"]) for turn in turns]
    assert lines == [("Fix the bill", 0, 6), ("Run the tests", 6, 12)]
    assert [(step["name"], step["kind"]) for step in turns[0]["children"]] == [
        ("Checkpoint 0", KINDS["key"]),
        ("Edit src/bill.py", KINDS["function"]),
        ("Done.", KINDS["string"]),
        ("1,200 tokens", KINDS["number"]),
    ]
    test = turns[1]["children"][1]
    assert test["name"] == "pytest" and test["detail"].startswith("failed")
    assert [result["name"] for result in test["children"]] == ["Error: no"]
    folds = look(server, "foldingRange", log)
    assert [(fold["startLine"], fold["endLine"]) for fold in folds] == [(0, 5), (6, 11)]
    found = server.call("workspace/symbol", query="BILL")
    assert found == []  # no document is open, and the session is called otherwise
    opened(server, log)
    assert [symbol["name"] for symbol in server.call("workspace/symbol", query="BILL")] == ["Fix the bill"]


def test_hover_hints_and_links_say_what_a_line_is(server: Server) -> None:
    log = talk(server)
    text = look(server, "hover", log, position={"line": 1, "character": 5})["contents"]["value"]
    assert text.startswith("**user**") and "```text\nFix the **bill**\n```" in text
    assert "`c0-" in look(server, "hover", log, position={"line": 0, "character": 0})["contents"]["value"]
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 50, "character": 0}}
    hints = look(server, "inlayHint", log, range=whole)
    assert [(hint["position"]["line"], hint["label"].split(" · ")[0]) for hint in hints] == [
        (0, "Checkpoint 0"),
        (6, "Checkpoint 1"),
    ]
    (link,) = look(server, "documentLink", log)
    assert link["target"] == "file:///shop/src/bill.py"
    line, place = log.read_text("utf-8").splitlines()[2], link["range"]
    assert line[place["start"]["character"] : place["end"]["character"]] == "src/bill.py"


def test_a_text_that_would_be_markdown_stays_text(server: Server) -> None:
    server.call("session/open", sessionId="s")
    text = "```\n[click](command:evil) <img src=x>\n````\n" + "x" * 9000
    server.call("context/appendMessage", sessionId="s", messages=[{"role": "user", "content": text}])
    log = Path(server.call("session/getState", sessionId="s")["path"]) / "context.jsonl"
    shown = look(server, "hover", log, position={"line": 0, "character": 0})["contents"]["value"]
    body = shown.split("---\n\n", 1)[1]
    assert body.startswith("`````text\n") and body.endswith("…\n`````") and len(shown.encode()) <= 4096


def test_a_lens_goes_back_after_a_question_and_undo_brings_back(server: Server) -> None:
    log = talk(server)
    before = log.read_bytes()
    found = commands(server, log)
    assert [command["title"] for command in found] == ["Revert to here", "Fork here", "Compare with present"] * 2
    no = run(server, found[3], {"title": "No"})
    assert no[0] is None and log.read_bytes() == before
    assert run(server, found[3], None)[0] is None and log.read_bytes() == before
    done, asked = run(server, found[3], {"title": "Yes"})
    assert done["removed"]["messages"] == 4 and len(log.read_bytes().splitlines()) == 6
    (question,) = asked
    assert (
        question["message"]
        == "Go back? 4 messages and 1 checkpoint go. A timeline keeps them, and Undo brings them back."
    )
    assert (
        server.refuse("workspace/executeCommand", command=found[3]["command"], arguments=found[3]["arguments"])["code"]
        == -32801
    )
    run(server, do("undo", log))
    assert log.read_bytes() == before
    assert run(server, do("redo", log), {"title": "Yes"})[0]["canUndo"] == 1


def test_fork_compare_and_page_show_documents(server: Server) -> None:
    log = talk(server)
    _, fork, compare, *_ = commands(server, log)
    made, shown = run(server, fork, {"success": True})
    assert shown[0]["uri"] == made["uri"] and made["sessionId"] != "s"
    result, shown = run(server, compare, {"success": True})
    assert shown == [{"uri": result["uri"], "external": False, "takeFocus": True}]
    text = Path(result["path"]).read_text("utf-8")
    assert "0 messages in common, 0 only then, 8 only now." in text and "+ 0 user: Fix the bill" in text
    page, shown = run(server, do("openPage", log), {"success": False})
    assert shown[0]["external"] is True and "Run the tests" in Path(page["path"]).read_text("utf-8")
    assert Path(page["path"]).parent.stat().st_mode & 0o077 == 0


def test_damage_is_told_where_it_stands_and_repaired(server: Server) -> None:
    log = talk(server)
    server.call("session/close", sessionId="s")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], b"{nonsense\n", *lines[3:]]))
    opened(server, log)
    assert ("damagedRecord", 3) in told(server, log, bool)
    place = {"start": {"line": 3, "character": 0}, "end": {"line": 3, "character": 0}}
    repair = look(server, "codeAction", log, range=place, context={"diagnostics": []})[0]
    assert (repair["title"], repair["kind"]) == ("Repair the log", "quickfix")
    result, asked = run(server, repair["command"], {"title": "Yes"})
    assert result["removedLines"] == 1 and "1 damaged line will be left out" in asked[0]["message"]
    assert log.read_bytes() == b"".join(lines)


def test_a_change_by_another_window_diagnoses_anew(server: Server, start_at: StartServer, tmp_path: Path) -> None:
    log = talk(server)
    server.call("session/close", sessionId="s")
    opened(server, log)
    assert told(server, log, lambda found: True) == []
    other = start_at(tmp_path / "home")
    other.initialize()
    other.call("session/open", sessionId="s")
    messages = [{"role": "assistant", "content": "", "tool_calls": [call("left")]}, {"role": "user", "content": "and?"}]
    since = len(server.received)
    other.call("context/appendMessage", sessionId="s", messages=messages)
    assert told(server, log, bool, since) == [("orphanCall", 12)]
    # The other window owns the session: a command goes to it.
    done, _ = run(server, do("revert", log, messageIndex=8, confirm=True))
    assert done["removed"]["messages"] == 2
    assert told(server, log, lambda found: not found, since) == []
    server.notify("textDocument/didClose", textDocument={"uri": log.as_uri()})


def test_orphans_and_a_nearly_full_context_are_told(start_at: StartServer, tmp_path: Path) -> None:
    running = start_at(tmp_path / "home")
    running.initialize(capabilities=PULLS, initializationOptions={"maxContextSize": 1000})
    running.call("session/open", sessionId="s")
    messages = [{"role": "tool", "tool_call_id": "none", "content": "?"}, {"role": "user", "content": "x" * 3600}]
    running.call("context/appendMessage", sessionId="s", messages=messages)
    log = tmp_path / "home/sessions/s/context.jsonl"
    report = look(running, "diagnostic", log)
    assert report["kind"] == "full"
    assert codes(report["items"]) == [("orphanResult", 0), ("nearlyFull", 1)]
    assert all(each["source"] == "timeleap" for each in report["items"])


def test_timelines_are_shown_and_stay_as_they_are(server: Server) -> None:
    log = talk(server)
    server.call("context/revertTo", sessionId="s", checkpointId=1)
    timeline = log.with_name("context_1.jsonl")
    assert [turn["name"] for turn in look(server, "documentSymbol", timeline)] == ["Fix the bill", "Run the tests"]
    assert look(server, "codeLens", timeline) == []
    for name in COMMANDS:
        error = server.refuse("workspace/executeCommand", **do(name, timeline, checkpointUid="c0-0", confirm=True))
        assert error["code"] == -32602 and "names a timeline" in error["message"]


def test_session_files_of_agents_are_shown_and_never_changed(server: Server, tmp_path: Path) -> None:
    claude, codex = ClaudeFile(tmp_path / "claude"), CodexFile(tmp_path / "codex")
    claude.asks("Why does it fail?")
    claude.calls("call_1")
    claude.gets("call_1", "no such file")
    claude.asks("<command-name>/clear</command-name>")
    claude.says("A file is missing.")
    claude.asks("Then make it")
    codex.turn(1)
    for path, prompts in ((claude.path, ["Why does it fail?", "Then make it"]), (codex.path, ["question 1"])):
        before = path.read_bytes()
        turns = [turn for turn in look(server, "documentSymbol", path) if turn["kind"] == KINDS["class"]]
        assert [turn["name"] for turn in turns] == prompts, path
        assert prompts[-1] in str(look(server, "hover", path, position=turns[-1]["selectionRange"]["start"]))
        assert look(server, "codeLens", path) == []
        for name in COMMANDS:
            error = server.refuse("workspace/executeCommand", **do(name, path, messageIndex=0, confirm=True))
            assert error["code"] == -32602, name
        assert path.read_bytes() == before
    claude.gets("call_of_nobody", "a result")
    opened(server, claude.path)
    assert told(server, claude.path, bool) == [("orphanResult", 6)]


def odd(tmp_path: Path, name: str) -> Iterator[str]:
    """URIs of documents that are no logs, or odd ones."""
    folder = tmp_path / name
    folder.mkdir()
    log = folder / "context.jsonl"
    if name == "folder":
        log.mkdir()
    elif name == "pipe":
        os.mkfifo(log)
        os.mkfifo(folder / "other.jsonl")
        yield (folder / "other.jsonl").as_uri()
    elif name == "sparse":
        for path in (log, folder / "other.jsonl"):
            with path.open("wb") as file:
                file.truncate(1 << 30)
        yield (folder / "other.jsonl").as_uri()
    elif name == "latin":
        log.write_bytes(b'{"role":"user","content":"caf\xe9"}\n')
    elif name == "crlf":
        log.write_bytes(b'{"role":"user","content":"one"}\r\n{"role":"assistant","content":"two"}\r\n')
    elif name == "empty":
        log.write_bytes(b"")
    elif name == "text":
        yield (folder / "notes.txt").as_uri()
        (folder / "other.jsonl").write_text("nothing of ours\n")
        yield (folder / "other.jsonl").as_uri()
    elif name == "link":
        log.symlink_to(tmp_path / "elsewhere")
    yield log.as_uri()


NO_LOGS = ("gone", "folder", "pipe", "text", "link")
NO_URIS = (
    "untitled:Untitled-1",
    "",
    "http://example/context.jsonl",
    "file://elsewhere/context.jsonl",
    "file:///%00/context.jsonl",
)


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes")
def test_what_is_no_log_has_nothing_to_show(server: Server, tmp_path: Path) -> None:
    far = {"line": 2_000_000_000, "character": 2_000_000_000}
    place = {"start": {"line": 0, "character": 0}, "end": far}
    names = (*NO_LOGS, "sparse", "latin", "crlf", "empty")
    for uri, is_log in [(uri, name not in NO_LOGS) for name in names for uri in odd(tmp_path, name)] + [
        (uri, False) for uri in NO_URIS
    ]:
        server.notify("textDocument/didOpen", textDocument={"uri": uri, "languageId": "x", "version": 1, "text": "?"})
        for what, params in (
            ("documentSymbol", {}),
            ("foldingRange", {}),
            ("hover", {"position": far}),
            ("codeLens", {}),
            ("codeAction", {"range": place, "context": {"diagnostics": []}}),
            ("inlayHint", {"range": place}),
            ("documentLink", {}),
        ):
            found = look(server, what, uri, **params)
            assert is_log or not found, (uri, what)
        for name in COMMANDS:
            arguments = [{"uri": uri, "checkpointUid": "c0-0", "confirm": True}]
            if not is_log:
                error = server.refuse("workspace/executeCommand", command=f"timeleap.{name}", arguments=arguments)
                assert error["code"] == -32602 and "uri names no log" in error["message"], uri
        server.notify("textDocument/didClose", textDocument={"uri": uri})
    crlf = look(server, "documentSymbol", tmp_path / "crlf/context.jsonl")
    assert [turn["name"] for turn in crlf] == ["one"]
    assert [path.name for path in (tmp_path / "crlf").iterdir()] == ["context.jsonl"]  # nothing is left beside it


def test_params_that_do_not_fit_are_refused_and_the_next_request_works(server: Server) -> None:
    log = talk(server)
    uri = log.as_uri()
    for method, params in (
        ("textDocument/hover", {"textDocument": {"uri": uri}}),
        ("textDocument/documentSymbol", {}),
        ("workspace/executeCommand", {"command": "timeleap.nothing", "arguments": [{"uri": uri}]}),
        ("workspace/executeCommand", {"command": "timeleap.undo", "arguments": []}),
        ("workspace/executeCommand", {"command": "timeleap.undo", "arguments": [{"uri": 3}]}),
        ("workspace/executeCommand", {"command": "timeleap.revert", "arguments": [{"uri": uri}]}),
        ("workspace/executeCommand", {"command": 7}),
    ):
        assert server.refuse(method, **params)["code"] == -32602, (method, params)
        server.notify("textDocument/didOpen", textDocument=7)
    assert server.refuse("workspace/executeCommand", **do("undo", log, confirm=True))["data"]["kind"] == "nothingToUndo"
    lens = look(server, "codeLens", log)[0]
    for data in (None, 7, {"uri": uri, "line": 10**9}, {"uri": uri, "line": -1}, {"uri": "x", "line": 0}):
        assert "command" not in server.call("codeLens/resolve", **{**lens, "data": data})
    log.unlink()
    assert look(server, "documentSymbol", log) == []


def test_without_questions_only_what_is_confirmed_takes_away(start_at: StartServer, tmp_path: Path) -> None:
    server = start_at(tmp_path / "home")
    server.initialize(capabilities=PULLS)
    log = talk(server)
    before = log.read_bytes()
    error = server.refuse("workspace/executeCommand", **do("revert", log, messageIndex=0))
    assert error["code"] == -32602 and "confirm: true" in error["message"] and log.read_bytes() == before
    assert run(server, do("revert", log, messageIndex=0, confirm=True))[0]["removed"]["messages"] == 8
    assert Path(run(server, do("openPage", log))[0]["path"]).is_file()


def test_positions_are_counted_as_the_editor_counts(start_at: StartServer, tmp_path: Path) -> None:
    for units, encoding in (("utf-8", "utf-8"), ("utf-16", "utf-16-le")):
        server = start_at(tmp_path / units)
        server.initialize(capabilities={"textDocument": {}, "general": {"positionEncodings": [units]}})
        server.call("session/open", sessionId="s", workspace="file:///shop")
        messages = [{"role": "assistant", "content": "ä😀", "tool_calls": [call("edit_file", path="a.py")]}]
        server.call("context/appendMessage", sessionId="s", messages=messages)
        log = tmp_path / units / "sessions/s/context.jsonl"
        (link,) = look(server, "documentLink", log)
        width = 1 if units == "utf-8" else 2
        line = log.read_text("utf-8").encode(encoding)
        found = line[link["range"]["start"]["character"] * width : link["range"]["end"]["character"] * width]
        assert found.decode(encoding) == "a.py"


def test_an_outline_of_many_turns_is_bounded_and_newest_first_in_detail(server: Server) -> None:
    server.call("session/open", sessionId="s")
    for _ in range(40):
        turns = [{"role": role, "content": "w"} for _ in range(250) for role in ("user", "assistant")]
        server.call("context/appendMessage", sessionId="s", messages=turns)
    log = Path(server.call("session/getState", sessionId="s")["path"]) / "context.jsonl"
    began = time.perf_counter()
    turns = look(server, "documentSymbol", log)
    took = time.perf_counter() - began

    def count(symbols: list[Message]) -> int:
        return sum(1 + count(symbol.get("children", [])) for symbol in symbols)

    assert count(turns) <= 5000 and took < 60
    ends = [symbol["range"]["end"]["line"] for symbol in turns]
    begins = [symbol["range"]["start"]["line"] for symbol in turns]
    assert begins[0] == 0 and ends[-1] == 20_000 and begins[1:] == ends[:-1]
    assert turns[0]["name"] == "Turns 1 to 100" and len(turns[-1]["children"]) == 1
