"""Single faults in working suites and their files, written from what users were promised, not from the code."""
