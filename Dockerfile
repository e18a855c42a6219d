# Two images beside that of the server, tensorflow/serving, which pipelines/serving/compose.yaml runs.
#
# train: every command of dtmt. Runs and downloads stay in a folder and a volume of yours:
#   docker build --target train -t dtmt .
#   docker run --rm -it --user "$(id -u)" -v "$PWD/saved_models:/dtmt/saved_models" -v dtmt:/cache \
#       dtmt train --task multi30k_ende
# For GPUs, which need NVIDIA's container toolkit: build with
#   --build-arg TENSORFLOW="tensorflow[and-cuda]"
# and run with --gpus all.
#
# page: the translation page on its own, without a checkout. It asks the server at port 8501:
#   docker build --target page -t dtmt-page .
#   docker run --rm -p 127.0.0.1:8080:80 dtmt-page

FROM python:3.12-slim AS train

WORKDIR /opt/dtmt_tf
COPY python3.12.lock requirements.txt ./
ARG TENSORFLOW=tensorflow
RUN pip install --no-cache-dir --require-hashes -r python3.12.lock \
    && pip install --no-cache-dir -c requirements.txt "${TENSORFLOW}"
COPY pyproject.toml README.md LICENSE ./
COPY dtmt_tf dtmt_tf
# whoever runs it, --user included, may write to both folders
RUN pip install --no-cache-dir --no-deps . && install -d -m 1777 /cache /dtmt

ENV HOME=/cache XDG_CACHE_HOME=/cache
WORKDIR /dtmt
USER 65534:65534
ENTRYPOINT ["dtmt"]
CMD ["--help"]

FROM nginx:stable-alpine AS page

COPY pipelines/serving/page /usr/share/nginx/html
# nginx reads them as another user, whatever the clone's modes
RUN chmod -R a+rX /usr/share/nginx/html
