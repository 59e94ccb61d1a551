"""What a caller gives: targets, checks of type and shape, arrays of other libraries."""
