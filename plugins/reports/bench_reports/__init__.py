"""Reports, from what a run left on disk and nothing else.

`report` writes them; `page` holds their words, `tables`, `listings` and `entries` their numbers, `figures`,
`spreads`, `insertions`, `draft` and `drawing` their figures. `verdicts` sets published numbers beside ours, `claims`
judges what a suite states, `choices` picks from grids, `certificates` holds promises against measurements.
"""
