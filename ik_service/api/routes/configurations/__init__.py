"""Routes that compute with configurations on the host, beside the event loop: poses, closed loops, clearances."""
