"""The answer of a study, as numbers and as sentences."""
