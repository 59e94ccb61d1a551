"""Catalogs of robots and worlds: built in, or put at run time into a folder."""
