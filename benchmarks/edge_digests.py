"""Digests of what leaves the edges, to show that a change of the code changes no byte of it, or where it does.

python benchmarks/edge_digests.py --write before.json [--only PREFIX]       # on the code of before
python benchmarks/edge_digests.py --compare before.json [--only PREFIX]     # on the code of after

Edges are HTTP in JSON, MessagePack and npz, the client's results, streams, the files of the command line, parts of bulk
jobs, and the exported C: texts without comments, and what the example programs print. Times are blanked. Every key of a
body, column of a file and file of an export has its own digest, of the bytes that stand there; the order of keys has
none. README.md says the rest.
"""

import sys
from contextlib import suppress
from itertools import chain

from benchmarks.digests.bodies import bodies
from benchmarks.digests.files import exports, files
from benchmarks.digests.program import Budget, SetUps, run


def edges(_budget: Budget) -> SetUps:
    """Yield all set-ups."""
    return chain(bodies(), files(), exports())


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(run(__doc__, edges))
