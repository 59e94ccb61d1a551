"""The robots that are served: built-in ones, and those put at run time, kept in a folder."""
