"""A server that does as it is told, standard library only: `python fake_server.py --home DIR`.

It keeps what it was asked in `DIR/journal.jsonl` and what took effect in `DIR/effects.jsonl`, so that both outlive it.
`FAKE_RULES` is a JSON list of `[method, nth, what]`: at the nth request of that method (counted over restarts) it
does something unusual. `FAKE_START` is a list of what to do at the first, second ... start.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

HOME = Path(sys.argv[sys.argv.index("--home") + 1]) if "--home" in sys.argv else Path(os.environ["FAKE_HOME"])
JOURNAL = HOME / "journal.jsonl"
EFFECTS = HOME / "effects.jsonl"
STARTS = HOME / "starts"
LSP = False


def note(file, value):
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(value) + "\n")


def lines(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def read():
    global LSP
    line = sys.stdin.buffer.readline()
    if not line:
        return None
    if line.startswith(b"Content-Length"):
        LSP = True
        size = int(line.split(b":")[1])
        assert sys.stdin.buffer.readline() == b"\r\n"
        return json.loads(sys.stdin.buffer.read(size))
    return json.loads(line)


def write(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) if LSP else body + b"\n")
    sys.stdout.buffer.flush()


def notify(method, params):
    write({"method": method, "params": params})


def die(code=9):
    sys.stderr.write("the fake server dies as told\n")
    sys.stderr.flush()
    os._exit(code)


def hang():
    """Do nothing more, until somebody kills us or nobody is there to do so."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.05)


def unusual(what, message):
    """Do `what`; returns whether the request is dealt with."""
    params = message.get("params") or {}
    if what == "die":
        die()
    elif what == "effect-and-die":
        effect(message)
        die()
    elif what == "hang":
        hang()
    elif what == "silent":
        return True
    elif what == "locked":
        refuse(message, 4003, "sessionLocked", "another process writes to it", retryable=True)
        return True
    elif what == "drop":
        data = {"kind": "overloaded", "retryable": True}
        write({"id": None, "error": {"code": 4012, "message": "this connection does not read", "data": data}})
        os._exit(3)
    elif what == "readOnly":
        refuse(message, 4004, "readOnly", "opened to look")
        return True
    elif what == "garbage":
        sys.stdout.buffer.write(b"this is no protocol\n")
        sys.stdout.buffer.flush()
        hang()
    elif what == "flood":
        sys.stderr.write("x" * 2_000_000 + "\n")
    elif what in ("work", "work-in-steps"):
        for step, percentage in enumerate((10, 50, 90, 100)):
            while what == "work-in-steps" and not (HOME / f"step-{step}").exists():
                time.sleep(0.005)
            if percentage < 100:
                value = {"kind": "report", "percentage": percentage}
                notify("$/progress", {"token": params["workDoneToken"], "value": value})
    elif what == "ask":
        write(
            {"id": "q1", "method": "context/summarize", "params": {"sessionId": "s", "systemPrompt": "p", "prompt": {}}}
        )
        while True:
            answer = read()
            note(JOURNAL, answer)
            if answer.get("id") == "q1":
                write({"id": message["id"], "result": answer.get("result") or answer.get("error")})
                return True
    elif what == "close-output":
        sys.stdout.buffer.flush()
        os.close(1)
        hang()
    else:
        raise AssertionError(what)
    return False


def refuse(message, code, kind, text, retryable=False):
    data = {"kind": kind, "retryable": retryable}
    write({"id": message["id"], "error": {"code": code, "message": text, "data": data}})


def effect(message):
    """Make it happen, once for a request id; returns whether it had happened before."""
    params = message["params"]
    if any(done["params"].get("requestId") == params["requestId"] for done in lines(EFFECTS)):
        return True
    note(EFFECTS, message)
    return False


def answer(message):
    method, params = message["method"], message.get("params") or {}
    head = str(len(lines(EFFECTS)))
    if method == "initialize":
        version = {"other-version": 2}.get(told_at_start(), 1)
        timeleap = {"protocolVersion": version, "methods": {}, "limits": {"maxFrameBytes": 100_000}}
        capabilities = {"experimental": {"timeleap": timeleap}}
        return {"serverInfo": {"name": "fake", "version": "1"}, "capabilities": capabilities}
    if method == "session/open":
        return {"sessionId": params.get("sessionId") or "generated", "head": head, "access": "owner"}
    if method in {"context/appendMessage", "session/setTitle"}:
        duplicate = effect(message)
        head = str(len(lines(EFFECTS)))
        cause = {"requestId": params["requestId"]}
        notify("context/didChange", {"sessionId": params["sessionId"], "head": head, "kind": "x", "cause": cause})
        return {"head": head, **({"duplicate": True} if duplicate else {})}
    if method == "shutdown":
        return None
    return {"echo": params, "pid": os.getpid()}


def told_at_start():
    """What to do at this start."""
    start = len(lines(STARTS)) - 1
    told = json.loads(os.environ.get("FAKE_START", "[]"))
    return told[start] if start < len(told) else ""


def main():
    note(STARTS, os.getpid())
    if told_at_start() == "die":
        die()
    if told_at_start() == "hang":
        hang()
    rules = json.loads(os.environ.get("FAKE_RULES", "[]"))
    linger = "FAKE_LINGER" in os.environ
    while (message := read()) is not None:
        note(JOURNAL, message)
        method = message.get("method")
        if method == "exit":
            if linger:
                hang()
            note(HOME / "exits", "exit")
            sys.exit(0)
        if "id" not in message or method is None:
            continue
        nth = sum(entry.get("method") == method for entry in lines(JOURNAL))
        what = [rule[2] for rule in rules if rule[0] == method and rule[1] in (nth, "*")]
        if any(unusual(each, message) for each in what):
            continue
        write({"id": message["id"], "result": answer(message)})
    note(HOME / "exits", "end of input")


main()
