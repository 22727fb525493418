"""Docstrings have examples, the types hold, and the notebook runs. The examples themselves are run by doctest."""

import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import lsparse
import lsparse.dask
import lsparse.exchange
import lsparse.plot
import nbformat
import pytest
from nbclient import NotebookClient

HERE = Path(__file__).parent
ESTIMATORS = [lsparse.GaussianMixture, lsparse.MultinomialMixture, lsparse.PoissonMixture, lsparse.BernoulliMixture, lsparse.TopicModel]
ON_DASK = [getattr(lsparse.dask, estimator.__name__) for estimator in ESTIMATORS]


def public():
    for module in (lsparse, lsparse.dask, lsparse.exchange, lsparse.plot):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)
            if inspect.isclass(getattr(module, name)):
                yield from methods(f"{module.__name__}.{name}", getattr(module, name))


def methods(of, thing):
    for name, member in inspect.getmembers(thing, inspect.isfunction):
        # What scikit-learn's own base classes bring along is documented there, and what a cluster does not change in the
        # class for one machine.
        own = member.__module__ == "lsparse.dask" or not of.startswith("lsparse.dask")
        if not name.startswith("_") and member.__module__.startswith("lsparse") and own:
            yield f"{of}.{name}", member


@pytest.mark.parametrize(("name", "thing"), list(public()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_docstring_has_an_example(name, thing):
    text = inspect.getdoc(thing) or ""
    assert "Examples\n--------\n>>>" in text
    if inspect.isfunction(thing):
        for section in ("Parameters",) if len(inspect.signature(thing).parameters) > 1 else ():
            assert f"{section}\n{'-' * len(section)}\n" in text, name


@pytest.mark.parametrize("module", ["ray", "spark"])
def test_engines_are_thin_and_have_an_example(module):
    """Read as text: the engines need not be installed. Their examples are run where they are (test_ray.py, test_spark.py)."""
    text = (Path(lsparse.__file__).parent / f"{module}.py").read_text()
    assert text.count("\n") < 150 and "    Examples\n    --------\n    >>>" in text


def test_names_that_are_not_there_are_found_in_texts(monkeypatch):
    """What `cargo xtask docs` looks texts through with."""
    monkeypatch.syspath_prepend(HERE.parents[2] / "xtask/src/docs")
    check = importlib.import_module("check_names")
    known = {"fit topics": {"--laps", "--out"}, "assign": {"--path"}}

    def wrong(text, language=""):
        return [*check.wrong_commands(text, known, {"topics"}, True), *check.wrong_python(text, language == "python", False)]

    for text in (
        "lsparse fit topics c --laps 3 --out t | head", "--path", "lsparse fit", "cargo xtask bench topics", "K = 3, or so",
        "lsparse.plot.trace(gm)", 'GaussianMixture(n_components="auto")', "TopicModel.topics_", "gm.fit(X)",
    ):
        assert wrong(text) == [], text
    for text in (
        "lsparse fit topics c --lap 3", "lsparse assigns", "echo a && lsparse assign m --out x", "--paths", "cargo xtask bench topic",
        "lsparse.plot.traces(gm)", "GaussianMixture(n_component=3)", "from lsparse import Mixture", "lsparse.load(file='a')",
    ):
        assert len(set(wrong(text))) == 1, text
    assert wrong("x = = 1", "python")


def test_the_gallery_has_every_picture():
    text = (HERE.parents[2] / "docs/how-to/gallery.md").read_text()
    assert all(f"lsparse.plot.{name}(" in text for name in lsparse.plot.__all__)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, lsparse.HMM, *ON_DASK])
def test_every_parameter_is_documented_and_checked(estimator):
    text = inspect.getdoc(estimator)
    for name in inspect.signature(estimator).parameters:
        assert name in text.split("Attributes")[0], name
        assert name in estimator._parameter_constraints, name


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What mypy found out about NumPy, once for all."""
    return str(tmp_path_factory.mktemp("mypy"))


def test_the_sample_program_passes_strict_type_checks(tmp_path, cache):
    program = HERE / "typed_program.py"
    run = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(program)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    # A wrong program does not pass, so the types are there.
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import lsparse\nlsparse.GaussianMixture(n_components='three').fit([[1.0]]).bic()\n")
    done = subprocess.run([*run[:-1], str(wrong)], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.count("error:") == 2, done.stdout
    subprocess.run([sys.executable, str(program)], check=True, cwd=tmp_path)


def test_the_package_itself_passes_strict_type_checks(tmp_path, cache):
    settings = ["--config-file", str(HERE.parent / "pyproject.toml"), "--cache-dir", cache]
    run = [sys.executable, "-m", "mypy", "--strict", *settings, "--package", "lsparse"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    # The stubs of the compiled part say what is really there.
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "lsparse._core"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout


def test_the_wheel_has_its_licences():
    names = {Path(file).name for file in importlib.metadata.files("lsparse") or []}
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= names


def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(HERE.parent / "notebooks" / "quickstart.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert not any(cell.get("outputs") for cell in nbformat.read(HERE.parent / "notebooks" / "quickstart.ipynb", 4).cells)
