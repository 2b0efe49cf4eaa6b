"""The command line: one file for each command, with HELP, EXAMPLES, add_arguments and run."""
