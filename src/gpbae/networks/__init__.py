"""Encoders and decoders on a single point; `over_rows` takes them to many."""

from gpbae.networks.arguments import (
    MLP,
    Conv,
    Identity,
    Linear,
    Starting,
    build_decoder,
    build_encoder,
    image_shape,
    is_image,
    widened,
)
from gpbae.networks.blocks import sum_over_rows
from gpbae.networks.convolutions import ConvDecoder, ConvEncoder
from gpbae.networks.layers import (
    ACTIVATIONS,
    NETWORK_DTYPE,
    AbstractEncoder,
    AbstractRows,
    Dense,
    DenseEncoder,
    IdentityDecoder,
    Layer,
    network_dtype,
    over_rows,
)
from gpbae.networks.partial import FactorEncoder, FactorNet, IndexEncoder, IndexNet, PointEncoder, PointNet
from gpbae.networks.private import Private, PrivateDecoder, num_private
from gpbae.networks.steerable import Steerable, SteerableDecoder

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "NETWORK_DTYPE",
    "AbstractEncoder",
    "AbstractRows",
    "Conv",
    "ConvDecoder",
    "ConvEncoder",
    "Dense",
    "DenseEncoder",
    "FactorEncoder",
    "FactorNet",
    "Identity",
    "IdentityDecoder",
    "IndexEncoder",
    "IndexNet",
    "Layer",
    "Linear",
    "PointEncoder",
    "PointNet",
    "Private",
    "PrivateDecoder",
    "Starting",
    "Steerable",
    "SteerableDecoder",
    "build_decoder",
    "build_encoder",
    "image_shape",
    "is_image",
    "network_dtype",
    "num_private",
    "over_rows",
    "sum_over_rows",
    "widened",
]
