"""Objectives about coordinates of joints: postures, limits and couplings."""
