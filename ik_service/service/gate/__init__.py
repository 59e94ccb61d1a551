"""Gate in front of the routes: connections, API keys, shares, deadlines, memory, request ids, logs and metrics."""
