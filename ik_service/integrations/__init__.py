"""The service and its solver on many processes and machines, through Ray; needs the extra `ray`.

Only commands with Ray import this package. Ray's usage statistics are off unless the environment sets them.
"""

import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
