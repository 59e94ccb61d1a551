"""The service and its solver on many processes and machines, through Ray; needs the extra `ray`.

Nothing here is imported by the rest of the package, but by the commands that ask for it. Telling Ray's makers about
its use is off unless the environment says otherwise.
"""

import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
