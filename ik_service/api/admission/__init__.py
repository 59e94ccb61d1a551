"""Admission of requests: API keys, shares of keys, deadlines, memory, and refusal under overload."""
