"""Commands that compare networks or runs: crossval, probe, compare."""
