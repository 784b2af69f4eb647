"""What turns ``docs`` into a site: generated pages, executed tutorials, formulas and drawings.

MkDocs calls :mod:`website.hooks` (see ``mkdocs.yml``); nothing here is a part of the package.
"""
