"""Jobs that give space back: retention and vacuum."""
