"""Commands that write a model for other programs: export, convert."""
