# `gad serve` in a container, from the wheel that `make package` leaves in dist. Not run where it was written: no container
# engine was at hand. Build it, and serve the models of a folder:
#     make package && docker build -t gad .
#     docker run -p 8000:8000 -v "$PWD/runs/logS:/models:ro" gad /models/model.gad
# To choose a smaller build of PyTorch, name its index: --build-arg PIP_EXTRA_INDEX_URL=…
FROM python:3.11-slim

ARG PIP_EXTRA_INDEX_URL
COPY dist/*.whl /tmp/
RUN wheel=$(ls /tmp/*.whl) && pip install --no-cache-dir "${wheel}[serve]" && rm "$wheel"

# The service writes nothing but the cache of its user, and needs no rights.
RUN useradd --create-home gad
USER gad
WORKDIR /home/gad
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["gad", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/model.gad"]
