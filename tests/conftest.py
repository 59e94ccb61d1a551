"""What holds for every test: Warp says nothing below a warning."""

import warp as wp

wp.config.log_level = wp.LOG_WARNING
