"""The experiments by name."""

from gpbae.experiments import eeg, jura, moving_ball, rotated_mnist
from gpbae.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (moving_ball, rotated_mnist, eeg, jura)
}
