"""What the words of scores and diagnostics mean, in one line each, for the places where they are shown."""

import re

MEANINGS = {
    "MAE": "mean absolute error; 0 is perfect",
    "RMSE": "root of the mean squared error; large errors count more than in MAE",
    "MSE": "mean squared error",
    "SMSE": "squared error as a share of the variance of the hidden values; 1 is what their own mean would have",
    "NLPD": "minus the log of the density given to the truth; lower is better, and being sure and wrong costs most",
    "NLL": "minus the log of a normal density with the predicted mean and variance, at the truth; lower is better",
    "CRPS": "distance of the predicted distribution from the truth; of a prediction without spread it is the MAE",
    "half the Brier score": "distance of the chances of all labels from the truth; 0 is perfect, 1 is sure and wrong",
    "coverage (in 90 %)": "share of the truths inside the interval of that probability; it should be as large",
    "PIT": "where the truth falls in its predicted distribution, from 0 to 1; evenly spread is right",
    "R-hat": "how much the chains disagree; below 1.1 in the median and below 1.2 for each quantity is good",
    "ESS": "effective sample size: how many independent draws the draws are worth; below 50 intervals are rough",
    "kinetic temperature": "1 where the sampler moves as it should; colder means optimising, hotter too large a step",
    "log joint": "log density of data and unknowns; it should wander without a trend",
    "output": "the decoder's at a cell, on the model's scale: of real numbers in standard deviations from the mean of "
    "their column (transformed, if it is), of counts a logarithm, of labels log odds",
    "GP values": "the Gaussian process at its inducing inputs, from which it is known everywhere else",
    "inducing inputs": "the places along the inputs where the model keeps what it knows; they move as it learns",
    "accepted moves of the kernel": "how often a proposed change of lengthscales and inducing inputs is taken; below "
    "20 % they hardly move",
    "lengthscale": "the distance along the inputs over which things change",
}
WRITTEN = {
    "coverage (in 90 %)": r"coverage|\bin \d\d\s%|\binside\b",
    "R-hat": r"r[-_ ]hat",
    "ESS": r"\bess\b|effective (draws|sample size)",
    "kinetic temperature": "kinetic[ _]temperature",
    "output": r"\boutput of\b",
    "log joint": "log[ _]joint",
}
"""How a word may look where it is used; else as it is written above, in capitals or not."""


def meanings(text: str) -> dict[str, str]:
    """The words with a meaning that occur in a text, and what they mean."""
    looks = {word: WRITTEN.get(word, rf"\b{re.escape(word)}\b") for word in MEANINGS}
    return {word: MEANINGS[word] for word, look in looks.items() if re.search(look, text, re.IGNORECASE)}
