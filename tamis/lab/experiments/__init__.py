"""What the commands `tamis lab ...` run: the missing cells, then tables, figures and files."""
