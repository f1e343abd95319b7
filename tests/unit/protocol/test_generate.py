"""What is published: up to date, valid, and the same in every form."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import timeleap_protocol.generate.__main__ as generate
from timeleap_protocol.errors import ERRORS
from timeleap_protocol.generate import openrpc_document
from timeleap_protocol.generate.schema import bundle, definitions
from timeleap_protocol.generate.spec import fill
from timeleap_protocol.generate.typescript import methods_module, types_module
from timeleap_protocol.limits import LIMITS
from timeleap_protocol.methods import METHODS, REQUESTS

SPEC = generate.ROOT / "protocol" / "spec"


def references(value: Any) -> set[str]:
    """Every `$ref` within a document."""
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(member) for member in value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value)) if value else set()
    return set()


def resolve(document: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        document = document[step]
    return document


def test_generated_files_are_up_to_date():
    behind = [path.relative_to(generate.ROOT).as_posix() for path in generate.stale()]
    assert behind == [], f"run: {generate.COMMAND}"


def test_generated_files_say_that_they_are():
    for path, text in generate.outputs().items():
        if path.suffix != ".md":
            assert "Do not edit" in text[:1000], path.name


def test_every_page_of_the_spec_is_checked():
    assert set(SPEC.glob("*.md")) <= generate.outputs().keys()


def copy_of_the_checkout(root: Path) -> None:
    for path, text in generate.outputs().items():
        target = root / path.relative_to(generate.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def test_a_changed_or_missing_file_is_noticed_and_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    copy_of_the_checkout(tmp_path)
    shutil.copytree(generate.ROOT / "protocol" / "timeleap_protocol", tmp_path / "protocol/timeleap_protocol", dirs_exist_ok=True)  # fmt: skip
    monkeypatch.setattr(generate, "outputs", lambda root=tmp_path, original=generate.outputs: original(root))
    monkeypatch.setattr(generate, "stale", lambda root=tmp_path, original=generate.stale: original(root))
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main(["--check"]) == 0
    (tmp_path / "protocol" / "openrpc.json").write_text("{}", encoding="utf-8")
    (tmp_path / "protocol" / "typescript" / "src" / "generated" / "types.ts").unlink()
    assert generate.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert "protocol/openrpc.json" in said
    assert "types.ts" in said
    assert "python -m timeleap_protocol.generate" in said
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


def test_without_a_checkout_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_bundle_is_a_valid_schema_that_refers_to_nothing_outside():
    document = bundle()
    Draft202012Validator.check_schema(document)
    assert document["methods"].keys() == METHODS.keys()
    for reference in references(document):
        resolve(document, reference)


def test_no_default_of_the_schema_is_null():
    assert '"default": null' not in json.dumps(bundle())


def test_every_optional_field_is_not_required_and_every_null_is_meant():
    state = definitions()["SessionState"]
    assert {"title", "pendingDMail"} <= set(state["required"])
    assert not {"workspace", "duplicate"} & set(state["required"])
    assert {"type": "null"} in state["properties"]["title"]["anyOf"]
    assert "anyOf" not in state["properties"]["workspace"]


def test_a_kind_has_no_default_so_that_unions_narrow():
    for name in ("ContextDidChange", "SessionDidChange"):
        for branch in definitions()[name]["oneOf"]:
            assert "kind" in definitions()[branch["$ref"].rpartition("/")[2]]["required"]


class TestOpenRpc:
    """The rules of the OpenRPC 1.3 specification that a document of ours could break."""

    document = openrpc_document()

    def test_names_its_version_and_itself(self):
        assert re.fullmatch(r"1\.3\.\d+", self.document["openrpc"])
        assert {"title", "version"} <= self.document["info"].keys()

    def test_has_only_known_members(self):
        known = {"openrpc", "info", "servers", "methods", "components", "externalDocs"}
        assert {key for key in self.document if not key.startswith("x-")} <= known
        for method in self.document["methods"]:
            known = {"name", "summary", "description", "params", "result", "errors", "paramStructure", "tags"}
            assert {key for key in method if not key.startswith("x-")} <= known

    def test_has_every_message_a_client_sends_once(self):
        names = [method["name"] for method in self.document["methods"]]
        assert names == [row.name for row in METHODS.values() if row.kind in ("request", "notification")]
        sent = [method["name"] for method in self.document["x-serverToClient"]]
        assert sorted([*names, *sent]) == sorted(METHODS)

    def test_requests_have_results_and_notifications_have_none(self):
        for method in self.document["methods"]:
            assert ("result" in method) == (method["name"] in REQUESTS)

    def test_params_are_content_descriptors_required_ones_first(self):
        for method in self.document["methods"] + self.document["x-serverToClient"]:
            for param in method["params"]:
                assert param.keys() <= {"name", "description", "required", "schema"}
                Draft202012Validator.check_schema(param["schema"])
            marks = [param["required"] for param in method["params"]]
            assert marks == sorted(marks, reverse=True)
            assert len({param["name"] for param in method["params"]}) == len(marks)

    def test_refers_to_nothing_outside(self):
        for reference in references(self.document):
            resolve(self.document, reference)

    def test_has_every_error_by_its_kind(self):
        errors = self.document["components"]["errors"]
        assert {kind: error["code"] for kind, error in errors.items()} == {s.kind: s.code for s in ERRORS.values()}


def test_typescript_types_every_shape_and_every_method():
    types, methods = types_module(), methods_module()
    for name in definitions():
        assert re.search(rf"^export (interface|type) {name}\b", types, re.MULTILINE), name
    for name in METHODS:
        assert f'  "{name}": ' in methods
    repeated = re.findall(r'^  "(.+)",$', methods.partition("MUTATING")[2].partition("]")[0], re.MULTILINE)
    assert repeated == [name for name, row in METHODS.items() if row.mutates]


@pytest.mark.parametrize("name", METHODS)
def test_the_spec_speaks_of_every_method(name: str):
    assert any(f"`{name}`" in page.read_text(encoding="utf-8") for page in SPEC.glob("*.md"))


@pytest.mark.parametrize("word", [*ERRORS, *LIMITS])
def test_the_spec_speaks_of_every_error_and_every_limit(word: str):
    assert any(f"`{word}`" in page.read_text(encoding="utf-8") for page in SPEC.glob("*.md"))


def test_links_between_pages_of_the_spec_lead_somewhere():
    for page in SPEC.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), (page.name, target)


def test_a_marker_for_something_unknown_is_an_error():
    with pytest.raises(ValueError, match="weather"):
        fill("<!-- generated: weather today -->\n<!-- end generated -->")


def test_prose_around_a_generated_part_is_kept():
    page = "before\n<!-- generated: limits -->\nold\n<!-- end generated -->\nafter\n"
    filled = fill(page)
    assert filled.startswith("before\n<!-- generated: limits -->\n")
    assert filled.endswith("<!-- end generated -->\nafter\n")
    assert "old" not in filled
    assert "`maxPage`" in filled
    assert fill(filled) == filled
