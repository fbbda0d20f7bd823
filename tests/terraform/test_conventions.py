"""terraform/ reads like one hand: the same files in each module, and every variable and output explained."""

from __future__ import annotations

import re
from typing import Final

import hcl2
import pytest

from tests.terraform.program import Workspace
from tests.terraform.trees import EXAMPLES, MODULES, TERRAFORM, blocks, plain, sources

_FILES: Final = {"main.tf", "variables.tf", "outputs.tf", "versions.tf", "README.md"}
_WANTED_MODULES: Final = {
    *("storage", "iam", "network", "coordinator", "agents", "spark", "schedules", "observability"),
}
_WANTED_EXAMPLES: Final = {"minimal", "complete", "existing-vpc", "two-regions"}
_FOLDERS: Final = [*(f"modules/{name}" for name in MODULES), *(f"examples/{name}" for name in EXAMPLES)]

every_module = pytest.mark.parametrize("module", MODULES)
every_folder = pytest.mark.parametrize("folder", _FOLDERS)


def test_no_module_and_no_example_is_missing() -> None:
    assert set(MODULES) == _WANTED_MODULES
    assert set(EXAMPLES) == _WANTED_EXAMPLES


def test_the_formatting_is_that_of_terraform(has_terraform: None) -> None:
    done = Workspace(TERRAFORM).run("fmt", "-check", "-diff", "-recursive", "-no-color", may_fail=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_is_read_by_another_parser_and_has_no_loose_blanks() -> None:
    for file in (path for suffix in ("tf", "hcl") for path in TERRAFORM.rglob(f"*.{suffix}")):
        body = file.read_text()
        assert hcl2.loads(body), file
        assert not re.search(r"[ \t]$|\t|\n\n\n|\n\n\Z", body, re.MULTILINE), file


@every_module
def test_a_module_has_the_usual_files_and_tests(module: str) -> None:
    folder = TERRAFORM / "modules" / module
    assert {file.name for file in folder.iterdir()} >= _FILES
    assert list(folder.glob("tests/*.tftest.hcl"))


@every_module
def test_a_module_leaves_the_provider_to_its_caller(module: str) -> None:
    folder = TERRAFORM / "modules" / module
    assert blocks(folder, "provider") == []
    assert [name for name, _ in blocks(folder, "data") if name.startswith("aws_region")] == []


@every_folder
def test_rules_of_security_groups_are_resources_of_their_own(folder: str) -> None:
    for name, body in blocks(TERRAFORM / folder, "resource"):
        if name.startswith("aws_security_group."):
            assert not {"ingress", "egress"} & body.keys(), name


@every_folder
def test_every_module_and_example_asks_for_the_same_versions(folder: str) -> None:
    ((_, found),) = [each for each in blocks(TERRAFORM / folder, "terraform") if "required_version" in each[1]]
    assert plain(found["required_version"]) == ">= 1.9"
    aws = found["required_providers"][0]["aws"]
    assert (plain(aws["source"]), plain(aws["version"])) == ("hashicorp/aws", ">= 5.100, < 7")


@every_folder
def test_every_variable_has_a_type_and_a_description(folder: str) -> None:
    for name, body in blocks(TERRAFORM / folder, "variable"):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert body.get("type"), name
        assert plain(body.get("description", "")).endswith("."), f"{name}: a sentence says what it is"


@every_folder
def test_every_output_has_a_description(folder: str) -> None:
    for name, body in blocks(TERRAFORM / folder, "output"):
        assert plain(body.get("description", "")).endswith("."), f"{name}: a sentence says what it is"


@every_folder
def test_every_variable_is_used(folder: str) -> None:
    text = "\n".join(file.read_text() for file in sources(TERRAFORM / folder) if file.name != "variables.tf")
    unused = [name for name, _ in blocks(TERRAFORM / folder, "variable") if not re.search(rf"\bvar\.{name}\b", text)]
    assert unused == []


@every_module
def test_what_a_module_refuses_it_explains(module: str) -> None:
    messages = [
        plain(check["error_message"])
        for _, body in blocks(TERRAFORM / "modules" / module, "variable")
        for check in body.get("validation", ())
    ]
    assert messages
    assert [each for each in messages if not each.endswith(".")] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_outputs_of_an_example_feed_sparklog(example: str) -> None:
    outputs = {name for name, _ in blocks(TERRAFORM / "examples" / example, "output")}
    assert outputs >= {"sparklog_cluster", "sparklog_conf", "init_command"}


def test_what_must_outlive_something_else_is_deleted_after_it() -> None:
    """A key goes after its buckets, a former archive after the schedules that name it, a log group after its writer."""
    resources = {name: dict(blocks(TERRAFORM / "modules" / name, "resource")) for name in MODULES}
    assert "aws_kms_key.this" in str(resources["storage"]["aws_s3_bucket.this"]["depends_on"])
    assert resources["spark"]["aws_s3_object.archives"]["lifecycle"][0]["create_before_destroy"] is True
    assert "aws_cloudwatch_log_group.insights" in str(resources["coordinator"]["aws_ecs_cluster.this"]["depends_on"])


def test_nothing_of_a_machine_or_a_registry_is_written_down() -> None:
    for file in TERRAFORM.rglob("*"):
        if file.suffix in (".tf", ".hcl", ".md", ".tfvars"):
            assert not re.search(r"registry\.terraform|/home/|/root/|/work/|/usr/local", file.read_text()), file
    assert list(TERRAFORM.rglob(".terraform.lock.hcl")) == []
