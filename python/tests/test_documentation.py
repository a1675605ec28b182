"""The examples in docstrings, in docs/python.md and in the notebooks are run."""

import doctest
import inspect
import os
import re

import ioweir
import nbclient
import nbformat
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_four_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["compare", "forecast", "policy", "tenants"]


def shown(cell):
    """What a reader sees below a cell without a browser: texts, and that there is a picture."""
    seen = []
    for output in filter(is_kept, cell.get("outputs", [])):
        data = output.get("data", {"text/plain": output.get("text")})
        seen.append("a picture" if "image/png" in data else data["text/plain"])
    return seen


def is_kept(output):
    """Whether the file keeps an output: all but bars of progress."""
    return output.get("name") != "stderr"


def kept(output):
    """An output as the file keeps it: pages and tables of HTML are left to those who run the notebook."""
    if "data" in output:
        kind = "image/png" if "image/png" in output["data"] else "text/plain"
        output = {**output, "data": {kind: output["data"][kind]}}
    return nbformat.from_dict(output)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_computes(path):
    """`NOTEBOOKS=write scripts/test-python -k notebook` keeps the outputs of today."""
    notebook = nbformat.read(path, as_version=4)
    before = [shown(cell) for cell in notebook.cells]
    client = nbclient.NotebookClient(
        notebook, timeout=300, record_timing=False, resources={"metadata": {"path": str(ROOT)}}
    )
    client.execute()
    if os.environ.get("NOTEBOOKS") == "write":
        for cell in notebook.cells:
            cell.metadata = {}
            if "outputs" in cell:
                cell.outputs = [kept(output) for output in cell.outputs if is_kept(output)]
        notebook.metadata.pop("language_info", None)
        nbformat.write(notebook, path)
        return
    for place, (was, cell) in enumerate(zip(before, notebook.cells, strict=True)):
        assert was == shown(cell), f"cell {place} of {path.name} shows something else than is kept"
    assert sum(map(len, before)) >= 3, "outputs are kept in the file"


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
