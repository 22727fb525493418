# The command, built from the sources and put alone into an empty image:
#   docker build --tag lsparse . && docker run --rm --volume "$PWD:/data" lsparse demo --quiet
# Without a network: `cargo vendor` first, as its output says (.cargo/config.toml), and give an image with Rust by
# --build-arg RUST=...; the build then asks for nothing (CARGO_NET_OFFLINE).
ARG RUST=rust:1-alpine
FROM ${RUST} AS build
ARG CARGO_NET_OFFLINE=false
ENV CARGO_NET_OFFLINE=${CARGO_NET_OFFLINE}
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package lsparse-cli && cp target/release/lsparse /lsparse

FROM scratch
COPY --from=build /lsparse /lsparse
WORKDIR /data
ENTRYPOINT ["/lsparse"]
