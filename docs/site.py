"""Build the site from the documents that stand in the repository: `docs/site.py OUTPUT`, by `make site`.

The documents lie beside each other as in the repository, so that their links hold. Two pages are made: every method with a
request and its reply, from `protocol/golden`, and a session as a live page. mkdocs checks each link and each anchor, and
fails where one leads nowhere. Nothing is fetched, neither here nor by the pages.
"""

from __future__ import annotations

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


def main() -> int:
    """Gather the documents, make the generated pages, and have mkdocs build the site."""
    [output] = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="timeleap-site-") as scratch:
        source = Path(scratch) / "docs"
        gather(source)
        (source / "reference").mkdir()
        (source / "reference" / "methods.md").write_text(methods(), encoding="utf-8")
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
