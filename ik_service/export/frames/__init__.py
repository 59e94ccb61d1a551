"""Where an exported function keeps its arrays: on the caller's memory or in a block of its own."""
