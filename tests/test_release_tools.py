"""The scripts that check a release: what an archive holds, and the versions that pyproject.toml promises."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from release_check import NOT_TRIED, TRIED, contents_of, faults_of, package_files
from test_matrix import EXTRAS, SUITES, Outcome, constraints_of, exit_code, interpreter, lowest_of, pins_of, result_of

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINNED = pins_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))


def wheel(folder, names):
    with zipfile.ZipFile(folder / "jensen-1.0-py3-none-any.whl", "w") as file:
        for name in names:
            file.writestr(name, "")
    return Path(file.filename)


def sdist(folder, names):
    path = folder / "jensen-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for name in names:
            file.addfile(tarfile.TarInfo(f"jensen-1.0/src/{name}"), io.BytesIO())
    return path


FILES = package_files(ROOT / "src")
# One of each kind that an archive may have beside the package.
BESIDE = {wheel: "jensen-1.0.dist-info/METADATA", sdist: "PKG-INFO"}


@pytest.mark.parametrize("pack", [wheel, sdist])
class TestArchives:
    def test_one_with_all_files_has_no_faults(self, pack, tmp_path):
        names = contents_of(pack(tmp_path, FILES))
        assert sorted(names) == FILES
        assert faults_of([*names, BESIDE[pack]], FILES) == []

    @pytest.mark.parametrize(
        "missing",
        ["jensen/py.typed", "jensen/__init__.pyi", "jensen/report/page.css", "jensen/studio/web/views/em.js"],
    )
    def test_a_missing_file_is_named(self, pack, missing, tmp_path):
        names = [name for name in FILES if name != missing]
        assert faults_of(contents_of(pack(tmp_path, names)), FILES) == [f"{missing} is missing"]

    @pytest.mark.parametrize(
        "name", ["tests/test_a.py", "jensen/__pycache__/a.pyc", "benchmarks/a.py", "m.jensen", "jensen/tests/test_a.py"]
    )
    def test_so_is_one_that_does_not_belong_there(self, pack, name, tmp_path):
        assert faults_of(contents_of(pack(tmp_path, [*FILES, name])), FILES) == [f"{name} does not belong there"]


def test_the_files_of_the_package_are_of_all_kinds_and_tracked():
    assert {Path(name).suffix for name in FILES} == {".py", ".pyi", ".typed", ".css", ".js", ".html"}
    if (ROOT / ".git").exists() and shutil.which("git"):
        done = subprocess.run(["git", "ls-files", "jensen"], cwd=ROOT / "src", capture_output=True, text=True)
        assert [name for name in done.stdout.split() if name not in FILES] == []


def test_every_extra_of_users_is_tried():
    assert TRIED.keys() == PROJECT["optional-dependencies"].keys() - NOT_TRIED
    for code in TRIED.values():
        compile(code, "extra", "exec")


def test_what_the_makefile_runs_is_in_the_repository_and_not_ignored():
    named = re.findall(
        r"(?<![\w./])(?:tests|tools|benchmarks)/[\w./-]+", (ROOT / "Makefile").read_text(encoding="utf-8")
    )
    assert {"tests/site", "tools/check_site.py"} <= {*named}
    for name in named:
        assert (ROOT / name).exists(), name
    if (ROOT / ".git").exists() and shutil.which("git"):
        done = subprocess.run(["git", "check-ignore", "--no-index", *named], cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, ""), done


class TestLowestVersions:
    def test_every_required_package_has_one(self):
        names = {re.match(r"[\w.-]+", need)[0] for need in PROJECT["dependencies"]}
        assert names <= {*lowest_of(PROJECT)}
        assert lowest_of(PROJECT)["scikit-learn"] == "1.6"
        assert "dask" in lowest_of(PROJECT)  # of an extra, with extras of its own

    def test_every_extra_of_users_is_installed(self):
        assert {*EXTRAS} == PROJECT["optional-dependencies"].keys() - NOT_TRIED

    def test_every_suite_is_in_the_repository(self):
        for path in (path for suite in SUITES for path in suite if path.startswith("tests/")):
            assert (ROOT / path).exists(), path

    def test_torch_is_the_pinned_one_in_all_environments(self):
        for name in ("3.12", "lowest", "newest"):
            assert f"torch=={PINNED['torch']}" in constraints_of(name, PROJECT, PINNED)
        assert len(constraints_of("newest", PROJECT, PINNED)) == 2

    def test_what_is_pinned_is_at_least_the_lowest(self):
        for name, lowest in lowest_of(PROJECT).items():
            pinned = [int(part) for part in PINNED[name].split(".")]
            assert pinned >= [int(part) for part in lowest.split(".")], name


def test_a_python_that_is_not_there_is_not_found():
    assert interpreter("3.99") is None


class TestOutcomes:
    def test_failed_and_skipped_tests_are_named(self, tmp_path):
        report = tmp_path / "suite.xml"
        report.write_text(
            '<testsuites><testsuite><testcase classname="tests.a" name="test_one"/>'
            '<testcase classname="tests.a" name="test_two"><failure message="1 != 2"/></testcase>'
            '<testcase classname="tests.a" name="test_three"><skipped message="no dask"/></testcase>'
            "</testsuite></testsuites>"
        )
        outcome = result_of([report], [1], "in 2 minutes", "numpy 2.0")
        assert str(outcome).splitlines() == [
            "failed: 1 tests passed, 1 failed, 1 were skipped, in 2 minutes",
            "        numpy 2.0",
            "        failed: tests.a.test_two",
            "        skipped 1: no dask",
        ]

    def test_a_suite_that_ends_without_a_whole_report_has_failed(self, tmp_path):
        (tmp_path / "cut.xml").write_text("<testsuites><testcase na")
        for name in ("none.xml", "cut.xml"):
            assert result_of([tmp_path / name], [4], "", "").result == "failed"

    @pytest.mark.parametrize(
        ("results", "code"),
        [(["passed", "skipped"], 0), (["passed", "failed"], 1), (["skipped", "skipped"], 1)],
    )
    def test_the_exit_code_is_0_if_something_passed_and_nothing_failed(self, results, code):
        assert exit_code(Outcome(result, "") for result in results) == code


def test_tests_refuse_the_package_of_another_checkout(tmp_path):
    (tmp_path / "jensen").mkdir()
    (tmp_path / "jensen" / "__init__.py").write_text("")
    run = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-q", "tests/test_changelog.py"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 4
    assert f"Python finds jensen at {tmp_path}" in done.stderr
