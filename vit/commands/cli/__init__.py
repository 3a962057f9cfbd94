"""The command line: options from signatures and recipes, values, help, errors."""
