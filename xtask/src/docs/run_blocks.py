"""Run the blocks of code of the documentation: `run_blocks.py PLAN RESULTS`, both JSON, as xtask/src/docs/blocks.rs has it.

Every page is a process with a folder of its own; shell commands and Python of a page follow each other in its order, and
Python keeps its names from block to block. As in a notebook, the value of a last expression is shown.
"""

import ast
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIMIT = 600  # seconds a block, on a machine that has other work too


def run_shell(text: str) -> tuple[bool, str]:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
    )
    return done.returncode == 0, done.stdout.decode(errors="replace")


def run_python(text: str, names: dict, place: str) -> tuple[bool, str]:
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            tree = ast.parse(text)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, place, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), place, "eval"), names)
                if value is not None:
                    print(repr(value))
        return True, out.getvalue()
    except Exception as error:
        what = traceback.format_exception_only(error)
        return False, out.getvalue() + "".join(what)


def run_page(page: dict) -> list[dict]:
    """What came of each block; the first that fails is the last that is run."""
    os.chdir(page["folder"])
    names = {"__name__": "__main__"}
    results = []
    for block in page["blocks"]:
        place = f"{page['page']}:{block['line']}"
        started = time.perf_counter()
        try:
            ok, output = run_shell(block["text"]) if block["language"] == "sh" else run_python(block["text"], names, place)
        except subprocess.TimeoutExpired:
            ok, output = False, f"not done after {LIMIT} s"
        ok = ok != block["fails"]
        results.append({"page": page["page"], "number": block["number"], "ok": ok, "output": output})
        results[-1]["seconds"] = round(time.perf_counter() - started, 2)
        if not ok:
            word = "was to fail" if block["fails"] else "failed"
            print(f"{place}: the block {word}:\n{block['text']}\n{output}", file=sys.stderr)
            break
    return results


def run_apart(page: dict, environment: dict) -> list[dict]:
    """A page in a process of its own, so that no page sees what another has imported or changed."""
    folder = Path(page["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(__file__).parents[3] / "docs" / "files", folder)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--page"], input=json.dumps(page).encode(), stdout=subprocess.PIPE, env=environment
    )
    results = json.loads(done.stdout.decode().rpartition("\x1e")[2] or "[]") if done.returncode == 0 else []
    if not results:
        results = [{"page": page["page"], "number": 0, "ok": False, "output": "the process of the page died"}]
        print(f"{page['page']}: the process of the page died ({done.returncode})", file=sys.stderr)
    print(f"{page['page']}: {len(results)} blocks in {time.perf_counter() - started:.1f} s", file=sys.stderr)
    return results


def main() -> None:
    if sys.argv[1] == "--page":
        page = json.load(sys.stdin)
        results = run_page(page)
        # After a mark, since code may have printed past what is caught.
        os.write(1, b"\x1e" + json.dumps(results).encode())
        return
    plan = json.loads(Path(sys.argv[1]).read_text())
    # The built command and the interpreter with the package come first.
    places = [str(Path(plan["lsparse"]).parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **os.environ, "PATH": os.pathsep.join(places), "MPLBACKEND": "agg", "COLUMNS": "100", "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [result for page in pool.map(lambda page: run_apart(page, environment), plan["pages"]) for result in page]
    Path(sys.argv[2]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
