"""Workflows, templates and the like agree with the package: nobody runs them here, so nobody would notice."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import pucboost as puc

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.fullmatch(r".*:: Python :: 3\.\d+", one) is not None
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML_FILES = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_is_read(path: Path) -> None:
    assert isinstance(read(path), dict)


def test_tests_run_on_the_pythons_of_the_package() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert jobs["run"]["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert _python_of(jobs["oldest"]) == PYTHONS[:1]
    assert _python_of(jobs["newest"]) == PYTHONS[-1:]


def _python_of(job: dict[str, Any]) -> list[str]:
    return [step["with"]["python-version"] for step in job["steps"] if "setup-python@" in step.get("uses", "")]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_to_commits(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    for one in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+(\.\d+){2}", one), one


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read_and_run_our_scripts(workflow: Path) -> None:
    assert read(workflow)["permissions"] == {"contents": "read"}
    commands = [step["run"] for step in steps_of(workflow) if "run" in step]
    assert commands
    for command in commands:
        script = ROOT / command.split()[0]
        assert script.parent == ROOT / ".ci"
        assert os.access(script, os.X_OK), script


def test_one_version_everywhere() -> None:
    assert read(ROOT / "CITATION.cff")["version"] == puc.__version__
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(puc.__version__)} \((unreleased|20\d\d-\d\d-\d\d)\)", headings[0])
    assert "version" in PROJECT["dynamic"]


def test_hooks_use_the_tools_of_the_package() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    tools = {requirement.partition(">")[0] for requirement in PROJECT["optional-dependencies"]["dev"]}
    for hook in local["hooks"]:
        tool, *arguments = hook["entry"].split()
        assert tool in tools | {"python"}
        assert all((ROOT / one).exists() for one in arguments if "/" in one)


def test_reports_ask_for_what_the_doctor_prints() -> None:
    form = read(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")
    assert any("pucboost doctor" in part["attributes"].get("label", "") for part in form["body"])
    assert "`pucboost doctor`" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
