"""Look at the documentation in a browser: `check_site.py FOLDER`. Exit status 0 if all is well, 77 where there is no browser."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "crates/lsparse-python/tests"))
import browser  # noqa: E402

#: What people look for, and where they should be led.
SEARCHES = {
    "missing values": "how-to/messy-tables.html",
    "larger than memory": "how-to/huge-files.html",
    "--restarts": "reference/fit-topics.html",
    "gensim perplexity": "questions.html",
    "C++ (regular expression?": None,
}


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
        themes = {window.run("document.getElementById('theme').click(); return document.documentElement.dataset.theme") for _ in "ab"}
        assert themes == {"light", "dark"}, themes
        window.resize(400, 800)
        shown = "return getComputedStyle(document.getElementById('pages')).display"
        assert window.run(shown) == "none"
        window.click("#menu")
        assert window.run(shown) == "block"
        wide = window.run("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"the page is {wide} pixels wider than a small screen"
        asked = [address for address in window.requests() if not str(address).startswith(("file:", "about:", "data:"))]
        assert not asked, f"the pages ask for {asked}"
    finally:
        window.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
