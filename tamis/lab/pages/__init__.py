"""Pages and plots of the experiments, made from their results."""
