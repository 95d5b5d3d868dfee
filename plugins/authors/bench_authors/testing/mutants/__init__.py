"""Mutants: functions that return a case with a deliberate mistake, which contracts must catch."""
