# The static program and nothing else: `make build`, then `docker build --tag fathom --file Dockerfile bin`.
#
#   docker run --rm --network host fathom explain --uri mongodb://db1
#   docker run --rm --volume /data:/data fathom disk --dir /data
#
# Its run folders are below /state: give it a volume to keep them.
FROM scratch
COPY fathom /fathom
ENV FATHOM_STATE=/state
ENTRYPOINT ["/fathom"]
