"""Build a release of a version, and use each of its artefacts in a clean place: everything but the upload.

Usage: `.ci/release_check.py VERSION OUTPUT`, with a version as Python writes it (`1.0.0`, `1.0.0rc1`). The head is built twice,
in copies of which neither is a repository; the artefacts must have equal hashes. `OUTPUT` then has the wheel, the sdist, the
`.vsix`, the npm package, `SHA256SUMS`, and in `sbom.cdx.json` the parts of an installation in the form of CycloneDX.
Run by `make release-check`, which installs the programs that it needs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / ".tools" / "release" / "bin"
NODE = ROOT / ".tools" / "node" / "node_modules" / "node" / "bin"
MODULES = ("client-vscode", "protocol/typescript")
VERSION = re.compile(r"(\d+\.\d+\.\d+)(?:(a|b|rc)(\d+))?")
READMES = ("README.md", "README.zh-CN.md")
FIVE_MINUTES = 300  # seconds
STAGES = {"a": "alpha", "b": "beta", "rc": "rc"}
BEFORE_ALL_OTHERS = 315532800  # 1980-01-01 in seconds, the earliest time that a ZIP archive can say

SHELL_USE = """
set -euo pipefail
timeleap new fix --title "Fix the build" >/dev/null
timeleap append fix "The build fails on Windows. Why?" >/dev/null
timeleap checkpoint fix before >/dev/null
timeleap append fix --role assistant "A path with backslashes." >/dev/null
timeleap revert fix 0 --yes >/dev/null
timeleap undo fix >/dev/null
timeleap show fix --json | grep -q backslashes
"""
NODE_USE = """
import { TimeleapClient } from "timeleap-client";
const client = await TimeleapClient.start({ command: "timeleap", args: ["serve"] });
const { sessionId } = await client.request("session/open", { title: "From npm" });
await client.request("context/appendMessage", { sessionId, message: { role: "user", content: "hello" } });
const { messages } = await client.request("context/getHistory", { sessionId });
if (messages[0].message.content !== "hello") throw new Error(JSON.stringify(messages));
await client.shutdown();
"""


def main() -> int:
    """Build, compare, use; says each step, and ends at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    if not VERSION.fullmatch(arguments.version):
        parser.error(f"{arguments.version} is no version such as 1.0.0 or 1.0.0rc1")
    output: Path = arguments.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="timeleap-release-") as scratch:
        folder = Path(scratch)
        artefacts = build_twice(arguments.version, folder, output)
        use_all(artefacts, arguments.version, folder, output)
    (output / "SHA256SUMS").write_text(
        "".join(f"{digest(path)}  {path.name}\n" for path in sorted(output.iterdir())), encoding="utf-8"
    )
    say(f"\n{output} has what a release of {arguments.version} uploads:")
    say((output / "SHA256SUMS").read_text(encoding="utf-8").rstrip())
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def step(title: str) -> Iterator[None]:
    """Say the title of a step, and how long it took."""
    say(f"{title} ...")
    began = time.monotonic()
    yield
    say(f"  done in {time.monotonic() - began:.0f} s")


def run(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a program; its output is shown where it fails, which ends the check."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Building


def npm_version(version: str) -> str:
    """A version as npm writes it: `1.0.0rc1` becomes `1.0.0-rc.1`."""
    found = VERSION.fullmatch(version)
    assert found
    release, stage, number = found.groups()
    if stage is None:
        return str(release)
    return f"{release}-{STAGES[stage]}.{number}"


def build_twice(version: str, scratch: Path, output: Path) -> list[Path]:
    """The artefacts, in `output`, of the first of two builds of the head that are equal byte for byte."""
    builds = []
    for name in ("first", "second"):
        source = scratch / f"source of the {name} build"
        with step(f"Building {version}, the {name} time"):
            copy_of_head(source)
            set_version(source, version)
            builds.append(build(source, scratch / name))
    first, second = ({path.name: digest(path) for path in artefacts} for artefacts in builds)
    if first != second:
        differing = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        sys.exit(f"two builds of one source differ: {', '.join(differing)}")
    return [Path(shutil.copy2(path, output)) for path in builds[0]]


def copy_of_head(folder: Path) -> None:
    """The files of the head as git has them, without the repository; what builds them is that of this checkout."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    run(["git", "archive", "--format=tar", f"--output={archive}", "HEAD"], ROOT)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    for module in MODULES:
        (folder / module / "node_modules").symlink_to(ROOT / module / "node_modules", target_is_directory=True)


def set_version(source: Path, version: str) -> None:
    """Write a version everywhere where one stands."""
    server = source / "server" / "timeleap" / "version.py"
    text, count = re.subn(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', server.read_text(encoding="utf-8"))
    assert count == 1
    server.write_text(text, encoding="utf-8")
    for module in MODULES:
        manifest = source / module / "package.json"
        written = json.loads(manifest.read_text(encoding="utf-8")) | {"version": npm_version(version)}
        manifest.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def build(source: Path, output: Path) -> list[Path]:
    """The artefacts of a source: wheel, sdist, npm package and `.vsix`, each made without a network."""
    output.mkdir()
    environment = {"SOURCE_DATE_EPOCH": epoch(), "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
    run([sys.executable, "-m", "hatchling", "build", "--directory", str(output)], source, environment)
    run(["npm", "pack", "--silent", "--offline", "--pack-destination", str(output)], source / MODULES[1], environment)
    extension = source / "client-vscode"
    wheels = extension / "dist" / "wheels"
    wheels.mkdir(parents=True)
    [wheel] = output.glob("*.whl")
    shutil.copy2(wheel, wheels)
    run(["npm", "run", "package", "--", "--out", str(output)], extension, environment)
    made = sorted(output.iterdir())
    assert [path.suffix for path in made].count(".vsix") == 1
    assert len(made) == 4, made
    return made


def epoch() -> str:
    """The time of the head, which stands in the archives in the place of the build's."""
    time_of_head = int(run(["git", "log", "-1", "--format=%ct"], ROOT))
    return str(max(time_of_head, BEFORE_ALL_OTHERS))


# Using


def use_all(artefacts: list[Path], version: str, scratch: Path, output: Path) -> None:
    """Install and use each artefact in a place of its own; write what an installation is made of."""
    by_suffix = {path.suffix: path for path in artefacts}
    wheel, vsix = by_suffix[".whl"], by_suffix[".vsix"]
    [sdist] = [path for path in artefacts if path.name.endswith(".tar.gz")]
    [npm] = [path for path in artefacts if path.suffix == ".tgz"]
    with step(f"Using {wheel.name} in an environment of its own"):
        server = installed(wheel, scratch / "of the wheel")
        use_in_shell(server, version)
    with step("Listing the parts of that installation (CycloneDX)"):
        listing = output / "sbom.cdx.json"
        run([str(TOOLS / "cyclonedx-py"), "environment", str(server / "bin" / "python"), "-o", str(listing)], scratch)
        names = {part["name"] for part in json.loads(listing.read_text(encoding="utf-8"))["components"]}
        assert {"timeleap", "pygls", "pydantic"} <= names, names
    with step(f"Using {sdist.name}, built without git"):
        use_in_shell(installed(sdist, scratch / "of the sdist"), version)
    with step(f"Using uvx --from {wheel.name}"):
        use_by_uvx(wheel, version, scratch / "of uvx")
    with step(f"Using {npm.name} in an empty project"):
        use_from_node(npm, server, scratch / "of npm")
    for page in READMES:
        follow_readme(page, server, npm, scratch / f"of {page}")
    with step(f"Using {vsix.name} in the workbench"):
        run(["make", "test-e2e", "CASES=newcomer"], ROOT, {"TIMELEAP_VSIX": str(vsix)})


def installed(artefact: Path, folder: Path) -> Path:
    """A new environment with the artefact in it."""
    venv.create(folder, with_pip=True)
    run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(artefact)], folder, clean(folder))
    return folder


def clean(folder: Path, *programs: Path) -> dict[str, str]:
    """Variables of a person who has nothing: an empty home below `folder`, and these programs before the system's."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([*map(str, programs), "/usr/local/bin", "/usr/bin", "/bin"])
    return {"HOME": str(home), "PATH": path, "TIMELEAP_HOME": str(home / "store"), "VIRTUAL_ENV": "", "PYTHONPATH": ""}


def use_in_shell(server: Path, version: str) -> None:
    variables = clean(server, server / "bin")
    said = run([str(server / "bin" / "timeleap"), "--version"], server, variables).strip()
    assert said == f"timeleap {version}", said
    run(["bash", "-c", SHELL_USE], server, variables)


def use_by_uvx(wheel: Path, version: str, folder: Path) -> None:
    variables = clean(folder)
    uvx = [str(TOOLS / "uvx"), "--python", sys.executable, "--from", str(wheel), "timeleap"]
    said = run([*uvx, "--version"], folder, variables).strip().splitlines()[-1]
    assert said == f"timeleap {version}", said
    run([*uvx, "new", "by-uvx"], folder, variables)


def follow_readme(page: str, server: Path, package: Path, folder: Path) -> None:
    """Type what a README shows of each use, as a stranger would: in an empty home, one block after the other."""
    variables = clean(folder, server / "bin", NODE)
    text = (ROOT / page).read_text(encoding="utf-8")
    for use in re.findall(r"^### (.*?)(?=^##)", text, re.MULTILINE | re.DOTALL):
        title, blocks = (
            use.partition("\n")[0],
            re.findall(r"^```(bash|python|typescript)\n(.*?)^```", use, re.MULTILINE | re.DOTALL),
        )
        if not blocks:
            continue
        began = time.monotonic()
        with step(f"{page}: {title}"):
            for language, code in blocks:
                run(typed(language, code, server, package, folder), folder, variables)
        if time.monotonic() - began > FIVE_MINUTES:
            sys.exit(f"{page} takes a stranger more than five minutes to {title}")


def typed(language: str, code: str, server: Path, package: Path, folder: Path) -> list[str]:
    """The command that runs a block of a README. What it installs from a checkout is that package of the release."""
    if language == "python":
        return [str(server / "bin" / "python"), "-c", code]
    if language == "typescript":
        (folder / "use.ts").write_text(code, encoding="utf-8")
        return ["node", "use.ts"]
    if "npm install" in code:
        (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
        return ["npm", "install", "--no-audit", "--no-fund", "--offline", str(package)]
    return ["bash", "-euo", "pipefail", "-c", code]


def use_from_node(package: Path, server: Path, folder: Path) -> None:
    variables = clean(folder, server / "bin", NODE)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    run(["npm", "install", "--no-audit", "--no-fund", "--offline", str(package)], folder, variables)
    (folder / "use.mjs").write_text(NODE_USE, encoding="utf-8")
    run(["node", "use.mjs"], folder, variables)


if __name__ == "__main__":
    sys.exit(main())
