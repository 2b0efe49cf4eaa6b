"""The commands `tamis lab ...`: each file has HELP, EXAMPLES, add_arguments and run."""
