"""Commands: the only code that talks to the user."""
