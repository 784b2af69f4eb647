"""The paper's experiments: run, record, compare.

``models`` turns a name of the paper's tables into a recipe, ``harness`` trains it and writes a
record, ``table`` puts the records beside the paper's numbers, and ``docs`` writes those tables into
the documentation.
"""
