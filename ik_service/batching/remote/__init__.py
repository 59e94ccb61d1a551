"""A solver pool in a process of its own: its two ends, and how requests and answers go between them."""
