"""What stands out in the text of a conversation: files, declarations, errors, results, demands, things left to do.

Plain pattern matching over single lines, in English and Chinese. It finds what is written down in so many words and
understands nothing; it is made to rather quote a line too many than to lose the one that mattered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_LINE = 400
"""Characters of a line that are looked at and quoted."""

_MAX_SETUP = 160  # longer ones are prose

_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+")
_PATH = re.compile(
    r"(?<![\w/\\.@-])(?:[A-Za-z]:[\\/]|~/|\.{0,2}/)?(?:[\w.@+-]+[\\/])*[\w@+-][\w.@+-]*\."
    r"(?:py|pyi|ipynb|js|jsx|mjs|cjs|ts|tsx|vue|svelte|rs|go|java|kt|scala|c|h|cc|cpp|hpp|cs|rb|php|swift|lua|pl|sh|bash|zsh"
    r"|ps1|sql|html|css|scss|json|jsonl|toml|yaml|yml|ini|cfg|conf|env|md|rst|txt|csv|xml|proto|gradle|lock|log|tf|sage|bin"
    r"|out|so|pcap|pcapng|zip|tar|gz|png|jpg|pdf|db|sqlite)(?![\w/\\])"
)
_DECLARATION = re.compile(
    r"^\s*(?:\d+[:|]\s?)?((?:(?:export|default|public|private|protected|static|async|pub|abstract|final)\s+)*"
    r"(?:def|class|function|func|fn|interface|struct|enum|trait|impl|type|module|namespace)\s+([A-Za-z_$][\w$]*).*)"
)
_ERROR = re.compile(
    r"\b[\w.]*(?:Error|Exception)\b(?:\s*[:(\[]|$)|^\W*(?:error|fatal|panic)\b\W*[:\[ ]|\bFAIL(?:ED|URE)?\b|\bfailed\b"
    r"|^Traceback|\b(?:segmentation fault|core dumped|undefined reference|assertion failed|no such file|command not found"
    r"|not found[.!]?$|permission denied|timed out)\b|\bE\d{3,4}\b|exit (?:code|status):? [1-9]"
    r"|错误|失败|异常|无法|超时|报错",
    re.IGNORECASE,
)
_SOURCE = re.compile(r"^(?:\d+[:|]|raise |except|import |from |#|//|/\*|\*|@|catch|throw |return )")
_NO_ERROR = re.compile(r"\b(?:0|no) (?:errors?|fail(?:ed|ures?)|warnings?)\b|没有错误", re.IGNORECASE)
_SUCCESS = re.compile(
    r"\b(?:\d+ passed|all tests? pass(?:ed)?|success(?:ful(?:ly)?)?|exit (?:code|status):? 0\b|ok\b|done\b|build succeeded)"
    r"|成功|通过",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:fixed|added|created|implemented|updated|wrote|written|installed|removed|renamed|moved|refactored|resolved"
    r"|solved|completed|finished|corrected|replaced|configured|works now|now works|passes|passed|succeeded|submitted)\b"
    r"|已(?:经)?(?:完成|修复|添加|创建|更新|实现|解决)|完成了|修复了|添加了|创建了|实现了|解决了",
    re.IGNORECASE,
)
_TO_DO = re.compile(
    r"\b(?:todo|fixme|xxx|remaining|left to do|still (?:need|have|to|fail|missing)|not yet|next step|next,? (?:we|i)"
    r"|need(?:s)? to|remains? to)\b|^\s*[-*] \[ \]|待办|还需要|尚未|下一步|未完成",
    re.IGNORECASE,
)
_DEMAND = re.compile(
    r"\b(?:must|never|always|do not|don't|should(?:n't| not)?|only|please|prefer|require[sd]?|without|make sure|ensure"
    r"|important|avoid|keep|at least|at most|no more than|instead of)\b|必须|不要|不得|禁止|务必|请|只能|应该|保持|避免|至少|至多",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decided|decision|chose|chosen|because|the reason|instead of|trade-?off|we will use|i will use|root cause"
    r"|turns out|it (?:looks|seems)|indicates that|suggests that)\b|决定|因为|原因|选择了|采用",
    re.IGNORECASE,
)
_SETUP = re.compile(
    r"\b(?:current directory|working directory|cwd|workspace|repository|branch|virtualenv|venv|docker|container"
    r"|python ?\d|node(?:\.js)? ?v?\d|npm|pip3? install|apt(?:-get)? install|cargo|poetry|conda|ubuntu|debian|linux|macos"
    r"|windows|platform|version \d|v\d+\.\d+|port \d+|localhost|nc [\w.]+ \d+|https?://)|环境|目录|版本|依赖|端口",
    re.IGNORECASE,
)
_INSTALLING = re.compile(r"^(?:Requirement already|Collecting|Downloading|Using cached|Get:|Unpacking|Setting up) ?")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_NOISE = re.compile(r"^[\W_]*$")


def lines(text: str) -> Iterator[str]:
    """The lines that say anything, without surrounding white space, cut at `MAX_LINE`."""
    for line in text.splitlines():
        stripped = line.strip().removeprefix("- ")[:MAX_LINE]
        if not _NOISE.match(stripped):
            yield stripped


def sentences(text: str) -> Iterator[str]:
    """The sentences that say anything, cut at `MAX_LINE`."""
    for sentence in _SENTENCE_END.split(text):
        stripped = " ".join(sentence.split())[:MAX_LINE]
        if not _NOISE.match(stripped):
            yield stripped


def paths(line: str) -> list[str]:
    """The file paths named in a line, in their order, without those of URLs."""
    return [match.group() for match in _PATH.finditer(_URL.sub(" ", line))]


def declaration(line: str) -> tuple[str, str] | None:
    """The name a line of code declares and the whole declaration, or None."""
    match = _DECLARATION.match(line)
    return (match[2], match[1].rstrip(" {:")) if match else None


def is_error(line: str) -> bool:
    """Whether a line reports that something went wrong."""
    return bool(_ERROR.search(line)) and not _NO_ERROR.search(line) and not _SOURCE.match(line)


def is_success(line: str) -> bool:
    """Whether a line reports that something went well."""
    return bool(_SUCCESS.search(line))


def is_done(sentence: str) -> bool:
    """Whether a sentence says that a piece of work is finished."""
    return bool(_DONE.search(sentence))


def is_to_do(sentence: str) -> bool:
    """Whether a sentence says that something is still to be done."""
    return bool(_TO_DO.search(sentence))


def is_demand(sentence: str) -> bool:
    """Whether a user's sentence says how things are to be done."""
    return bool(_DEMAND.search(sentence)) and not sentence.endswith((":", "："))  # headings demand nothing


def is_decision(sentence: str) -> bool:
    """Whether a sentence gives a decision, a reason or a finding."""
    return bool(_DECISION.search(sentence))


def is_setup(line: str) -> bool:
    """Whether a (short) line tells about the surroundings."""
    if len(line) > _MAX_SETUP or line.startswith("```") or _INSTALLING.match(line):
        return False
    return bool(_SETUP.search(line)) and not _SOURCE.match(line)


def code_blocks(text: str) -> Iterator[tuple[str, str]]:
    """The fenced code blocks of a text, each with the text between the block before it and itself."""
    pieces = text.split("```")
    for before, block in zip(pieces[::2], pieces[1::2], strict=False):
        body = block.split("\n", 1)[-1].strip("\n")  # without the name of the language
        if body.strip():
            yield before, body
