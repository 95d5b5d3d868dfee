"""Intervals, tests and bootstraps: numbers from numbers, of no suite or report."""
