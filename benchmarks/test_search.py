"""What does looking for a word in a long session cost, beside `grep`?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from benchmarks.conftest import Judge
from benchmarks.corpus import write_session
from benchmarks.measure import interleaved
from benchmarks.server import Server

pytestmark = pytest.mark.bench

MESSAGES = 100_000
WORD = "waterfall"


@pytest.mark.rows("20")
def test_a_word_in_a_long_session(tmp_path: Path, server: Server, judge: Judge) -> None:
    log = write_session(tmp_path / "session", MESSAGES)
    with log.open("a") as file:
        file.write(f'{{"role":"user","content":"There it is, the {WORD}."}}\n')
    session = server.open(log)["sessionId"]

    def grep() -> None:
        assert subprocess.run(["grep", "-c", WORD, str(log)], stdout=subprocess.PIPE, check=True).stdout == b"1\n"

    def search(**options: bool) -> None:
        (match,) = server.request("context/search", {"sessionId": session, "query": WORD, **options})["matches"]
        assert match["index"] == MESSAGES

    # The first search of a log that another program wrote parses each message once, to see that it is one.
    measured = interleaved(
        f"A word in {MESSAGES} messages",
        {"grep -c": grep, "timeleap": search, "timeleap, either case": lambda: search(ignoreCase=True)},
        rounds=7,
    )
    judge("20", measured["timeleap"], measured["grep -c"])
