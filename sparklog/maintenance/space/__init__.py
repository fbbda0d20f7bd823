"""Jobs that free space: retention and vacuum."""
