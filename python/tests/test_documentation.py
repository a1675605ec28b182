"""The examples in docstrings, in docs/python.md and in the notebooks are run."""

import doctest
import inspect
import re

import ioweir
import nbclient
import nbformat
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_four_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["compare", "forecast", "policy", "tenants"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are kept without outputs"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()


def test_examples_of_docstrings_hold():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    tried = 0
    for module in (ioweir, ioweir._policies, ioweir._verbs, ioweir._inputs, ioweir._sweep):
        for test in finder.find(module, module.__name__):
            tried += runner.run(test).attempted
    assert tried >= 4 and runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize(("page", "least"), [("python.md", 5), ("guides/own-policy.md", 1)])
def test_examples_of_a_page_run(page, least):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    assert len(blocks) >= least
    names = {}
    for block in blocks:
        exec(compile(inspect.cleandoc(block), page, "exec"), names)


def test_every_public_name_is_documented():
    for name in ioweir.__all__:
        value = getattr(ioweir, name)
        assert name.startswith("__") or inspect.getdoc(value), name
