"""Who is let in: API keys, shares of keys, deadlines, memory, and refusal under overload."""
