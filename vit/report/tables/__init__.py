"""Tables and figures of measured images."""
