"""Solver pools in processes of their own: their two ends, and how requests and answers go between them."""
