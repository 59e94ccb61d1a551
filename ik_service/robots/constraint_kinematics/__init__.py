"""Kinematics of constraints on the host: how far loops are open, closing them, motions that keep them closed."""
