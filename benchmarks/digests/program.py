"""The program of digests: makes set-ups by name, writes their digests to a file or compares them with such a file.

A set-up is a name and a function that makes its parts by name: arrays, bytes, texts. Every part has a digest of its
own, so that a difference tells which part of which set-up changed. Answers depend on the CPU's level: write and compare
on one machine. A set-up or part that the file does not have is new: it is printed and not compared.
"""

import argparse
import hashlib
import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import warp as wp

Parts: TypeAlias = Mapping[str, Any]
SetUps: TypeAlias = Iterator[tuple[str, Callable[[], Parts]]]
Digests: TypeAlias = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Budget:
    """How much a run does."""

    scale: float = 1.0  # times as many problems and ticks
    threads: int = 1  # threads of the compiled engine, on which no answer depends

    def count(self, standard: int) -> int:
        """Return a number of problems or ticks, at least 1."""
        return max(1, round(self.scale * standard))


def run(title: str, set_ups: Callable[[Budget], SetUps]) -> int:
    """Read the command line, make the set-ups, and write or compare their digests; return the exit code."""
    parser = argparse.ArgumentParser(description=title)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", type=Path, help="file to write the digests to")
    mode.add_argument("--compare", type=Path, help="file with the digests of before")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only set-ups whose name begins so")
    parser.add_argument("--resume", action="store_true", help="with --write: keep the set-ups that the file has")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many problems and ticks")
    parser.add_argument("--threads", type=int, default=1, help="of the compiled engine; no digest depends on them")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    chosen = (one for one in set_ups(Budget(arguments.scale, arguments.threads)) if one[0].startswith(arguments.only))
    if arguments.write:
        found: Digests = json.loads(arguments.write.read_text()) if arguments.resume else {}
        faults = 0
        for name, make in chosen:
            if name not in found:
                faults += not made(name, make, found)
                arguments.write.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} set-ups written, {faults} failed")
        return int(bool(faults) or not found)
    known: Digests = json.loads(arguments.compare.read_text())
    found = {}
    for name, make in chosen:
        made(name, make, found)
    return compared({name: parts for name, parts in known.items() if name.startswith(arguments.only)}, found)


def made(name: str, make: Callable[[], Parts], found: Digests) -> bool:
    """Make a set-up and add its digests to those that were found; return whether it raised no error."""
    begun = time.perf_counter()
    try:
        found[name] = {part: digest(value) for part, value in make().items()}
    except Exception:  # noqa: BLE001  one fault must not hide what follows
        print(f"{name} failed:\n{traceback.format_exc(limit=-2)}", flush=True)
        return False
    whole = digest(json.dumps(found[name]))
    print(f"{name:<70} {len(found[name]):3d} parts {whole[:16]} {time.perf_counter() - begun:6.1f} s", flush=True)
    return True


def compared(known: Digests, found: Digests) -> int:
    """Print which parts of `known` are other ones in `found`, or missing, and what is new; return the exit code."""
    changed, new = [], []
    for name, parts in known.items():
        own = found.get(name, {})
        differ = [part for part in parts if own.get(part) != parts[part]]
        if differ:
            changed.append(f"{name}: {', '.join(differ) if own else 'missing'}")
    for name, own in found.items():
        more = [part for part in own if part not in known.get(name, {})]
        if more:
            new.append(f"{name}: {', '.join(more) if name in known else 'all parts'}")
    print(f"{len(known)} set-ups compared, {len(changed)} differ" + "".join(f"\n  {line}" for line in changed))
    if new:
        print(f"new, not compared: {len(new)}" + "".join(f"\n  {line}" for line in new))
    return int(bool(changed) or not known)


def digest(value: object) -> str:
    """Return the SHA-256 of an array with its type and shape, of bytes, or of what `repr` says."""
    if isinstance(value, np.ndarray):
        content = f"{value.dtype} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes()
    else:
        content = value if isinstance(value, bytes) else repr(value).encode()
    return hashlib.sha256(content).hexdigest()
