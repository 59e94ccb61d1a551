"""Commands that solve: targets from options and files, answers to the console and to files."""
