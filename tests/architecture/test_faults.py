"""The list of seeded faults fits the source and the tests: `make torture` can try each of them."""

from __future__ import annotations

import re
from collections import Counter

from tests.architecture.sources import ROOT
from tests.faults.faults import SOURCE, all_faults
from tests.torture.reliability import GUARANTEES

FEWEST = 60
ROOMS = ("storage", "sessions/kernel", "attach", "features", "rpc")
FEWEST_OF_A_ROOM = 8


def test_each_fault_stands_in_the_source_once_and_its_tests_exist() -> None:
    texts = {file: (ROOT / SOURCE / file).read_text("utf-8") for file in {fault.file for fault in all_faults()}}
    tests: dict[str, set[str]] = {}
    for fault in all_faults():
        assert texts[fault.file].count(fault.text) == 1, f"not once in {fault.file}: {fault.text}"
        assert fault.text != fault.becomes and fault.tests, fault.name
        for test in fault.tests:
            file, _, function = test.partition("::")
            if file not in tests:
                text = (ROOT / "tests" / file).read_text("utf-8")
                tests[file] = set(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))
            assert not function or function.partition("[")[0] in tests[file], test


def test_all_rooms_of_the_core_have_faults() -> None:
    faults = all_faults()
    assert len(faults) >= FEWEST
    assert len({fault.name for fault in faults}) == len(faults)
    rooms = Counter(room for fault in faults for room in ROOMS if fault.file.startswith(f"{room}/"))
    assert sum(rooms.values()) == len(faults)
    assert all(rooms[room] >= FEWEST_OF_A_ROOM for room in ROOMS), rooms


def test_each_promise_of_the_readme_is_on_the_page_and_has_faults() -> None:
    assert {fault.guarantee for fault in all_faults()} == GUARANTEES.keys()
    promised = (ROOT / "README.md").read_text("utf-8").partition("## What you can rely on")[2].partition("\n## ")[0]
    titles = re.findall(r"^- \*\*(.+?)\.\*\*", promised, re.MULTILINE)
    assert len(titles) > 8
    assert set(titles) == {guarantee.title for key, guarantee in GUARANTEES.items() if key != "files"}
