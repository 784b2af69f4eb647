"""HTTP: models that answer, and a page to look at them. Needs the extra ``serve``.

=============  ====================================================================
module         what it does
=============  ====================================================================
``models``     the table of models by name; a request can name nothing else
``schemas``    what is asked and answered, as JSON
``batching``   requests that come together are predicted together, in one thread
``files``      a table up, the same table with predictions streamed back
``geometry``   a drawing and the eigenbasis of a molecule, for the page
``guard``      limits, API key, headers and counts around every request
``metrics``    counts in Prometheus' text format
``pages``      the page and a plain list of the interface, held in memory
``app``        the routes
``server``     the process: socket, start, graceful stop
=============  ====================================================================
"""

from __future__ import annotations

EXTRA = "the service needs FastAPI and uvicorn: pip install 'graph-anisotropic-diffusion[serve]'"
