"""Training that is watched: the CPU time that pages cost it, with readers that are slow, half-open or silent.

A mixture is trained on made-up rows by one thread in many small steps, alone and with a page server (`--watch`) that has
visitors: one page that asks every second as the real one does, some that ask for everything and read a byte at a time, some
that send half a question, some that say nothing, and some that hang up in the middle. Both take turns. What pages cost is
told twice: as the part of all CPU time that was not spent by the thread that trains, which other work on the machine does not
blur, and as the CPU time of that thread, watched over alone, which also has what it does to keep pages informed.
"""

import argparse
import array
import json
import os
import random
import re
import socket
import statistics
import struct
import subprocess
import threading
import time
from pathlib import Path

DIM = 32


def write_rows(path, count):
    """Rows around 40 centres, as a NumPy file."""
    draws = random.Random(0)
    centres = [[draws.gauss(0, 3) for _ in range(DIM)] for _ in range(40)]
    values = array.array("f")
    for n in range(count):
        values.extend(c + draws.gauss(0, 1) for c in centres[n % 40])
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {DIM}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values.tobytes())


def ticks(path):
    """CPU seconds of a process or thread."""
    fields = Path(path).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def visit(host, port, path, kind, ended):
    """One visitor after the other of a kind, until training ends."""
    question = f"GET {path}state HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    has = ""
    while not ended.is_set():
        try:
            with socket.create_connection((host, port), timeout=10) as stream:
                if kind == "page":
                    stream.sendall(question.replace(b"state ", f"state?has={has} ".encode()))
                    answer = b"".join(iter(lambda: stream.recv(1 << 16), b""))
                    traces = json.loads(answer.split(b"\r\n\r\n", 1)[1])["traces"]
                    has = ",".join(f"{t['generation']}.{t['from'] + len(t['lines'])}" for t in traces)
                    ended.wait(1)
                elif kind == "slow":
                    stream.sendall(question)
                    while not ended.is_set() and stream.recv(1):
                        ended.wait(0.1)
                elif kind == "half":
                    stream.sendall(question[: len(question) // 2])
                    ended.wait(6)
                elif kind == "silent":
                    ended.wait(6)
                else:
                    stream.sendall(question)
                    stream.recv(10)
                    ended.wait(0.5)
        except (OSError, IndexError):
            # Hung up on, as where too many are there already.
            ended.wait(0.2)


VISITORS = ["page"] + ["slow"] * 8 + ["half"] * 8 + ["silent"] * 8 + ["leaving"] * 2


def train(lsparse, rows, out, laps, watched):
    """CPU seconds of all threads and of the one that trains."""
    command = [lsparse, "fit", "mixture", rows, "-k", "60", "--laps", str(laps), "--tolerance", "none", "--batches", "200"]
    command += ["--threads", "1", "--out", out] + (["--watch"] if watched else [])
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    ended, visitors = threading.Event(), []

    def listen():
        for line in run.stderr:
            if not visitors and (found := re.search(r"http://([\d.]+):(\d+)(/\w+/)", line)):
                for kind in VISITORS:
                    args = (found[1], int(found[2]), found[3], kind, ended)
                    visitors.append(threading.Thread(target=visit, args=args, daemon=True))
                    visitors[-1].start()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    whole = of_training = 0.0
    while run.poll() is None:
        try:
            tasks = [ticks(task / "stat") for task in Path(f"/proc/{run.pid}/task").iterdir()]
            # (Threads that have ended have no time any more.)
            if max(tasks) >= of_training:
                whole, of_training = ticks(f"/proc/{run.pid}/stat"), max(tasks)
        except (OSError, IndexError, ValueError):
            pass
        time.sleep(0.05)
    ended.set()
    listener.join(5)
    assert run.returncode == 0 and bool(visitors) == watched, (run.returncode, len(visitors))
    return whole, of_training


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lsparse")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--laps", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rows, out = args.folder / "watched.npy", args.folder / "watched.safetensors"
    write_rows(rows, args.rows)
    found = {False: [], True: []}
    for _ in range(args.turns):
        for watched in found:
            found[watched].append(train(args.lsparse, rows, out, args.laps, watched))
    part = {watched: sum(whole - own for whole, own in runs) / sum(whole for whole, _ in runs) for watched, runs in found.items()}
    own = {watched: [own for _, own in runs] for watched, runs in found.items()}
    print(json.dumps({
        "visitors": len(VISITORS),
        "other_threads_alone_percent": round(100 * part[False], 3),
        "other_threads_watched_percent": round(100 * part[True], 3),
        "training_thread_alone_s": sorted(own[False]),
        "training_thread_watched_s": sorted(own[True]),
        "training_thread_ratio": round(statistics.median(own[True]) / statistics.median(own[False]), 4),
    }))


if __name__ == "__main__":
    main()
