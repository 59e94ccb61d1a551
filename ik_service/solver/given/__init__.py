"""Arguments of a caller: targets, options, worlds, requested limits, arrays of other libraries, all checked."""
