"""The paper's experiments: run, record, compare.

========================  =========================================================================
``paper``                 the numbers the paper prints
``models``, ``sets``      a row of its tables as a recipe; the graphs it is trained on
``harness``, ``jobs``     training a run, or going on with it; several at once
``records``, ``sheet``    what is kept of a run; its record while it is being written
``table``, ``grid``       the records beside the paper's numbers; the same as text
``docs``                  writes those tables into the documentation
========================  =========================================================================
"""
