"""The language of tables, figures, claims and choices in suites: schema, checks, expressions, published numbers.

Not here: what fills them (`content`, `figures`).
"""
