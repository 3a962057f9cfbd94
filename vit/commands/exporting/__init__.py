"""Commands that write a model for other programs, or another model: export, convert, soup."""
