"""Build the site from the documents that stand in the repository: `docs/site.py OUTPUT`, by `make site`.

The documents lie beside each other as in the repository, so that their links hold. Four pages are made: every method with a
request and its reply, from `protocol/golden`; every command with its help, from the program; the TypeScript client, from its
declarations; and a session as a live page. mkdocs checks each link and each anchor, and fails where one leads nowhere. Nothing is
fetched, neither here nor by the pages.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MKDOCS = ROOT / ".tools" / "site" / "bin" / "mkdocs"
GOLDEN = ROOT / "protocol" / "golden"
LIVE_PAGE = "live/session.html"
LIVE = """# A session as a page

`timeleap export SESSION page.html` writes a session into one file that any browser shows, without a server and without a network.
[This one](session.html) is the sample session: go through its checkpoints with the slider or the arrow keys, compare two of them, search.
"""
LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


DECLARATIONS = ROOT / "protocol" / "typescript" / "dist"


def declared(name: str) -> re.Pattern[str]:
    """The declaration of a name in TypeScript, to its end at the beginning of a line, with the comment in front of it."""
    kinds = "class|interface|type|function|const"
    whole = rf"export (?:declare )?(?:abstract )?(?:{kinds}) {name}\b(?:[^\n]*;$|.*?^\}}?\)?[^\n ]*$)"
    return re.compile(rf"(?:/\*\*(?P<about>(?:(?!\*/).)*)\*/\n)?(?P<declaration>{whole})", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Gather the documents, make the generated pages, and have mkdocs build the site."""
    output = str(Path(sys.argv[1]).resolve())  # mkdocs would take it from the folder of its settings
    with tempfile.TemporaryDirectory(prefix="timeleap-site-") as scratch:
        source = Path(scratch) / "docs"
        gather(source)
        (source / "reference").mkdir()
        (source / "reference" / "methods.md").write_text(methods(), encoding="utf-8")
        (source / "reference" / "commands.md").write_text(commands(), encoding="utf-8")
        (source / "reference" / "typescript.md").write_text(typescript(), encoding="utf-8")
        export_sample(source / LIVE_PAGE)
        (source / "live" / "README.md").write_text(LIVE, encoding="utf-8")
        settings = Path(scratch) / "mkdocs.yml"
        shutil.copyfile(ROOT / "docs" / "site.yml", settings)
        built = [str(MKDOCS), "build", "--quiet", "--strict", "--config-file", str(settings), "--site-dir", output]
        # The notice is about what comes after mkdocs; see `site.yml`.
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        return subprocess.run(built, cwd=ROOT, env=environment, check=False).returncode


def documents() -> list[Path]:
    """The documents of the repository, as paths relative to it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(Path(name) for name in listed.stdout.splitlines() if not name.startswith("tests/"))


def gather(source: Path) -> None:
    """Copy the documents, and the files that they lead to; a link to a folder leads to its README, or becomes text."""
    pages = documents()
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        target = source / page
        target.parent.mkdir(parents=True, exist_ok=True)

        def lead(match: re.Match[str], page: Path = page) -> str:
            words, link, anchor = match[1], match[2], match[3] or ""
            place = Path(os.path.normpath(page.parent / link))
            if (ROOT / place).is_dir():
                readme = place / "README.md"
                if readme not in pages:
                    return words.strip("[]")
                return f"{words}({os.path.relpath(readme, page.parent)}{anchor})"
            if place not in pages:
                copy = source / place
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / place, copy)
            return match[0]

        target.write_text(LINK.sub(lead, text), encoding="utf-8")


def methods() -> str:
    """A page with every method and notification of the protocol: an exchange of each, as the tests hold servers to it."""
    parts = [
        "# Methods by example\n",
        "One exchange for each method, from the files that hold every server and client to their shapes. Ids and times are",
        "those of the tests. [The specification](../protocol/spec/README.md) says what each member means.\n",
    ]
    for folder in sorted(GOLDEN.iterdir()):
        cases = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
        answered = [case for case in cases if "result" in case]
        shown = min(answered or cases, key=lambda case: len(json.dumps(case)))
        parts.append(f"## {shown['method']}\n")
        parts.append(fenced({name: shown[name] for name in ("method", "params") if name in shown}))
        parts += [fenced({name: shown[name]}) for name in ("result", "error") if name in shown]
    return "\n".join(parts)


def fenced(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```\n"


def commands() -> str:
    """A page with every command, as `timeleap COMMAND --help` explains it."""
    from timeleap.cli.command_table import SECTIONS
    from timeleap.cli.parameters import Commands

    parts = [
        "# Commands\n",
        "Every command as `timeleap COMMAND --help` explains it. [The command line](../docs/command-line.md) says which ones to use for what.\n",
    ]
    for title, entries in SECTIONS.items():
        parts.append(f"## {title}\n")
        for entry in entries:
            found = entry.load()
            parts.append(f"### timeleap {entry.name}\n\n{entry.about}.\n")
            parts.append(help_of(entry.name))
            for member in found.members if isinstance(found, Commands) else ():
                parts.append(f"#### timeleap {entry.name} {member.name}\n")
                parts.append(help_of(entry.name, str(member.name)))
    return "\n".join(parts)


def help_of(*words: str) -> str:
    """The help of a command, in a block."""
    from timeleap.cli.app import main as command_line

    told = io.StringIO()
    arguments, sys.argv = sys.argv, ["timeleap", *words, "--help"]
    try:
        with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
            command_line()
    finally:
        sys.argv = arguments
    return f"```text\n{told.getvalue().strip()}\n```\n"


def typescript() -> str:
    """A page with what `timeleap-client` exports by hand, from the declarations that it is built with."""
    index = (DECLARATIONS / "index.d.ts").read_text(encoding="utf-8")
    parts = [
        "# The TypeScript client\n",
        "All that `timeleap-client` exports beside the types of params and results, which are named as in",
        "[the protocol](../protocol/README.md). [Its README](../protocol/typescript/README.md) says how it is used.\n",
    ]
    for names, module in re.findall(r"^export (?:type )?\{ (.+?) \} from \"\./(\w+)\.js\"", index, re.MULTILINE):
        text = (DECLARATIONS / f"{module}.d.ts").read_text(encoding="utf-8")
        for name in re.findall(r"(?:type )?(\w+)", names.replace("type ", "")):
            if (found := declared(name).search(text)) is None:
                raise SystemExit(f"{module}.d.ts does not declare {name}")
            declaration = re.sub(r"^ +private .*;\n", "", found["declaration"], flags=re.MULTILINE)
            about = re.sub(r"^ *\* ?", "", (found["about"] or "").strip(), flags=re.MULTILINE)
            parts += [f"## {name}\n", about + "\n", f"```ts\n{declaration}\n```\n"]
    return "\n".join(parts)


def export_sample(page: Path) -> None:
    """Write the sample session as the page that `timeleap export` makes."""
    page.parent.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="timeleap-site-store-") as home:
        environment = os.environ | {"TIMELEAP_HOME": home}
        timeleap = [sys.executable, "-m", "timeleap"]
        for arguments in (
            ["import", str(ROOT / "examples" / "sample-session.jsonl"), "sample"],
            ["export", "sample", str(page)],
        ):
            subprocess.run([*timeleap, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
