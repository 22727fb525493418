"""Documents to try topics on, without a network: the manuals of NumPy, SciPy and scikit-learn, a document a function."""

import importlib
import inspect
import json
import pkgutil
import warnings

warnings.simplefilter("ignore")
INTERNAL = {"tests", "testing", "conftest", "externals", "experimental", "f2py", "distutils"}


def manuals(packages=("numpy", "scipy", "sklearn")):
    """Names and texts of what the packages document."""
    texts = {}
    for package in packages:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
            if any(part.startswith("_") or part in INTERNAL for part in found.name.split(".")):
                continue
            try:
                module = importlib.import_module(found.name)
            except Exception:
                continue
            for name, thing in inspect.getmembers(module):
                text = inspect.getdoc(thing) if callable(thing) and not name.startswith("_") else None
                if text and len(text) > 400 and str(getattr(thing, "__module__", "")).startswith(package):
                    texts.setdefault(text, f"{found.name}.{name}")
    return {name: text for text, name in texts.items()}


if __name__ == "__main__":
    with open("manuals.jsonl", "w") as file:
        for name, text in manuals().items():
            file.write(json.dumps({"id": name, "text": text}) + "\n")
