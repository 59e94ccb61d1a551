"""The page: how soon a robot is drawn, solves while dragging, and the time from a gizmo to the drawn pose.

python -m benchmarks.service.page [--write] [--picture docs/page.png]

It runs `benchmarks.peers.page_drags` in an environment with Playwright; a Chromium has to be there.
"""

import subprocess
import sys

from tests.other_environments import ROOT, python_with
from tests.page.test_browser import PLAYWRIGHT


def main() -> None:
    """Run the program with the arguments that are given."""
    command = [python_with("page", PLAYWRIGHT), "-m", "benchmarks.peers.page_drags", *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
