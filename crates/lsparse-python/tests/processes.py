"""The processes that engines start, for tests that end some of them."""

from pathlib import Path


def children_of(parent):
    """The number and the command line of every process below one, parents first."""
    parents, words = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # Behind the name, which may have anything in it.
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                words[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
            except OSError:
                continue
    found = [parent]
    for pid in found:
        found += sorted(child for child, of in parents.items() if of == pid)
    return [(pid, words[pid]) for pid in found[1:]]
