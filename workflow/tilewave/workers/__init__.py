"""Workers: processes that run a list of jobs and report each at once, and who starts them."""
