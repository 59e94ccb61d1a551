"""The robots that are served and the worlds that are kept: built in, or put at run time into a folder."""
