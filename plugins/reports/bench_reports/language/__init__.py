"""The language of tables, figures, claims and choices in suites: schema, checks, expressions, published numbers.

The code that fills them is in `content` and `figures`.
"""
