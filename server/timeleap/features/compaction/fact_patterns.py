"""Facts found in the text of a conversation: files, declarations, errors, results, demands, things left to do.

Plain pattern matching over single lines, in English and Chinese. It finds what is written down in so many words and
understands nothing; it is made to rather quote a line too many than to lose the one that mattered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from timeleap.summaries.outcome import MAX_LINE, SOURCE

_MAX_SETUP = 160  # longer ones are prose

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://\S+")
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
    r"\b(?:must|never|always|do not|don't|cannot|can't|should(?:n't| not)?|only|please|prefer|require[sd]?|without"
    r"|make sure|ensure|important|avoid|keep|may not|no two|at least|at most|no more than|instead of|not allowed"
    r"|when you(?:'re| are| have| think)?)\b|必须|不要|不得|禁止|务必|请|只能|应该|保持|避免|至少|至多",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\b(?i:must|never|do not|don't|cannot|can't|may not|should not|shouldn't|avoid|no two|at most|exactly|not allowed)\b"
    r"|\b(?:ALWAYS|ONLY|EXACTLY|REALLY|ONE|ALL|NO|NOT)\b|\*\*only\*\*|\bsubmit\b|必须|不要|不得|禁止|务必|只能"
)
_LEAD_IN = re.compile(r"^(?:(?:please|remember|note|however|also|that|in particular)\b,? ?)+", re.IGNORECASE)
_ASIDE = re.compile(r" \((?:e\.g\.|i\.e\.|for example)[^)]*\)", re.IGNORECASE)
_DECISION = re.compile(
    r"\b(?:decided|decision|chose|chosen|because|the reason|instead of|trade-?off|we will use|i will use|root cause"
    r"|turns out|it (?:looks|seems)|indicates that|suggests that)\b|决定|因为|原因|选择了|采用",
    re.IGNORECASE,
)
_SETUP = re.compile(
    r"\b(?:current directory|working directory|cwd|workspace|repository|branch|virtualenv|venv|docker|container"
    r"|python ?\d|node(?:\.js)? ?v?\d|npm|pip3? install|apt(?:-get)? install|cargo|poetry|conda|ubuntu|debian|linux|macos"
    r"|windows|platform|version \d|v\d+\.\d+|port `?\d+|localhost|\d{1,3}(?:\.\d{1,3}){3}|nc [\w.]+ \d+|https?://"
    r"|successfully installed \S)|环境|目录|版本|依赖|端口",
    re.IGNORECASE,
)
_INSTALLING = re.compile(r"^(?:Requirement already|Collecting|Downloading|Using cached|Get:|Unpacking|Setting up) ?")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])(?<!e\.g\.)(?<!i\.e\.)\s+|(?<=[。！？])|\n+")
_NUMBERED = re.compile(r"^\s*(\d+)(?:[:|\t→]) ?(.*)$")
_FEW = 3  # numbered lines from which they are a listing
_ABOVE = 4  # lines above a listing in which its file is named
_EDITING = re.compile(r"^\s*(?:edit|insert|replace|create|open|goto)\b[^\n(=]*\n", re.IGNORECASE)
_END_OF_EDIT = re.compile(r"\n\s*end_of_\w+\s*$")
_BARE = re.compile(r"^(?:E\s{2,}|-\s+|\d+[:|]\s*)")
_NOISE = re.compile(r"^[\W_]*$")


def parted(text: str, tag: str, by: str | Callable[[str], str] = "") -> tuple[str, list[str]]:
    """Take out what stands between the tags `<tag>` and `</tag>`, each from an opening one to the next closing one.

    The text is read once. A regular expression would read the rest of it for each opening tag that is never closed.

    Args:
        by: Stands in the place of each, tags included; or says so of what stood between them.

    Returns:
        The rest of the text, and what stood between the tags.
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    rest: list[str] = []
    found: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        found.append(text[start + len(opening) : end])
        rest += (text[at:start], by if isinstance(by, str) else by(found[-1]))
        at = end + len(closing)
    return "".join((*rest, text[at:])), found


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


def is_done(sentence: str) -> bool:
    return bool(_DONE.search(sentence))


def is_to_do(sentence: str) -> bool:
    return bool(_TO_DO.search(sentence))


def is_demand(sentence: str) -> bool:
    """True if a user's sentence says how things are to be done."""
    return bool(_DEMAND.search(sentence)) and not sentence.endswith((":", "："))  # headings demand nothing


def is_decision(sentence: str) -> bool:
    """True if a sentence gives a decision, a reason or a finding."""
    return bool(_DECISION.search(sentence))


def is_setup(line: str) -> bool:
    """True if a (short) line describes the environment."""
    if len(line) > _MAX_SETUP or line.startswith("```") or line.endswith(":") or _INSTALLING.match(line):
        return False
    return bool(_SETUP.search(line)) and not SOURCE.match(line)


def bare_demand(sentence: str) -> str:
    return _ASIDE.sub("", _LEAD_IN.sub("", sentence))


def is_strong(sentence: str) -> bool:
    return bool(_STRONG.search(sentence))


def bare_error(line: str) -> str:
    """A line that reports an error, without what a test runner or a linter puts before it."""
    return _BARE.sub("", line)


def is_numbered(line: str) -> bool:
    return bool(_NUMBERED.match(line))


def is_code(block: str) -> bool:
    """True if a block is code and not a command line: it has several lines, or declares something."""
    return "\n" in block or declaration(block) is not None


def code_blocks(text: str) -> Iterator[tuple[str, str]]:
    """The fenced code blocks of a text (and commands between tags), each with the text before it.

    What tells an editor where to put the code is not part of it.
    """
    pieces = parted(text, "command", lambda command: f"```\n{command.strip()}\n```")[0].split("```")
    for before, block in zip(pieces[::2], pieces[1::2], strict=False):
        body = block.split("\n", 1)[-1].strip("\n")  # without the name of the language
        if body.strip():
            yield before, body


def edited(block: str) -> str | None:
    """The code in a block that tells an editor to write it, or None."""
    return _END_OF_EDIT.sub("", _EDITING.sub("", block, count=1)) if _EDITING.match(block) else None


def listings(text: str) -> Iterator[tuple[str, str]]:
    """The listings with line numbers in a text, each with the path of its file and without the numbers."""
    path, above = "", 0
    rows: list[str] = []
    last = -1
    for line in [*text.splitlines(), ""]:
        numbered = _NUMBERED.match(line)
        if numbered and path and (not rows or int(numbered[1]) == last + 1):
            rows.append(numbered[2])
            last = int(numbered[1])
            continue
        if len(rows) >= _FEW:
            yield path, "\n".join(rows)
        if rows:
            path, rows = "", []
        above += 1
        named = paths(line[:MAX_LINE])
        if named:
            path, above = named[-1], 0
        elif above > _ABOVE:
            path = ""
