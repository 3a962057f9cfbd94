"""Reports: figures and HTML pages, which escape all text from outside."""
