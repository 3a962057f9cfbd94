"""Networks from outside: timm's, and your own by an import path."""
