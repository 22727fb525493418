"""Look at the documentation in a browser: `check_site.py FOLDER`. Exit status 0 if all is well, 77 where there is no browser."""

import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

sys.path.insert(0, str(Path(__file__).parents[3] / "crates/lsparse-python/tests"))
import browser  # noqa: E402

#: What people look for, and where they should be led.
SEARCHES = {
    "missing values": "how-to/messy-tables.html",
    "larger than memory": "how-to/huge-files.html",
    "--restarts": "reference/fit-topics.html",
    "gensim perplexity": "questions.html",
    "untrusted": "security.html",
    "license": "versions.html",
    "cite": "versions.html",
    "windows": "versions.html",
    "number of topics": "how-to/choose-k.html",
    "how many clusters": "how-to/choose-k.html",
    "out of core": "how-to/huge-files.html",
    "what is L": "how-to/choose-l.html",
    "compare models": "how-to/compare.html",
    "leave out column": "how-to/messy-tables.html",
    "C++ (regular expression?": None,
}


def copies(window, page):
    """What the button of the first example with prompts copies where there is no clipboard, and that it says so if it cannot."""
    window.open(page)
    script = """Object.defineProperty(navigator, 'clipboard', { value: undefined });
        document.execCommand = () => { window.COPIED = document.activeElement.value; return arguments[0] };
        const code = [...document.querySelectorAll('.code.pycon')].find((code) => code.textContent.startsWith('>>>'));
        code.querySelector('.copy').id = 'tried'; getSelection().removeAllRanges(); code.querySelector('.copy').click()"""
    for works, said in ((True, "copied"), (False, "press Ctrl-C")):
        window.open(page)
        window.run(script, works)
        window.until("return document.getElementById('tried').textContent === arguments[0]", said)
    assert ">>>" in window.run("return getSelection().toString()"), "what could not be copied is selected"
    return window.run("return window.COPIED")


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, and no line for each."""

    def log_message(self, *_):
        pass


def in_a_frame(window, site, find):
    """A frame that may do little has no storage; search leads to pages all the same. The address of what is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        with tempfile.TemporaryDirectory() as folder:
            frame = Path(folder) / "frame.html"
            frame.write_text(
                f"<html data-ready=yes><iframe sandbox=allow-scripts width=1200 height=800 src='{address}how-to/choose-l.html'></iframe>"
            )
            window.open(frame)
            window.ask("POST", "/frame", {"id": 0})
            window.until("return document.documentElement.dataset.ready === 'yes'")
            found = window.run(find, "missing values")
            assert found and all(link.startswith("../") for link in found), found
            window.ask("POST", "/frame", {"id": None})
    finally:
        server.shutdown()
        server.server_close()
    return address


def main():
    if browser.programs() is None:
        return 77
    window = browser.Browser(1300, 900)
    try:
        window.open(Path(sys.argv[1]) / "tutorials/topics.html")
        window.open(Path(sys.argv[1]) / "changelog.html")
        assert window.run("return scrollY") == 0, "a page begins at its top"
        here = "document.querySelector('#pages [aria-current]').getBoundingClientRect()"
        assert window.run(f"return {here}.top > 0 && {here}.bottom < innerHeight"), "the list shows where one is"
        window.open(Path(sys.argv[1]) / "tutorials/topics.html")
        find = """document.getElementById('search').value = arguments[0]; document.getElementById('search').oninput();
            return [...document.querySelectorAll('#found a')].map((link) => link.getAttribute('href'))"""
        for words, page in SEARCHES.items():
            found = window.run(find, words)
            assert page is None or any(page in link for link in found[:3]), f"{words!r} leads to {found}"
        copied = copies(window, Path(sys.argv[1]) / "api/TopicModel.html")
        assert copied and "TopicModel" in copied and ">>>" not in copied and "(20, 2)" not in copied, copied
        served = in_a_frame(window, Path(sys.argv[1]), find)
        window.open(Path(sys.argv[1]) / "tutorials/topics.html")
        themes = {window.run("document.getElementById('theme').click(); return document.documentElement.dataset.theme") for _ in "ab"}
        assert themes == {"light", "dark"}, themes
        window.resize(400, 800)
        shown = "return getComputedStyle(document.getElementById('pages')).display"
        assert window.run(shown) == "none"
        window.click("#menu")
        assert window.run(shown) == "block"
        wide = window.run("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"the page is {wide} pixels wider than a small screen"
        asked = [address for address in window.requests() if not str(address).startswith(("file:", "about:", "data:", served))]
        assert not asked, f"the pages ask for {asked}"
    finally:
        window.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
